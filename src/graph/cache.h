/* The KV cache: the states that tokens wrote, layer by layer, part by part - nothing else. */
#ifndef CH_GRAPH_CACHE_H
#define CH_GRAPH_CACHE_H

#include "base/error.h"
#include "tensor/attend.h"

/* One part of a token's state in one layer, e.g. the keys of all key-value heads. */
typedef struct ch_state_part {
  const char *name; /* "k" */
  int64_t width;    /* elements a token */
} ch_state_part;

/* The widths of one layer's parts; 0 = no such part. */
typedef struct ch_layer_widths {
  int64_t part[CH_MAX_STATE_PARTS];
} ch_layer_widths;

typedef struct ch_cache {
  ch_dtype dtype;              /* of the stored elements: F32, F64, F16 or BF16 */
  int64_t sequences, capacity; /* capacity: tokens per sequence */
  int layers;
  ch_state_view (*views)[CH_MAX_STATE_PARTS]; /* [layers]: where each part lies, [sequence, token, width] */
  int32_t *length;                            /* [sequences] tokens held */
  int32_t *tokens; /* [sequences, capacity] their ids, or NULL: nothing reads them */
  void *data;
  size_t data_bytes;
  size_t bytes; /* storage really allocated for elements and ids */
} ch_cache;

/* widths [layers]. Storage for `capacity` tokens is allocated once. keep_tokens: room for their ids too. */
ch_status ch_cache_create(int layers, const ch_layer_widths *widths, bool keep_tokens, ch_dtype dtype,
                          int64_t sequences, int64_t capacity, ch_cache **cache, ch_error *error);
void ch_cache_free(ch_cache *cache);
/* The ids of a sequence's tokens; the cache keeps them. */
int32_t *ch_cache_tokens(const ch_cache *cache, int64_t sequence);
/* Forgets all tokens after the first `length` of every sequence. */
void ch_cache_truncate(ch_cache *cache, int32_t length);

#endif
