/* Stores a cache: one allocation, divided into the parts of all layers, and a second one for parts by id. Mechanisms
 * define the meaning of a part. */
#include "graph/cache.h"

#include <stdlib.h>
#include <string.h>

static const __int128_t MOST_BYTES = (__int128_t)1 << 46;

bool ch_is_cache_type(ch_dtype dtype) {
  return dtype == CH_F32 || dtype == CH_F16 || dtype == CH_BF16 || dtype == CH_Q8_0 || dtype == CH_Q4_0;
}

ch_dtype ch_part_type(const ch_state_part *part, const ch_cache_types *types) {
  return part->kind == CH_PART_ELEMENTS ? types->of[part->role] : CH_F32;
}

int64_t ch_stored_width(int64_t width, ch_dtype dtype) {
  int64_t block = ch_dtype_block(dtype);
  return (width + block - 1) / block * block;
}

/* Adds up the bytes that a token has in all parts of a kind. */
static int64_t rows_bytes(const ch_layer_parts *parts, int layers, const ch_cache_types *types,
                          ch_part_kind kind) {
  int64_t bytes = 0;
  for (int l = 0; l < layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_part *part = &parts[l].part[p];
      ch_dtype dtype = ch_part_type(part, types);
      if (part->kind == kind) bytes += (int64_t)ch_dtype_bytes(dtype, ch_stored_width(part->width, dtype));
    }
  return bytes;
}

int64_t ch_token_bytes(const ch_layer_parts *parts, int layers, const ch_cache_types *types) {
  return rows_bytes(parts, layers, types, CH_PART_ELEMENTS);
}

/* Returns true if a layer stores its tokens in a ring. */
static bool is_ring(const ch_cache_shape *shape, int layer) {
  return shape->parts[layer].slides && shape->window < shape->capacity - shape->sinks;
}

/* Returns the number of tokens of a sequence that a layer stores. */
static int64_t rows_of(const ch_cache_shape *shape, int layer) {
  return is_ring(shape, layer) ? shape->window + shape->sinks : shape->capacity;
}

/* Returns the bytes of all parts except those by id: the elements and scalars of all tokens, and the fixed parts. */
static __int128_t kept_bytes(const ch_cache_shape *shape) {
  __int128_t bytes = 0;
  for (int l = 0; l < shape->layers; l++)
    bytes +=
        (__int128_t)shape->sequences *
        ((__int128_t)rows_of(shape, l) * (rows_bytes(&shape->parts[l], 1, &shape->types, CH_PART_ELEMENTS) +
                                          rows_bytes(&shape->parts[l], 1, &shape->types, CH_PART_SCALARS)) +
         rows_bytes(&shape->parts[l], 1, &shape->types, CH_PART_FIXED));
  return bytes;
}

static int64_t token_elements(const ch_cache_shape *shape) {
  int64_t elements = 0;
  for (int l = 0; l < shape->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++)
      if (shape->parts[l].part[p].kind == CH_PART_ELEMENTS) elements += shape->parts[l].part[p].width;
  return elements;
}

/* Allocates the memory of the cache. The capacity comes from the caller and may have any value; products with
   it must not overflow. */
static bool allocate(ch_cache *cache, const ch_cache_shape *shape) {
  const ch_cache_types *types = &shape->types;
  __int128_t tokens = (__int128_t)cache->sequences * cache->capacity;
  cache->views = calloc((size_t)cache->layers, sizeof *cache->views);
  cache->length = calloc((size_t)cache->sequences, sizeof *cache->length);
  cache->reached = calloc((size_t)cache->sequences, sizeof *cache->reached);
  cache->token_elements = token_elements(shape);
  cache->token_bytes = ch_token_bytes(shape->parts, shape->layers, types);
  cache->rings = calloc((size_t)cache->layers, sizeof *cache->rings);
  cache->rows_before = calloc((size_t)cache->sequences, sizeof *cache->rows_before);
  cache->places = calloc((size_t)cache->sequences, sizeof *cache->places);
  cache->any_fixed = rows_bytes(shape->parts, shape->layers, &shape->types, CH_PART_FIXED) > 0;
  if (!cache->rings || !cache->rows_before || !cache->places) return false;
  for (int l = 0; l < cache->layers; l++) {
    cache->rings[l] = is_ring(shape, l);
    cache->any_ring |= cache->rings[l];
  }
  __int128_t bytes = kept_bytes(shape),
             by_id = (__int128_t)cache->vocabulary *
                     rows_bytes(shape->parts, shape->layers, types, CH_PART_BY_ID),
             ids = by_id ? tokens * (__int128_t)sizeof(int32_t) : 0;
  if (!cache->views || !cache->length || !cache->reached || bytes > MOST_BYTES || by_id > MOST_BYTES)
    return false;
  cache->data_bytes = (size_t)bytes;
  cache->by_id_bytes = (size_t)by_id;
  cache->bytes = (size_t)(bytes + ids);
  cache->data = cache->memory->allocate(cache->data_bytes);
  if (!by_id) return cache->data;
  cache->by_id = cache->memory->allocate_sparse(cache->by_id_bytes);
  cache->tokens = malloc((size_t)ids);
  return cache->data && cache->by_id && cache->tokens;
}

