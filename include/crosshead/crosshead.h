/* Crosshead: run language models with any attention mechanism from their directories.
 *
 *   model    a directory with config.json, model.safetensors and tokenizer.json, opened once. It never changes
 *            after that: any number of threads may use one model at the same time.
 *   session  one or more sequences of tokens being read or written, with the key-value cache they need. A
 *            session belongs to one thread at a time; two sessions, of one model or of two, run side by side.
 *
 * Every fallible function returns a ch_status and fills *error (may be NULL) with one sentence; on failure
 * nothing is left to release and the objects passed in are as they were, unless the function says otherwise.
 * Nothing prints, exits or keeps global state. Shapes are written [outer, ..., inner], row-major. */
#ifndef CROSSHEAD_CROSSHEAD_H
#define CROSSHEAD_CROSSHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crosshead/status.h>
#include <crosshead/version.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ch_model ch_model;
typedef struct ch_session ch_session;

/* The version of the library that is running, e.g. "0.1.0"; compare with CH_VERSION_STRING of the headers.
 * Static storage. */
CH_API const char *ch_version(void);

/* Releases memory that this library handed out. NULL is fine. */
CH_API void ch_free(void *memory);

/* ---- Models ---- */

/* Opens the model of DIRECTORY (ours, or a Hugging Face llama, qwen2, qwen3 or mistral directory). Weights are
 * mapped from the files, not copied: opening a large model is quick and processes share one copy, and the
 * files must stay as they are until ch_model_close. A directory without tokenizer.json opens too, but cannot
 * encode or decode text.
 * Errors: CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_CONFIG, CH_ERROR_MEMORY; each names the file and the key. */
CH_API ch_status ch_model_open(const char *directory, ch_model **model, ch_error *error);

/* Releases the model; every session of it must be freed before. NULL is fine. */
CH_API void ch_model_close(ch_model *model);

/* V, the number of token ids: valid ids are 0 ... V - 1. */
CH_API int64_t ch_model_vocab_size(const ch_model *model);

/* The longest sequence the model was made for, in tokens. */
CH_API int64_t ch_model_context_length(const ch_model *model);

/* The figures of `crosshead info --json`: one JSON object with parameters_total, cache_elements_per_token and
 * the rest. *json is NUL-terminated and the caller's: release it with ch_free. */
CH_API ch_status ch_model_info(const ch_model *model, char **json, ch_error *error);

/* ---- Text and tokens ---- */

/* True when the model came with a tokenizer. */
CH_API bool ch_model_has_tokenizer(const ch_model *model);

/* The tokens of SIZE bytes of UTF-8 text. `begin` says that a text begins here: the beginning-of-text token
 * goes in front when the tokenizer uses one; otherwise the text goes on from an earlier part. Special tokens
 * written out in the text are not recognised: they are ordinary text.
 * *count becomes the number of tokens, which may be more than `capacity`: then CH_ERROR_FULL is returned,
 * tokens [capacity] holds the first of them, and a second call with room for *count succeeds. tokens may be
 * NULL when capacity is 0. */
CH_API ch_status ch_encode(const ch_model *model, const char *text, size_t size, bool begin, int32_t *tokens,
                           size_t capacity, size_t *count, ch_error *error);

/* The text of tokens [count], NUL-terminated (though tokens may stand for NUL bytes: *size is the length
 * without the last NUL). The bytes need not be whole UTF-8 characters. *text is the caller's: release it with
 * ch_free. Errors: CH_ERROR_ARGUMENT for an id outside 0 ... V - 1. */
CH_API ch_status ch_decode(const ch_model *model, const int32_t *tokens, size_t count, char **text,
                           size_t *size, ch_error *error);

/* ---- Sessions ---- */

/* How numbers are stored. */
typedef enum ch_precision {
  CH_PRECISION_DEFAULT = 0, /* what the library takes: F32 for a cache */
  CH_PRECISION_F32 = 1,
  CH_PRECISION_F16 = 2,
  CH_PRECISION_BF16 = 3,
  CH_PRECISION_Q8_0 = 4, /* 32 values share a scale: 8.5 bits each */
  CH_PRECISION_Q4_0 = 5  /* 4.5 bits */
} ch_precision;

/* Fill with ch_session_defaults, then change what should differ: members may be added in later versions. */
typedef struct ch_session_settings {
  int64_t max_tokens; /* room for each sequence, prompt included; 0 = the context length, at most 4096 */
  int32_t sequences;  /* B: how many sequences run in step; default 1 */
  int32_t threads;    /* 0 = as many as OpenMP gives (OMP_NUM_THREADS, else all cores) */
  ch_precision cache; /* the cache's elements; */
  ch_precision cache_keys, cache_values,
      cache_latents; /* of these, where they differ: default = as `cache` */
} ch_session_settings;

/* What a session takes, in bytes. */
typedef struct ch_memory {
  uint64_t weights;   /* the model's tensors: mapped files (shared between processes) and copies */
  uint64_t cache;     /* the key-value cache: all layers, sequences and max_tokens */
  uint64_t workspace; /* activations, logits and scratch */
} ch_memory;

CH_API void ch_session_defaults(ch_session_settings *settings);

/* What ch_session_create with these settings (NULL = the defaults) would allocate, without allocating it. */
CH_API ch_status ch_memory_estimate(const ch_model *model, const ch_session_settings *settings,
                                    ch_memory *memory, ch_error *error);

