/* Writing text: a prompt through the cache, then a token at a time, until the model ends its text. */
#ifndef CH_INFER_GENERATE_H
#define CH_INFER_GENERATE_H

#include "infer/sampling.h"
#include "infer/timeline.h"
#include "text/tokenizer.h"

/* Why a text ended. */
typedef enum ch_generation_end {
  CH_GENERATION_ENDED,   /* the model wrote one of the end tokens */
  CH_GENERATION_LENGTH,  /* as many tokens as were asked for */
  CH_GENERATION_FULL,    /* the context holds no more */
  CH_GENERATION_STOPPED, /* the caller said so */
  CH_GENERATION_FAILED   /* a logit was not a number */
} ch_generation_end;

/* Called after the token `id` was chosen, with the text that it completes: whole characters of valid UTF-8 (what is not
   becomes U+FFFD), not NUL-terminated, valid during the call; size 0 while a character is unfinished. Called with id -1
   between passes over the prompt and for what is left at the end. Returning false stops. */
typedef bool (*ch_generation_sink)(void *context, int32_t id, const char *text, size_t size);

typedef struct ch_generation_options {
  ch_sampling sampling;
  ch_random random;          /* advanced by every draw */
  int64_t max_tokens;        /* 0 = as many as fit */
  const int32_t *end_tokens; /* [end_token_count] ids that end the text; none is written */
  int end_token_count;
  ch_generation_sink sink; /* may be NULL */
  void *context;
} ch_generation_options;

/* What was done; on failure what had been done until then. */
typedef struct ch_generation_result {
  int64_t prompt_tokens, tokens;          /* fed from the prompt, written */
  double prefill_seconds, decode_seconds; /* decoding: choosing and feeding every token written */
  ch_generation_end end;
} ch_generation_result;

/* A text to be written: from a prompt [count], which others may share, with settings of its own. */
typedef struct ch_generation_text {
  const int32_t *prompt;
  int64_t count;
  ch_generation_options options;
  ch_generation_result result; /* of a prompt that was computed for an earlier text no tokens were fed */
  ch_status status;            /* CH_OK, or why this text could not go on; its sentence is in `error` */
  ch_error error;
} ch_generation_text;

/* Writes all texts, as many in step as the timeline has sequences (at most CH_FEW_ROWS); when one has ended, the next takes its
   place. Each text is what it would be alone (ch_timeline_step). Sinks are called by the calling thread. Texts side by
   side whose prompts are the same memory share its computation. What the timeline held is forgotten. A text whose logits are
   broken ends alone, with CH_GENERATION_FAILED and its `status`; the others go on, and the first such status is returned
   when all have ended. Other errors as of ch_generate_tokens: CH_ERROR_FULL and CH_ERROR_ARGUMENT before anything is fed;
   what concerns no text by itself ends all. */
ch_status ch_generate_texts(ch_timeline *timeline, const ch_tokenizer *tokenizer, ch_generation_text *texts,
                            int64_t count, ch_error *error);

/* Feeds `prompt` (at least one token, or a NULL prompt is an error) to a timeline of one sequence and goes on from
   there. The timeline is left holding the prompt and every token written, so that a second call continues. tokenizer
   may be NULL: then no text is made. Errors: CH_ERROR_FULL when the prompt does not fit (nothing is fed then),
   CH_ERROR_NUMERIC when a logit is not a number. */
ch_status ch_generate_tokens(ch_timeline *timeline, const ch_tokenizer *tokenizer, const int32_t *prompt,
                             int64_t count, ch_generation_options *options, ch_generation_result *result,
                             ch_error *error);

/* Appends `size` bytes to `text` with every byte that belongs to no valid character replaced by U+FFFD. */
void ch_put_valid_utf8(ch_text *text, const char *bytes, size_t size);

#endif