/* Lays out the parts of a type one after the other from `next` on; returns the end. */
static char *place_parts(ch_cache *cache, const ch_cache_shape *shape, bool by_id, ch_dtype dtype,
                         char *next) {
  for (int l = 0; l < cache->layers; l++) {
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_part *part = &shape->parts[l].part[p];
      const int64_t kept = part->kind == CH_PART_FIXED ? 1 : rows_of(shape, l),
                    rows = by_id ? cache->vocabulary : cache->sequences * kept;
      if (part->width == 0 || (part->kind == CH_PART_BY_ID) != by_id ||
          ch_part_type(part, &shape->types) != dtype)
        continue;
      int64_t width = ch_stored_width(part->width, dtype);
      cache->views[l][p] = (ch_state_view){
          .data = next, .dtype = dtype, .token_stride = width, .sequence_stride = width * kept};
      next += (size_t)rows * ch_dtype_bytes(dtype, width);
    }
  }
  return next;
}

ch_status ch_cache_create(const ch_cache_shape *shape, ch_cache **result, ch_error *error) {
  *result = NULL;
  ch_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return ch_no_memory(error);
  *cache = (ch_cache){.types = shape->types,
                      .sequences = shape->sequences,
                      .capacity = shape->capacity,
                      .vocabulary = shape->vocabulary,
                      .window = shape->window,
                      .sinks = shape->sinks,
                      .layers = shape->layers,
                      .memory = shape->memory};
  if (!allocate(cache, shape)) {
    int64_t token_bytes = cache->token_bytes;
    ch_cache_free(cache);
    return ch_fail(error, CH_ERROR_MEMORY,
                   "no memory for a cache of %lld sequences of %lld tokens, %lld bytes per token; use a "
                   "shorter context or a smaller {cache_dtype} (BF16, Q8_0)",
                   (long long)shape->sequences, (long long)shape->capacity, (long long)token_bytes);
  }
  /* Types with stricter alignment come first. */
  static const ch_dtype order[] = {CH_F32, CH_F16, CH_BF16, CH_Q8_0, CH_Q4_0};
  char *next = cache->data;
  for (int i = 0; i < 5; i++) next = place_parts(cache, shape, false, order[i], next);
  place_parts(cache, shape, true, CH_F32, cache->by_id);
  *result = cache;
  return CH_OK;
}

void ch_cache_free(ch_cache *cache) {
  if (!cache) return;
  if (cache->data) cache->memory->release(cache->data, cache->data_bytes);
  if (cache->by_id) cache->memory->release_sparse(cache->by_id, cache->by_id_bytes);
  free(cache->tokens);
  free(cache->rings);
  free(cache->rows_before);
  free(cache->places);
  free(cache->views);
  free(cache->length);
  free(cache->reached);
  free(cache);
}

int32_t *ch_cache_tokens(const ch_cache *cache, int64_t sequence) {
  return cache->tokens + (cache->order ? cache->order[sequence] : sequence) * cache->capacity;
}

bool ch_cache_holds(const ch_cache *cache, int layer, int part) {
  const char *data = cache->views[layer][part].data, *first = cache->data;
  return data && data >= first && data < first + cache->data_bytes;
}

static char *row_at(const ch_state_view *view, int64_t sequence, int64_t row) {
  return (char *)view->data + ch_dtype_bytes(view->dtype, ch_state_at(view, sequence, row));
}

static char *sequence_at(const ch_state_view *view, int64_t sequence) {
  return row_at(view, sequence, 0);
}

