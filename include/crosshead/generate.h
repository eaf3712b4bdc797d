/* Writing text and choosing tokens.
 *
 *   ch_generation_result result;
 *   ch_sampler sampler;
 *   ch_sampler_defaults(&sampler, 1); // the seed
 *   sampler.temperature = 0.8;
 *   if (ch_generate(session, "Once upon a time", 100, &sampler, NULL, NULL, &result, NULL) == CH_OK)
 *     printf("%d tokens, %s\n", (int)result.tokens, ch_end_name(result.end));
 *
 * From simple to advanced: a prompt, one text with all settings, many texts at a time, tokens chosen one by
 * one. <crosshead/generation.h> is for servers. */
#ifndef CROSSHEAD_GENERATE_H
#define CROSSHEAD_GENERATE_H

#include <crosshead/session.h>
#include <crosshead/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A prompt ---- */

/* Settings for choosing the next token. Fill with ch_sampler_defaults. */
typedef struct ch_sampler {
  /* divisor of the logits; 0 = always the likeliest token, the lower id of equals; default 1 */
  double temperature;
  int32_t top_k; /* number of likeliest tokens to draw from; 0 = all (default) */
  /* sum of probabilities, 0 to 1: draws use the fewest of the top_k tokens that reach it; 1 = all (default) */
  double top_p;
  uint64_t state[4]; /* random state, advanced by every draw; only ch_sampler_defaults sets it */
} ch_sampler;

/* Fills in the defaults, with a random state that depends on `seed` alone. */
CH_API void ch_sampler_defaults(ch_sampler *sampler, uint64_t seed);

/* Called with each new piece of text: whole UTF-8 characters, not NUL-terminated, valid during the call.
 * Returning false stops the generation. */
typedef bool (*ch_text_sink)(const char *text, size_t size, void *user);

/* The reason why a text ended. */
typedef enum ch_end {
  CH_END_TOKEN = 0,   /* the model chose an end-of-text token, which is not written */
  CH_END_LIMIT = 1,   /* max_tokens tokens were written */
  CH_END_FULL = 2,    /* the session has no room for more tokens */
  CH_END_STOPPED = 3, /* a sink or the session's progress callback returned false */
  CH_END_ERROR = 4,   /* an error ended the text, such as a logit that is not a number */
  CH_END_STRING = 5   /* a stop string was completed; the text ends before it */
} ch_end;

/* Returns the name of an end: "end", "length", "context", "stopped", "failed" or "stop string"; "unknown" for any
 * other number. Static storage. */
CH_API const char *ch_end_name(ch_end end);

/* The results of a generation. */
typedef struct ch_generation_result {
  int64_t prompt_tokens, tokens;          /* tokens of the prompt that were computed, and tokens written */
  double prefill_seconds, decode_seconds; /* wall time of reading the prompt, and of writing */
  ch_end end;
  int32_t stop_string; /* index of the stop string that ended the text; -1 without CH_END_STRING */
} ch_generation_result;

/* Reads a prompt (NUL-terminated UTF-8) and writes at most `max_tokens` tokens after it; 0 = as many as fit. An empty
 * session begins a text; any other continues its tokens. The session must have one sequence. Afterwards it holds the
 * prompt and the generated tokens, so that a second call continues from there. result and sink may be NULL; a sampler
 * of NULL means the defaults with seed 0. A callback that returns false ends the text with CH_END_STOPPED and CH_OK.
 * Errors: CH_ERROR_ARGUMENT for settings out of range, a session of several sequences, a model without tokenizer and
 * a prompt of no tokens, CH_ERROR_FORMAT for text that the tokenizer cannot encode, CH_ERROR_FULL when the prompt
 * does not fit; nothing is fed then. CH_ERROR_NUMERIC (see ch_sample) and CH_ERROR_MEMORY end the text, which keeps
 * its earlier tokens. */
CH_API ch_status ch_generate(ch_session *session, const char *prompt, int64_t max_tokens, ch_sampler *sampler,
                             ch_text_sink sink, void *user, ch_generation_result *result, ch_error *error);

/* ---- One text with all settings ---- */

/* A token and its probability. */
typedef struct ch_token_probability {
  int32_t token;
  double log_probability; /* ln of the softmax of the raw logits, before temperature, top-k and top-p */
} ch_token_probability;

/* Called with each token written, before its text. top [top_count] are the likeliest tokens at its position, as
 * ch_top_tokens orders them. Both pointers are valid during the call. Returning false stops the text. */
typedef bool (*ch_token_sink)(const ch_token_probability *token, const ch_token_probability *top,
                              int32_t top_count, void *user);

/* A text to generate. Zero-initialise it and set `prompt`, or `prompt_tokens`; later versions may add members.
 * Everything that it points to is the caller's and must last until the call has returned. */
