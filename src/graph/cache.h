/* The KV cache: the states that tokens wrote, layer by layer, part by part - nothing else. */
#ifndef CH_GRAPH_CACHE_H
#define CH_GRAPH_CACHE_H

#include "base/error.h"
#include "tensor/gated_attend.h"

typedef enum ch_part_kind {
  CH_PART_ELEMENTS, /* of every token, in the cache's type: what the cache's size counts */
  CH_PART_SCALARS,  /* of every token, in F32: counted in bytes only */
  CH_PART_BY_ID /* a function of the token's id: one row for all tokens of an id, in memory once the id is seen */
} ch_part_kind;

/* One part of a token's state in one layer, e.g. the keys of all key-value heads. */
typedef struct ch_state_part {
  const char *name; /* "k" */
  int64_t width;    /* elements a token */
  ch_part_kind kind;
} ch_state_part;

/* The parts of one layer; width 0 = no such part. */
typedef struct ch_layer_parts {
  ch_state_part part[CH_MAX_STATE_PARTS];
} ch_layer_parts;

typedef struct ch_cache {
  ch_dtype dtype;              /* of the stored elements: F32, F64, F16 or BF16 */
  int64_t sequences, capacity; /* capacity: tokens per sequence */
  int64_t vocabulary;          /* rows of a part by id */
  int layers;
  ch_state_view (*views)[CH_MAX_STATE_PARTS]; /* [layers]: where each part lies: [sequence, token, width], or
                                                 [id, width] */
  int32_t *length;                            /* [sequences] tokens held */
  int32_t *tokens;                            /* [sequences, capacity] their ids, or NULL: no part is by id */
  size_t bytes; /* allocated for tokens: elements, scalars and ids. Parts by id are not of tokens. */
  void *data;
  size_t data_bytes, element_bytes; /* of elements and scalars; of elements alone */
  char *by_id;                      /* all parts by id; takes memory as rows are written */
  size_t by_id_bytes;
} ch_cache;

typedef struct ch_cache_shape {
  int layers;
  const ch_layer_parts *parts; /* [layers] */
  int64_t sequences, capacity, vocabulary;
  ch_dtype dtype;
} ch_cache_shape;

/* Storage for `capacity` tokens is allocated once. */
ch_status ch_cache_create(const ch_cache_shape *shape, ch_cache **cache, ch_error *error);
void ch_cache_free(ch_cache *cache);
/* The ids of a sequence's tokens; the cache keeps them. */
int32_t *ch_cache_tokens(const ch_cache *cache, int64_t sequence);
/* Forgets all tokens after the first `length` of every sequence. */
void ch_cache_truncate(ch_cache *cache, int32_t length);

#endif
