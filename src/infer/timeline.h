/* A timeline: a model's timeline with its own KV cache. Prefill and decoding of one or several sequences in step. */
#ifndef CH_INFER_TIMELINE_H
#define CH_INFER_TIMELINE_H

#include "model/runner.h"

typedef struct ch_timeline_options {
  int64_t sequences;     /* advanced together */
  int64_t context;       /* most tokens a sequence may hold */
  int64_t chunk;         /* tokens of a prefill pass */
  ch_cache_types cache;  /* what it stores; all zero: F32 */
  ch_dtype compute;      /* ch_model's */
  bool precompute_gates; /* EG-MLA-A: embedding gates of the whole vocabulary are tabulated at once */
  bool expand_gates;     /* decode by expanding every gated latent: slower, to compare with */
} ch_timeline_options;

typedef struct ch_timeline ch_timeline;

/* One sequence, the model's context (at most 4096), chunks of ch_prefill_tokens, F32 cache. */
void ch_timeline_options_default(const ch_config *config, ch_timeline_options *options);
/* config, params and weights [params->count] must outlive the timeline and may be shared by many. */
ch_status ch_timeline_create(const ch_config *config, const ch_params *params, const ch_tensor *weights,
                             const ch_timeline_options *options, ch_timeline **timeline, ch_error *error);
void ch_timeline_free(ch_timeline *timeline);

/* Feeds `count` tokens to every sequence (tokens [sequences, count]), in chunks. *logits [sequences, V] F32 are those
   after the last token; owned by the timeline, valid until the next call. */
ch_status ch_timeline_feed(ch_timeline *timeline, const int32_t *tokens, int64_t count, const float **logits,
                           ch_error *error);
/* Feeds `count` tokens to one sequence, in chunks: *logits [V] as above. */
ch_status ch_timeline_feed_one(ch_timeline *timeline, int64_t sequence, const int32_t *tokens, int64_t count,
                               const float **logits, ch_error *error);
/* Feeds a token to each of the first `count` sequences, which may hold different numbers of tokens: *logits [count, V]. With
   up to CH_FEW_ROWS sequences, what becomes of one does not depend on the others: its logits are the same, bit for bit; within
   rounding where weights are in blocks, heads talk, or tokens of one id are taken together. */
ch_status ch_timeline_step(ch_timeline *timeline, int64_t count, const int32_t *tokens, const float **logits,
                           ch_error *error);
/* Sequence `to` becomes the first `length` tokens of sequence `from`, which may be itself. */
void ch_timeline_copy(ch_timeline *timeline, int64_t from, int64_t to, int64_t length);
/* One pass over `count` tokens with the logits of all of them: *logits [sequences, count, V]. */
ch_status ch_timeline_feed_all(ch_timeline *timeline, const int32_t *tokens, int64_t count,
                               const float **logits, ch_error *error);
/* Fills the cache with made-up states up to `length` tokens, as if those had been fed: to measure speed at a depth
   without the work of reaching it. ids: those of the tokens, again and again, where states depend on them; or NULL for
   made-up ones. */
ch_status ch_timeline_pretend(ch_timeline *timeline, int64_t length, uint64_t seed, const int32_t *ids,
                              int64_t id_count, ch_error *error);
/* Forgets everything after the first `length` tokens. */
void ch_timeline_rewind(ch_timeline *timeline, int64_t length);
int64_t ch_timeline_length(const ch_timeline *timeline);
/* V, the length of a row of logits. */
int64_t ch_timeline_vocabulary(const ch_timeline *timeline);
/* Bytes of cache elements really allocated. */
const ch_cache *ch_timeline_cache(const ch_timeline *timeline);
/* Where per-operation times go, or NULL. */
void ch_timeline_profile(ch_timeline *timeline, ch_profile *profile);

#endif
