/* Cache storage: one allocation, cut into parts. */
#include "graph/cache.h"

#include <stdlib.h>

#include "base/memory.h"

static const __int128_t MOST_BYTES = (__int128_t)1 << 46;

/* What parts by id, and scalars, are stored as. */
static ch_dtype type_of(const ch_cache *cache, ch_part_kind kind) {
  if (kind == CH_PART_ELEMENTS) return cache->dtype;
  return cache->dtype == CH_F64 ? CH_F64 : CH_F32;
}

static int64_t rows_of(const ch_cache *cache, ch_part_kind kind) {
  return kind == CH_PART_BY_ID ? cache->vocabulary : cache->sequences * cache->capacity;
}

/* Bytes of all parts of a kind; a hostile capacity must not overflow. */
static __int128_t bytes_of(const ch_cache_shape *shape, const ch_cache *cache, ch_part_kind kind) {
  __int128_t elements = 0;
  for (int l = 0; l < shape->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++)
      if (shape->parts[l].part[p].kind == kind)
        elements += (__int128_t)shape->parts[l].part[p].width * rows_of(cache, kind);
  return elements * (__int128_t)ch_dtype_size(type_of(cache, kind));
}

static bool allocate(ch_cache *cache, const ch_cache_shape *shape) {
  cache->views = calloc((size_t)cache->layers, sizeof *cache->views);
  cache->length = calloc((size_t)cache->sequences, sizeof *cache->length);
  __int128_t elements = bytes_of(shape, cache, CH_PART_ELEMENTS),
             bytes = elements + bytes_of(shape, cache, CH_PART_SCALARS),
             by_id = bytes_of(shape, cache, CH_PART_BY_ID),
             ids = by_id ? (__int128_t)cache->sequences * cache->capacity * (__int128_t)sizeof(int32_t) : 0;
  if (!cache->views || !cache->length || bytes > MOST_BYTES || by_id > MOST_BYTES) return false;
  cache->data_bytes = (size_t)bytes;
  cache->element_bytes = (size_t)elements;
  cache->by_id_bytes = (size_t)by_id;
  cache->bytes = (size_t)(bytes + ids);
  cache->data = ch_pages_alloc(cache->data_bytes);
  if (!by_id) return cache->data;
  cache->by_id = ch_sparse_alloc(cache->by_id_bytes);
  cache->tokens = malloc((size_t)ids);
  return cache->data && cache->by_id && cache->tokens;
}

/* Scalars come first: they need the stricter alignment. */
static void place(ch_cache *cache, const ch_cache_shape *shape) {
  static const ch_part_kind order[] = {CH_PART_SCALARS, CH_PART_ELEMENTS, CH_PART_BY_ID};
  char *next = cache->data;
  for (int k = 0; k < 3; k++) {
    if (order[k] == CH_PART_BY_ID) next = cache->by_id;
    ch_dtype dtype = type_of(cache, order[k]);
    for (int l = 0; l < cache->layers; l++)
      for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
        const ch_state_part *part = &shape->parts[l].part[p];
        if (part->kind != order[k] || part->width == 0) continue;
        cache->views[l][p] = (ch_state_view){.data = next,
                                             .dtype = dtype,
                                             .token_stride = part->width,
                                             .sequence_stride = part->width * cache->capacity};
        next += (size_t)(part->width * rows_of(cache, part->kind)) * ch_dtype_size(dtype);
      }
  }
}

ch_status ch_cache_create(const ch_cache_shape *shape, ch_cache **result, ch_error *error) {
  *result = NULL;
  ch_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a cache");
  *cache = (ch_cache){.dtype = shape->dtype,
                      .sequences = shape->sequences,
                      .capacity = shape->capacity,
                      .vocabulary = shape->vocabulary,
                      .layers = shape->layers};
  if (!allocate(cache, shape)) {
    ch_cache_free(cache);
    return ch_fail(error, CH_ERROR_MEMORY,
                   "no memory for a cache of %lld sequences of %lld tokens; fewer would fit",
                   (long long)shape->sequences, (long long)shape->capacity);
  }
  place(cache, shape);
  *result = cache;
  return CH_OK;
}

void ch_cache_free(ch_cache *cache) {
  if (!cache) return;
  if (cache->data) ch_pages_free(cache->data, cache->data_bytes);
  ch_sparse_free(cache->by_id, cache->by_id_bytes);
  free(cache->tokens);
  free(cache->views);
  free(cache->length);
  free(cache);
}

int32_t *ch_cache_tokens(const ch_cache *cache, int64_t sequence) {
  return cache->tokens + sequence * cache->capacity;
}

void ch_cache_truncate(ch_cache *cache, int32_t length) {
  for (int64_t s = 0; s < cache->sequences; s++)
    if (cache->length[s] > length) cache->length[s] = length;
}
