/* Streaming attention over few queries, by dot products: each key is multiplied with the few queries that read its
 * head as vectors along the head's dimension, so that keys are used as they lie in memory and no lane is wasted.
 *
 * With one column a head (every query head has keys of its own) nothing but the memory matters, and states are taken in
 * its order, here; more columns go through the tiles of attend_group.c. 16-bit elements are widened as they are loaded.
 */
#include "tensor/kernels/attend_group.h"
#include "tensor/kernels/attend_pairs.h"

/* --- BF16 two at a time -------------------------------------------------------------------------------------- */

/* A vector of 32-bit lanes holds two BF16 elements in each: the upper one is its F32 with the lower bits masked, the lower
   one with them shifted up. Widening takes half the instructions so, and rows beside them are split the same way: of every
   2 VL elements, those of even places, then those of odd ones. */
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
enum { SPLIT = 2 * VL };

ALWAYS_INLINE void split_pair(const real *x, real *y) {
  vec a = load(x), b = load(x + VL);
  store(y, __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
  store(y + VL, __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
}

ALWAYS_INLINE void join_pair(real *x) {
  vec a = load(x), b = load(x + VL);
  store(x, __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  store(x + VL, __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
}

ALWAYS_INLINE void load_split(const char *halves, vec *even, vec *odd) {
  __m512i pairs = _mm512_loadu_si512(halves);
  *even = (vec)_mm512_slli_epi32(pairs, 16);
  *odd = (vec)_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000u));
}

static bool can_split(const ch_dtype dtype, int64_t dim) {
  return dtype == CH_BF16 && dim % SPLIT == 0;
}
#else
enum { SPLIT = VL };

ALWAYS_INLINE void split_pair(const real *x, real *y) {
  store(y, load(x));
}

ALWAYS_INLINE void join_pair(real *x) {
  (void)x;
}

ALWAYS_INLINE void load_split(const char *halves, vec *even, vec *odd) {
  (void)halves;
  *even = *odd = splat(0);
}

static bool can_split(const ch_dtype dtype, int64_t dim) {
  (void)dtype, (void)dim;
  return false;
}
#endif

/* Rows are whole numbers of SPLIT elements where anyone reads the result. */
static void split_rows(int64_t n, const real *x, real *y) {
  for (int64_t i = 0; i + SPLIT <= n; i += SPLIT) split_pair(x + i, y + i);
}

static void join_rows(int64_t n, real *x) {
  for (int64_t i = 0; i + SPLIT <= n; i += SPLIT) join_pair(x + i);
}

void attend_carve_dots(const few_plan *plan, carver *from, few_space *space) {
  space->scores = carve_reals(from, (plan->block + TILE_KEYS) * plan->total + VL);
  space->weights = carve_reals(from, plan->block * plan->total);
  space->q = carve_reals(from, plan->total * plan->key_padded);
  space->split_q = carve_reals(from, plan->group_columns > 1 ? 0 : plan->total * plan->key_padded);
  carve_columns(from, plan->total, &space->columns);
  if (plan->group_columns > 1) attend_carve_group(plan, from, space);
#ifdef __AVX512BF16__
  space->paired =
      carve(from, plan->total / plan->pitch * (plan->key_padded / 2) * PAIR_COLUMNS, sizeof(int32_t));
#endif
}

void attend_start_dots(const ch_attend *args, const few_plan *plan, int64_t sequence, few_space *space,
                       const few_state *state) {
  query_columns *c = &space->columns;
  c->max = state->max;
  c->sum = state->sum;
  clear_columns(args, c);
  token_rows q = query_rows(args, args->q);
  for (int64_t g = 0; g < args->kv_heads; g++) {
    column_place at = place_of(args, g, 0);
    for (int64_t i = 0; i < plan->group_columns; i++, next_column(&at)) {
      copy_row(row_of(args, &q, sequence, &at), args->key_dim, (real)args->scale,
               space->q + c->count * plan->key_padded);
      add_column(args, c, sequence, at.query, at.head);
    }
  }
  finish_columns(c);
  if (plan->group_columns == 1) split_rows(c->count * plan->key_padded, space->q, space->split_q);
  if (plan->group_columns > 1) attend_start_group(plan, args->kv_heads, space);
#ifdef __AVX512BF16__
  if (may_pair(args, plan)) attend_start_pairs(args, plan, space);
#endif
  memset(state->rows, 0, (size_t)(c->count * plan->value_padded) * sizeof(real));
}

/* --- one column a head --------------------------------------------------------------------------------------- */

/* The processor asks for memory ahead of a loop as far as it sees; the loops ask for keys AHEAD bytes before their
   turn themselves. */
enum { AHEAD = 4096 };

/* The products of a key and a query, VL partial sums. */
ALWAYS_INLINE vec dot_lanes(const ch_dtype dtype, const int64_t dim, const real *q, const char *key) {
  vec sum = splat(0);
  int64_t k = 0;
#pragma GCC unroll 8
  for (; k + VL <= dim; k += VL) sum += load(q + k) * load_state(dtype, key, k, VL);
  if (k < dim) sum += load(q + k) * load_state(dtype, key, k, dim - k);
  return sum;
}

/* The same of BF16 keys beside a split query; dim is a multiple of SPLIT. */
ALWAYS_INLINE vec split_dot_lanes(const int64_t dim, const real *q, const char *key) {
  vec even_sum = splat(0), odd_sum = splat(0), even, odd;
#pragma GCC unroll 4
  for (int64_t k = 0; k + SPLIT <= dim; k += SPLIT) {
    load_split(key + 2 * k, &even, &odd);
    even_sum += load(q + k) * even;
    odd_sum += load(q + k + VL) * odd;
  }
  return even_sum + odd_sum;
}

/* scores [count, heads] = (or +=) keys q^T, in the order in which the keys lie in memory; VL dot products are summed at once.
   Writes up to VL - 1 elements past the last. (Shapes are copied to locals here and below: stores of vectors could
   change them, for all the compiler knows.) */
ALWAYS_INLINE void single_scores(const ch_dtype dtype, const int64_t dim, const bool split,
                                 const few_plan *plan, int64_t heads, int64_t count, const ch_tile *tile,
                                 const real *q, real *scores, bool add) {
  const int64_t padded = plan->key_padded, size = state_size(dtype);
  const int64_t stride = tile->stride * size, head_stride = tile->head_stride * size;
  const char *token = tile->data, *key = token;
  const real *query = q;
  int64_t g = 0, left = count * heads;
  while (left > 0) {
    vec lanes[VL];
    for (int i = 0; i < VL; i++) {
      fetch(key + AHEAD, dim * size);
      if (i >= left)
        lanes[i] = splat(0);
      else
        lanes[i] = split ? split_dot_lanes(dim, query, key) : dot_lanes(dtype, dim, query, key);
      query += padded;
      key += head_stride;
      if (++g < heads) continue;
      g = 0;
      token += stride;
      key = token;
      query = q;
    }
    vec sums = sum_lanes(lanes);
    store(scores, add ? load(scores) + sums : sums);
    scores += VL;
    left -= VL;
  }
}

/* out += a vector of `tokens` (a constant) values, weighted; `left` elements are left in their rows. */
ALWAYS_INLINE void add_vector(const ch_dtype dtype, const int tokens, const char *values, int64_t stride,
                              int64_t left, const vec weight[4], real *out) {
  vec sum = load(out);
#pragma GCC unroll 4
  for (int t = 0; t < tokens; t++) sum += load_state(dtype, values + t * stride, 0, left) * weight[t];
  store(out, sum);
}

/* The same for SPLIT values of BF16 and a split row. */
ALWAYS_INLINE void add_split(const int tokens, const char *values, int64_t stride, const vec weight[4],
                             real *out) {
  vec even_sum = load(out), odd_sum = load(out + VL), even, odd;
#pragma GCC unroll 4
  for (int t = 0; t < tokens; t++) {
    load_split(values + t * stride, &even, &odd);
    even_sum += even * weight[t];
    odd_sum += odd * weight[t];
  }
  store(out, even_sum);
  store(out + VL, odd_sum);
}

/* rows [heads] += weights [tokens, heads] times values, for `tokens` (a constant) tokens at a time. */
ALWAYS_INLINE void add_values(const ch_dtype dtype, const int64_t dim, const bool split, const int tokens,
                              const few_plan *plan, int64_t heads, const real *weights, const char *values,
                              const ch_tile *tile, real *rows) {
  const int64_t padded = plan->value_padded, total = plan->total, size = state_size(dtype);
  const int64_t stride = tile->stride * size, head_stride = tile->head_stride * size;
  for (int64_t g = 0; g < heads; g++, values += head_stride, rows += padded, weights++) {
    if ((int64_t)sizeof(real) > size) /* else the processor sees far enough */
      for (int t = 0; t < tokens; t++) fetch(values + (tokens + t) * stride, dim * size);
    vec weight[4];
#pragma GCC unroll 4
    for (int t = 0; t < tokens; t++) weight[t] = splat(weights[t * total]);
    int64_t k = 0;
    for (; split && k + SPLIT <= dim; k += SPLIT)
      add_split(tokens, values + k * size, stride, weight, rows + k);
    if (split) continue;
#pragma GCC unroll 8
    for (; k + VL <= dim; k += VL) add_vector(dtype, tokens, values + k * size, stride, VL, weight, rows + k);
    if (k < dim) add_vector(dtype, tokens, values + k * size, stride, dim - k, weight, rows + k);
  }
}

ALWAYS_INLINE void single_sums(const ch_dtype dtype, const int64_t dim, const bool split,
                               const few_plan *plan, int64_t heads, const few_block *block,
                               const real *weights, real *rows) {
  const ch_tile *tile = &block->tiles.values;
  int64_t t = 0;
  for (; t + 4 <= block->count; t += 4)
    add_values(dtype, dim, split, 4, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile,
               rows);
  for (; t < block->count; t++)
    add_values(dtype, dim, split, 1, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile,
               rows);
}

/* --- a block ------------------------------------------------------------------------------------------------- */

/* The usual sizes of a head get loops of a known length. */
#define FOR_DIM(dtype, dim, call, ...)                                                                       \
  ((dim) == 64    ? call(dtype, 64, __VA_ARGS__)                                                             \
   : (dim) == 128 ? call(dtype, 128, __VA_ARGS__)                                                            \
                  : call(dtype, dim, __VA_ARGS__))
#define FOR_TYPE_AND_DIM(type, dim, call, ...)                                                               \
  ((type) == CH_F16    ? FOR_DIM(CH_F16, dim, call, __VA_ARGS__)                                             \
   : (type) == CH_BF16 ? FOR_DIM(CH_BF16, dim, call, __VA_ARGS__)                                            \
                       : FOR_DIM(CH_KERNEL_DTYPE, dim, call, __VA_ARGS__))

/* Scores of all columns become weights of a block. Scores are `ld` apart. */
static void weigh(const few_plan *plan, const few_block *block, const few_space *space,
                  const few_state *state, int64_t ld) {
  const query_columns *c = &space->columns;
  bool masked = needs_mask(c, block->first, block->count);
  for (int64_t v = 0; v < c->padded / VL; v++) {
    real factors[VL];
    bool moved = masked ? softmax_vector(true, c, v, block->first, block->count, space->scores, ld,
                                         space->weights, plan->total, factors)
                        : softmax_vector(false, c, v, block->first, block->count, space->scores, ld,
                                         space->weights, plan->total, factors);
    if (moved)
      attend_rescale(state->rows + v * VL * plan->value_padded, plan->value_padded, factors,
                     c->count - v * VL);
  }
}

void attend_dot_block(const ch_attend *args, const few_plan *plan, const few_block *block,
                      const few_space *space, const few_state *state) {
#ifdef __AVX512BF16__
  if (are_pairs(args, plan, &block->tiles)) {
    attend_pair_scores(args, plan, block, space);
    weigh(plan, block, space, state, plan->total);
    attend_pair_sums(args, plan, block, space, state->rows);
    return;
  }
#endif
  if (plan->group_columns > 1) {
    fetch_stream stream = {.count = 0};
    attend_group_scores(args, plan, block, space, &stream);
    weigh(plan, block, space, state, plan->total);
    attend_group_sums(args, plan, block, space, state->rows, &stream);
    return;
  }
  const ch_tiles *tiles = &block->tiles;
  const int64_t heads = args->kv_heads, head_dim = args->key_dim - tiles->tail_dim;
  if (can_split(tiles->keys.dtype, head_dim) && tiles->tail_dim == 0)
    FOR_DIM(CH_BF16, head_dim, single_scores, true, plan, heads, block->count, &tiles->keys, space->split_q,
            space->scores, false);
  else
    FOR_TYPE_AND_DIM(tiles->keys.dtype, head_dim, single_scores, false, plan, heads, block->count,
                     &tiles->keys, space->q, space->scores, false);
  if (tiles->tail_dim > 0)
    FOR_TYPE_AND_DIM(tiles->keys.dtype, tiles->tail_dim, single_scores, false, plan, heads, block->count,
                     &tiles->tail, space->q + head_dim, space->scores, true);
  weigh(plan, block, space, state, space->columns.count);
  if (!can_split(tiles->values.dtype, args->value_dim)) {
    FOR_TYPE_AND_DIM(tiles->values.dtype, args->value_dim, single_sums, false, plan, heads, block,
                     space->weights, state->rows);
    return;
  }
  split_rows(heads * plan->value_padded, state->rows, state->rows);
  FOR_DIM(CH_BF16, args->value_dim, single_sums, true, plan, heads, block, space->weights, state->rows);
  join_rows(heads * plan->value_padded, state->rows);
}