/* Returns the row that a token has in a ring. */
static int64_t row_of(const ch_cache *cache, int64_t token) {
  return token < cache->sinks ? token : cache->sinks + (token - cache->sinks) % cache->window;
}

void ch_cache_touch(const ch_cache *cache, int64_t sequence, int64_t tokens) {
  enum { PAGE = 4096 };
  if (!cache->memory->host) return;
  for (int l = 0; l < cache->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_view *view = &cache->views[l][p];
      if (!ch_cache_holds(cache, l, p)) continue;
      const int64_t wanted = tokens * view->token_stride,
                    elements = wanted < view->sequence_stride ? wanted : view->sequence_stride;
      volatile char *row = sequence_at(view, sequence);
      for (size_t at = 0; at < ch_dtype_bytes(view->dtype, elements); at += PAGE) row[at] = row[at];
    }
}

void ch_cache_append(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer,
                     int part, int64_t sequence, int64_t count, int64_t width, const void *x) {
  const ch_state_view *view = &cache->views[layer][part];
  int64_t row = cache->rings[layer] ? row_of(cache, cache->length[sequence]) : cache->length[sequence];
  char *to = row_at(view, sequence, row);
  if (ch_dtype_is_block_quantised(view->dtype))
    kernels->pack_states(team, count, width, x, view->dtype, to);
  else
    kernels->convert_to(team, count * width, x, view->dtype, to);
}

/* --- rings ---------------------------------------------------------------------------------------------- */

/* Returns the number of rows of a ring that hold tokens, after `length` tokens. */
static int64_t rows_held(const ch_cache *cache, int64_t length) {
  int64_t most = cache->window + cache->sinks;
  return length < most ? length : most;
}

/* Prepares a pass of one token, which reads the ring itself. The rows after the newest one are the oldest. */
static void begin_in_ring(const ch_cache *cache, int64_t token, int32_t *rows_before, ch_row_places *places) {
  int64_t row = row_of(cache, token);
  *rows_before = (int32_t)(rows_held(cache, token + 1) - 1);
  *places = (ch_row_places){
      .sinks = cache->sinks, .turn = row + 1, .newer = token - row, .older = token - row - cache->window};
  if (token == row) *places = (ch_row_places){.turn = INT64_MAX};
}

/* Prepares a pass of several tokens. It reads a copy: the sinks, the window - 1 tokens before its first token,
   then its own tokens. */
static void begin_staged(const ch_cache *cache, int64_t first, int32_t *rows_before, ch_row_places *places) {
  int64_t sinks = first < cache->sinks ? first : cache->sinks, recent = first - sinks;
  if (recent > cache->window - 1) recent = cache->window - 1;
  *rows_before = (int32_t)(sinks + recent);
  *places = (ch_row_places){.sinks = sinks, .turn = INT64_MAX, .newer = first - recent - sinks};
}

void ch_cache_begin(ch_cache *cache, int64_t count) {
  for (int64_t s = 0; cache->any_ring && s < cache->sequences; s++)
    (count == 1 ? begin_in_ring : begin_staged)(cache, cache->length[s], &cache->rows_before[s],
                                                &cache->places[s]);
}

int64_t ch_stage_rows(int64_t window, int64_t sinks, int64_t capacity, int64_t count) {
  int64_t most = window - 1 + sinks + count;
  return capacity < most ? capacity : most;
}

/* Copies rows of tokens first … end-1 between a ring and rows in the order of tokens. */
static void copy_ring(const ch_cache *cache, const ch_state_view *view, int64_t sequence, int64_t first,
                      int64_t end, char *ordered, bool to_ring) {
  while (first < end) {
    const int64_t row = row_of(cache, first), last = cache->window + cache->sinks,
                  count = end - first < last - row ? end - first : last - row;
    const size_t bytes = ch_dtype_bytes(view->dtype, count * view->token_stride);
    char *ring = row_at(view, sequence, row);
    cache->memory->copy(to_ring ? ring : ordered, to_ring ? ordered : ring, bytes);
    ordered += bytes;
    first += count;
  }
}