/* A session with empty sequences. The cache is allocated here, work memory when a number of tokens is first
 * fed; feeding one token after another allocates nothing. The model must outlive it. settings may be NULL for
 * the defaults. Errors: CH_ERROR_ARGUMENT, CH_ERROR_MEMORY. */
CH_API ch_status ch_session_create(const ch_model *model, const ch_session_settings *settings,
                                   ch_session **session, ch_error *error);

/* NULL is fine. */
CH_API void ch_session_free(ch_session *session);

/* Appends tokens [B, count] to the sequences (count >= 1; the rows are B sequences of equal length) and
 * points *logits at [B, V] F32: the scores of what follows each sequence's last token. *logits belongs to the
 * session and is valid until the next call with it. Feeding a text at once or token by token gives the same
 * logits within rounding. Errors: CH_ERROR_FULL when max_tokens would be passed, CH_ERROR_ARGUMENT for an id
 * outside 0 ... V - 1; in both the session is unchanged. */
CH_API ch_status ch_session_feed(ch_session *session, const int32_t *tokens, size_t count,
                                 const float **logits, ch_error *error);

/* The tokens each sequence holds now. */
CH_API int64_t ch_session_length(const ch_session *session);

/* The bytes that the session's cache object has really allocated. */
CH_API uint64_t ch_session_cache_bytes(const ch_session *session);

/* Empties the sequences and keeps the memory. */
CH_API void ch_session_reset(ch_session *session);

/* ---- Sampling and generation ---- */

/* How the next token is chosen. Fill with ch_sampler_defaults. */
typedef struct ch_sampler {
  double temperature; /* logits are divided by it; 0 = always the likeliest, the first of ties; default 1 */
  int32_t top_k;      /* keep only the k likeliest tokens; 0 = all (default) */
  double top_p;       /* then keep the fewest tokens whose probabilities sum to p; 1 = all (default) */
  uint64_t state[4];  /* random state, advanced by every draw; set by ch_sampler_defaults, not by hand */
} ch_sampler;

/* The defaults, with a random state that depends on `seed` alone. */
CH_API void ch_sampler_defaults(ch_sampler *sampler, uint64_t seed);

/* Draws a token from logits [vocab_size]; the same sampler and logits always give the same token. Errors:
 * CH_ERROR_ARGUMENT for settings out of range, CH_ERROR_NUMERIC when a logit is NaN, CH_ERROR_MEMORY. */
CH_API ch_status ch_sample(ch_sampler *sampler, const float *logits, int64_t vocab_size, int32_t *token,
                           ch_error *error);

/* Called with each new piece of text: whole UTF-8 characters, not NUL-terminated, valid during the call.
 * Returning false stops the generation. */
typedef bool (*ch_text_sink)(const char *text, size_t size, void *user);

/* What ch_generate did. */
typedef struct ch_generated {
  int64_t prompt_tokens, tokens;          /* tokens fed from the prompt, tokens written */
  double prefill_seconds, decode_seconds; /* wall time of each part */
} ch_generated;

/* Feeds PROMPT (NUL-terminated UTF-8, encoded as ch_encode does with `begin` true when the session is empty)
 * and writes up to max_tokens tokens (0 = as many as fit) to `sink`, until the model ends its text, the sink
 * returns false or the session is full. The session must have one sequence; it is left holding the prompt and
 * what was written, so that a second call goes on from there. sampler may be NULL for the defaults with seed
 * 0, sink for no text, result when nobody asks. Errors: CH_ERROR_ARGUMENT without tokenizer or with a prompt of
 * no tokens, CH_ERROR_FULL when the prompt does not fit; nothing is fed then. */
CH_API ch_status ch_generate(ch_session *session, const char *prompt, int64_t max_tokens, ch_sampler *sampler,
                             ch_text_sink sink, void *user, ch_generated *result, ch_error *error);

/* A text to be written by ch_generate_batch; it can be zero-initialised but for `prompt`. */
typedef struct ch_batch_text {
  const char *prompt;     /* NUL-terminated UTF-8. Neighbours with the same pointer share its computation */
  int64_t max_tokens;     /* 0 = as many as fit */
  ch_sampler *sampler;    /* of this text alone, advanced; NULL for the defaults with seed 0 */
  ch_text_sink sink;      /* or NULL; returning false stops this text */
  void *user;             /* the sink's */
  ch_generated generated; /* what was done. A shared prompt counts for the text that it was computed for */
  ch_status status;       /* CH_OK, or CH_ERROR_NUMERIC where a logit of this text was NaN: it ended there */
} ch_batch_text;

/* Writes texts [count], as many in step as the session has sequences (at most 32), so that the matrices are read
 * once for all of them. They may differ in length; when one has ended, the next takes its place. Each text is what
 * ch_generate makes of it alone in an empty session with the same sampler and number of threads (its logits bit for bit,
 * or within rounding: weights in blocks, talking heads, embedding gates). Sinks are
 * called by the calling thread, each with pieces of its own text. What the session held is forgotten, and it is left
 * empty. Errors: those of ch_generate, before anything is written, with the text's index in the sentence. A logit that
 * is NaN ends its text alone: the others are written, then the first such error is returned. */
CH_API ch_status ch_generate_batch(ch_session *session, ch_batch_text *texts, size_t count, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif
