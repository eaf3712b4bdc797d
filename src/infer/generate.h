/* Generates text: feeds a prompt, then one token after the other, until the model ends its text. */
#ifndef CH_INFER_GENERATE_H
#define CH_INFER_GENERATE_H

#include <crosshead/generate.h>

#include "infer/sampling.h"
#include "infer/session.h"
#include "text/tokenizer.h"

/* A text to generate, its prompt as tokens. */
typedef struct ch_generation_text {
  /* settings except prompt and sampler; receives `generated`, `status` and the ids */
  ch_batch_text *asked;
  ch_sampler sampler;    /* state that every draw advances */
  const int32_t *prompt; /* [count] ids; if texts share them, only one text counts the prompt tokens */
  int64_t count;
  const int32_t *end_tokens; /* [end_token_count] ids that end the text and are not part of it */
  int end_token_count;
  ch_error error; /* error of asked->status */
  void *own;      /* private to generate.c */
} ch_generation_text;

/* Generates all texts, as many at a time as the session has sequences (at most CH_SKINNY_ROWS). When a text ends, the
   next one starts in its place. Each text is the same as if it were generated alone (ch_session_step). The calling
   thread calls the sinks. Consecutive texts whose prompts are the same memory share the computation of the prompt.
   The session's previous contents are lost. A text with broken logits ends with CH_END_ERROR and sets asked->status;
   the others continue. When all have ended, the first such status is returned. CH_ERROR_FULL and
   CH_ERROR_ARGUMENT are returned before anything is fed. Errors that concern no single text end all texts. */
ch_status ch_generate_texts(ch_session *session, const ch_tokenizer *tokenizer, ch_generation_text *texts,
                            int64_t count, ch_error *error);

/* Feeds the prompt of one text (at least one token) to a session of one sequence and generates from there.
   Afterwards the session holds the prompt and every generated token, so that a second call continues. If tokenizer
   is NULL, no text is decoded. Errors: CH_ERROR_FULL if the prompt does not fit (nothing is fed), CH_ERROR_NUMERIC if
   a logit is not a number. */
ch_status ch_generate_tokens(ch_session *session, const ch_tokenizer *tokenizer, ch_generation_text *text,
                             ch_error *error);

#endif