void ch_cache_stage(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer,
                    int part, int64_t sequence, int64_t count, int64_t width, const void *x, void *stage) {
  const ch_state_view *view = &cache->views[layer][part];
  const int64_t first = cache->length[sequence], end = first + count, before = cache->rows_before[sequence],
                sinks = cache->places[sequence].sinks;
  const size_t row = ch_dtype_bytes(view->dtype, view->token_stride);
  char *own = (char *)stage + (size_t)before * row;
  copy_ring(cache, view, sequence, 0, sinks, stage, false);
  copy_ring(cache, view, sequence, first - (before - sinks), first, (char *)stage + (size_t)sinks * row,
            false);
  if (ch_dtype_is_block_quantised(view->dtype))
    kernels->pack_states(team, count, width, x, view->dtype, own);
  else
    kernels->convert_to(team, count * width, x, view->dtype, own);
  const int64_t end_sinks = first >= cache->sinks ? first
                            : end < cache->sinks  ? end
                                                  : cache->sinks,
                recent = end - cache->window > end_sinks ? end - cache->window : end_sinks;
  copy_ring(cache, view, sequence, first, end_sinks, own, true);
  copy_ring(cache, view, sequence, recent, end, own + (size_t)(recent - first) * row, true);
}

bool ch_cache_can_go_back(const ch_cache *cache, int64_t sequence, int32_t length) {
  const int64_t held = cache->length[sequence];
  if (cache->any_fixed && length > 0 && length < held) return false;
  return !cache->any_ring || cache->reached[sequence] <= cache->window + cache->sinks ||
         length <= cache->sinks || length >= cache->reached[sequence] - 1;
}

void ch_cache_set_length(ch_cache *cache, int64_t sequence, int32_t length) {
  int32_t *reached = &cache->reached[sequence];
  /* A ring loses no tokens until it is full, and sinks are never overwritten. */
  if (length > *reached || length <= cache->sinks || *reached <= cache->window + cache->sinks)
    *reached = length;
  cache->length[sequence] = length;
}

/* --- by id, selections, copies -------------------------------------------------------------------------- */

void ch_cache_put_by_id(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer,
                        int part, int64_t count, const int32_t *ids, int64_t width, const void *x) {
  const ch_state_view *view = &cache->views[layer][part];
  size_t row = (size_t)width * ch_dtype_size(view->dtype),
         own = (size_t)width * ch_dtype_size(kernels->dtype);
  for (int64_t r = 0; r < count; r++)
    kernels->convert_to(team, width, (const char *)x + (size_t)r * own, view->dtype,
                        (char *)view->data + (size_t)ids[r] * row);
}

void ch_cache_get_by_id(const ch_cache *cache, int layer, int part, int64_t count, const int32_t *ids,
                        int64_t first, int64_t width, void *rows) {
  const ch_state_view *view = &cache->views[layer][part];
  size_t element = ch_dtype_size(view->dtype), bytes = (size_t)width * element;
  for (int64_t r = 0; r < count; r++)
    cache->memory->copy((char *)rows + (size_t)r * bytes,
                        (const char *)view->data + (size_t)(ids[r] * view->token_stride + first) * element,
                        bytes);
}

void ch_cache_fill(const ch_cache *cache, const ch_kernels *kernels, const ch_team *team, int layer, int part,
                   const void *stored, size_t bytes) {
  const ch_state_view *view = &cache->views[layer][part];
  size_t all = ch_dtype_bytes(view->dtype, cache->sequences * view->sequence_stride);
  kernels->repeat_bytes(team, (int64_t)bytes, stored, (int64_t)all, (void *)view->data);
}

ch_status ch_cache_selection_create(ch_cache *whole, ch_cache_selection **result, ch_error *error) {
  const size_t sequences = (size_t)whole->sequences;
  ch_cache_selection *selection = calloc(1, sizeof *selection);
  *result = selection;
  if (selection) {
    selection->whole = whole;
    selection->cache.views = malloc((size_t)whole->layers * sizeof *whole->views);
    selection->cache.length = malloc(sequences * sizeof *whole->length);
    selection->cache.reached = malloc(sequences * sizeof *whole->reached);
    selection->cache.rows_before = malloc(sequences * sizeof *whole->rows_before);
    selection->cache.places = malloc(sequences * sizeof *whole->places);
  }
  if (selection && selection->cache.views && selection->cache.length && selection->cache.reached &&
      selection->cache.rows_before && selection->cache.places)
    return CH_OK;
  ch_cache_selection_free(selection);
  *result = NULL;
  return ch_no_memory(error);
}

