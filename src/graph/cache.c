/* Cache storage: one allocation, cut into parts. */
#include "graph/cache.h"

#include <stdlib.h>

#include "base/memory.h"

static const __int128_t MOST_BYTES = (__int128_t)1 << 46;

static __int128_t storage_bytes(int layers, const ch_layer_widths *widths, const ch_cache *cache) {
  __int128_t elements = 0; /* a hostile capacity must not overflow */
  for (int l = 0; l < layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++)
      elements += (__int128_t)widths[l].part[p] * cache->sequences * cache->capacity;
  return elements * (__int128_t)ch_dtype_size(cache->dtype);
}

ch_status ch_cache_create(int layers, const ch_layer_widths *widths, bool keep_tokens, ch_dtype dtype,
                          int64_t sequences, int64_t capacity, ch_cache **result, ch_error *error) {
  *result = NULL;
  ch_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a cache");
  *cache = (ch_cache){.dtype = dtype, .sequences = sequences, .capacity = capacity, .layers = layers};
  cache->views = calloc((size_t)layers, sizeof *cache->views);
  cache->length = calloc((size_t)sequences, sizeof *cache->length);
  __int128_t bytes = storage_bytes(layers, widths, cache);
  __int128_t ids = keep_tokens ? (__int128_t)sequences * capacity * (__int128_t)sizeof *cache->tokens : 0;
  if (bytes <= MOST_BYTES) {
    cache->data_bytes = (size_t)bytes;
    cache->data = ch_pages_alloc(cache->data_bytes);
    cache->tokens = cache->data && ids ? malloc((size_t)ids) : NULL;
    cache->bytes = (size_t)(bytes + ids);
  }
  if (!cache->views || !cache->length || !cache->data || (keep_tokens && !cache->tokens)) {
    ch_cache_free(cache);
    return ch_fail(error, CH_ERROR_MEMORY,
                   "no memory for a cache of %lld sequences of %lld tokens; fewer would fit",
                   (long long)sequences, (long long)capacity);
  }
  char *next = cache->data;
  for (int l = 0; l < layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      int64_t width = widths[l].part[p];
      cache->views[l][p] = (ch_state_view){
          .data = next, .dtype = dtype, .token_stride = width, .sequence_stride = width * capacity};
      next += (size_t)(width * sequences * capacity) * ch_dtype_size(dtype);
    }
  *result = cache;
  return CH_OK;
}

void ch_cache_free(ch_cache *cache) {
  if (!cache) return;
  if (cache->data) ch_pages_free(cache->data, cache->data_bytes);
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
