/* Streaming attention over few queries, by dot products: each key is multiplied with the few queries that read its
 * head as vectors along the head's dimension, so that keys are used as they lie in memory and no lane is wasted.
 *
 * With one column a head (every query head has keys of its own) nothing but the memory matters, and states are taken in
 * its order, here; more columns go through the tiles of attend_group.c. 16-bit elements are widened as they are loaded.
 */
#include "tensor/kernels/attend_group.h"
#include "tensor/kernels/attend_pairs.h"

void attend_carve_dots(const few_plan *plan, carver *from, few_space *space) {
  space->scores = carve_reals(from, (plan->block + TILE_KEYS) * plan->total + VL);
  space->weights = carve_reals(from, plan->block * plan->total);
  space->q = carve_reals(from, plan->total * plan->key_padded);
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

/* scores [count, heads] = (or +=) keys q^T, in the order in which the keys lie in memory; VL dot products are summed at once.
   Writes up to VL - 1 elements past the last. (Shapes are copied to locals here and below: stores of vectors could
   change them, for all the compiler knows.) */
ALWAYS_INLINE void single_scores(const ch_dtype dtype, const int64_t dim, const few_plan *plan, int64_t heads,
                                 int64_t count, const ch_tile *tile, const real *q, real *scores, bool add) {
  const int64_t padded = plan->key_padded, size = state_size(dtype);
  const int64_t stride = tile->stride * size, head_stride = tile->head_stride * size;
  const char *token = tile->data, *key = token;
  const real *query = q;
  int64_t g = 0, left = count * heads;
  while (left > 0) {
    vec lanes[VL];
    for (int i = 0; i < VL; i++) {
      fetch(key + AHEAD, dim * size);
      lanes[i] = i < left ? dot_lanes(dtype, dim, query, key) : splat(0);
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

/* rows [heads] += weights [tokens, heads] times values, for `tokens` (a constant) tokens at a time. */
ALWAYS_INLINE void add_values(const ch_dtype dtype, const int64_t dim, const int tokens, const few_plan *plan,
                              int64_t heads, const real *weights, const char *values, const ch_tile *tile,
                              real *rows) {
  const int64_t padded = plan->value_padded, total = plan->total, size = state_size(dtype);
  const int64_t stride = tile->stride * size, head_stride = tile->head_stride * size;
  for (int64_t g = 0; g < heads; g++, values += head_stride, rows += padded, weights++) {
    if ((int64_t)sizeof(real) > size) /* else the processor sees far enough */
      for (int t = 0; t < tokens; t++) fetch(values + (tokens + t) * stride, dim * size);
    vec weight[4];
#pragma GCC unroll 4
    for (int t = 0; t < tokens; t++) weight[t] = splat(weights[t * total]);
    int64_t k = 0;
#pragma GCC unroll 8
    for (; k + VL <= dim; k += VL) add_vector(dtype, tokens, values + k * size, stride, VL, weight, rows + k);
    if (k < dim) add_vector(dtype, tokens, values + k * size, stride, dim - k, weight, rows + k);
  }
}

ALWAYS_INLINE void single_sums(const ch_dtype dtype, const int64_t dim, const few_plan *plan, int64_t heads,
                               const few_block *block, const real *weights, real *rows) {
  const ch_tile *tile = &block->tiles.values;
  int64_t t = 0;
  for (; t + 4 <= block->count; t += 4)
    add_values(dtype, dim, 4, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile, rows);
  for (; t < block->count; t++)
    add_values(dtype, dim, 1, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile, rows);
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
  FOR_TYPE_AND_DIM(tiles->keys.dtype, head_dim, single_scores, plan, heads, block->count, &tiles->keys,
                   space->q, space->scores, false);
  if (tiles->tail_dim > 0)
    FOR_TYPE_AND_DIM(tiles->keys.dtype, tiles->tail_dim, single_scores, plan, heads, block->count,
                     &tiles->tail, space->q + head_dim, space->scores, true);
  weigh(plan, block, space, state, space->columns.count);
  FOR_TYPE_AND_DIM(tiles->values.dtype, args->value_dim, single_sums, plan, args->kv_heads, block,
                   space->weights, state->rows);
}