void ch_cache_selection_free(ch_cache_selection *selection) {
  if (!selection) return;
  free(selection->cache.views);
  free(selection->cache.length);
  free(selection->cache.reached);
  free(selection->cache.rows_before);
  free(selection->cache.places);
  free(selection);
}

void ch_cache_select(ch_cache_selection *selection, const int32_t *order, int64_t count) {
  const ch_cache own = selection->cache, *whole = selection->whole;
  ch_cache *cache = &selection->cache;
  *cache = *whole;
  cache->views = own.views;
  cache->length = own.length;
  cache->reached = own.reached;
  cache->rows_before = own.rows_before;
  cache->places = own.places;
  cache->sequences = count;
  cache->order = order;
  for (int64_t s = 0; s < count; s++) {
    cache->length[s] = whole->length[order[s]];
    cache->reached[s] = whole->reached[order[s]];
  }
  for (int l = 0; l < cache->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      cache->views[l][p] = whole->views[l][p];
      if (ch_cache_holds(whole, l, p)) cache->views[l][p].order = order;
    }
}

void ch_cache_selection_keep(const ch_cache_selection *selection) {
  const ch_cache *cache = &selection->cache;
  for (int64_t s = 0; s < cache->sequences; s++) {
    selection->whole->length[cache->order[s]] = cache->length[s];
    selection->whole->reached[cache->order[s]] = cache->reached[s];
  }
}

/* Returns the bytes to copy of a sequence's part if `wanted` of its `held` tokens are copied. A ring is copied
   as a whole. A fixed part is one row. */
static size_t held_bytes(const ch_cache *cache, int layer, int part, int64_t held, int64_t wanted) {
  const ch_state_view *view = &cache->views[layer][part];
  const int64_t rows = cache->rings[layer] ? rows_held(cache, held) : wanted;
  const bool fixed = view->sequence_stride == view->token_stride;
  return ch_dtype_bytes(view->dtype, (fixed && rows > 1 ? 1 : rows) * view->token_stride);
}

void ch_cache_copy(ch_cache *cache, int64_t from, int64_t to, int32_t length) {
  const int32_t held = cache->length[from];
  cache->reached[to] = cache->reached[from];
  ch_cache_set_length(cache, to, length);
  if (from == to) return;
  for (int l = 0; l < cache->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_view *view = &cache->views[l][p];
      if (ch_cache_holds(cache, l, p))
        cache->memory->copy(sequence_at(view, to), sequence_at(view, from),
                            held_bytes(cache, l, p, held, length));
    }
  if (cache->tokens)
    memcpy(ch_cache_tokens(cache, to), ch_cache_tokens(cache, from), (size_t)length * sizeof *cache->tokens);
}

/* Copies the rows by id of the tokens in a cache. */
static void copy_by_id(const ch_cache *from, ch_cache *to, int layer, int part) {
  const ch_state_view *view = &from->views[layer][part];
  size_t row = ch_dtype_bytes(view->dtype, view->token_stride);
  for (int64_t s = 0; s < from->sequences; s++)
    for (int32_t t = 0; t < from->length[s]; t++) {
      size_t at = (size_t)ch_cache_tokens(from, s)[t] * row;
      to->memory->copy((char *)to->views[layer][part].data + at, (const char *)view->data + at, row);
    }
}

void ch_cache_copy_all(const ch_cache *from, ch_cache *to) {
  for (int64_t s = 0; s < from->sequences; s++) {
    to->length[s] = from->length[s];
    to->reached[s] = from->reached[s];
    if (from->tokens)
      memcpy(ch_cache_tokens(to, s), ch_cache_tokens(from, s),
             (size_t)from->length[s] * sizeof *from->tokens);
  }
  for (int l = 0; l < from->layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_view *view = &from->views[l][p];
      if (ch_cache_holds(from, l, p))
        for (int64_t s = 0; s < from->sequences; s++)
          to->memory->copy(sequence_at(&to->views[l][p], s), sequence_at(view, s),
                           held_bytes(from, l, p, from->length[s], from->length[s]));
      else if (view->data)
        copy_by_id(from, to, l, p);
    }
}

void ch_cache_truncate(ch_cache *cache, int32_t length) {
  for (int64_t s = 0; s < cache->sequences; s++)
    if (cache->length[s] > length) ch_cache_set_length(cache, s, length);
}