typedef struct ch_batch_text {
  /* NUL-terminated UTF-8; consecutive texts with the same pointer compute the prompt once */
  const char *prompt;
  int64_t max_tokens;  /* maximum number of tokens to write; 0 = as many as fit */
  ch_sampler *sampler; /* sampler of this text, whose state advances; NULL = the defaults with seed 0 */
  ch_text_sink sink;   /* receives the text; or NULL */
  void *user;          /* argument of both sinks */
  /* the results; of texts that share a prompt, only one counts the prompt's tokens */
  ch_generation_result generated;
  /* result: CH_OK, or the error that ended the text, such as CH_ERROR_NUMERIC (see ch_sample) */
  ch_status status;
  const int32_t *prompt_tokens; /* [prompt_token_count] ids in place of `prompt`, which must then be NULL */
  size_t prompt_token_count;
  bool prompt_special; /* true: special tokens written out in `prompt` become their ids (CH_TEXT_SPECIAL) */
  /* [stop_count] stop strings, NUL-terminated UTF-8, none empty. The text ends before the stop string that is
   * completed first, even if that one begins in the middle of a token; sinks get no byte of it. The session
   * holds the tokens up to the one that completed it. */
  const char *const *stops;
  int32_t stop_count;
  ch_token_sink token_sink; /* receives each token, those of a stop string too; or NULL */
  int32_t top_count;        /* number of likeliest tokens that token_sink receives, 0 to 100 */
  ch_ids *ids; /* the ids of the tokens written are appended, those of a stop string too; or NULL */
  /* result, set before the first sink call: bytes at the beginning of the text that complete a character of
   * the prompt */
  int32_t prompt_bytes;
} ch_batch_text;

/* Generates one text as ch_generate does, with the settings of `text`, whose results it fills. A model without
 * a tokenizer can continue prompt_tokens; its sink gets no text. Errors: those of ch_generate; text->status is
 * set too.
 *
 *   ch_ids written = {0};
 *   const char *stops[] = {"\n\n"};
 *   ch_batch_text text = {.prompt = "Q: 2 + 2?\nA:", .stops = stops, .stop_count = 1, .ids = &written};
 *   if (ch_generate_text(session, &text, NULL) == CH_OK) printf("%zu tokens\n", written.size);
 *   ch_ids_free(&written); */
CH_API ch_status ch_generate_text(ch_session *session, ch_batch_text *text, ch_error *error);

/* ---- Many texts at a time ---- */

/* The maximum number of texts that are generated at a time. */
enum { CH_BATCH_MOST = 32 };

/* Generates texts [count], as many at a time as the session has sequences (at most CH_BATCH_MOST), so that the
 * matrices are read once for all of them. They may differ in length; when one has ended, the next replaces
 * it. Each text is what ch_generate_text writes for it alone in an empty session with the same sampler and
 * number of threads, bit for bit (within rounding with block-quantised weights, talking heads and
 * embedding gates). Sinks are called by the calling thread, each with pieces of its own text. The session's
 * tokens are lost, and it is empty afterwards. Errors: those of ch_generate_text, before any text is written,
 * with the text's index in the sentence. A NaN logit ends its text alone: the others are completed, then the
 * first such error is returned. CH_ERROR_MEMORY ends all texts.
 *
 *   ch_batch_text texts[] = {{.prompt = "One"}, {.prompt = "Two", .max_tokens = 20}};
 *   if (ch_generate_batch(session, texts, 2, NULL) == CH_OK) puts(ch_end_name(texts[1].generated.end)); */
CH_API ch_status ch_generate_batch(ch_session *session, ch_batch_text *texts, size_t count, ch_error *error);

/* ---- Tokens one by one ---- */

/* Draws *token from logits [vocab_size] and advances the sampler's state. Equal samplers and logits give equal
 * tokens. Errors: CH_ERROR_ARGUMENT for settings out of range; CH_ERROR_NUMERIC when a logit is NaN or
 * +infinite, or all are -infinite; CH_ERROR_MEMORY.
 *
 *   const float *logits;
 *   int32_t token = 1; // the first of the text
 *   ch_sampler sampler;
 *   ch_sampler_defaults(&sampler, 1);
 *   while (ch_session_feed(session, &token, 1, &logits, NULL) == CH_OK &&
 *          ch_sample(&sampler, logits, ch_model_vocab_size(model), &token, NULL) == CH_OK)
 *     printf("%d\n", (int)token); */
CH_API ch_status ch_sample(ch_sampler *sampler, const float *logits, int64_t vocab_size, int32_t *token,
                           ch_error *error);

/* Computes ln of the probability that logits [vocab_size] give to a token: the log-softmax of the logits
 * before temperature, top-k and top-p. Errors: CH_ERROR_ARGUMENT for a token outside the vocabulary,
 * CH_ERROR_NUMERIC when a logit is NaN or +infinite, or all are -infinite. */
CH_API ch_status ch_log_probability(const float *logits, int64_t vocab_size, int32_t token,
                                    double *log_probability, ch_error *error);

/* Fills top [count] with the likeliest tokens, the likeliest first; of equally likely ones, the lower id comes first.
 * Errors: those of ch_log_probability, and CH_ERROR_ARGUMENT for a count outside 1 ... vocab_size. */
CH_API ch_status ch_top_tokens(const float *logits, int64_t vocab_size, ch_token_probability *top,
                               int32_t count, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif
