/* Streaming attention over few queries, by dot products: each key is multiplied with the few queries that read its
 * head as vectors along the head's dimension, so that keys are used as they lie in memory and no lane is wasted.
 *
 * With one column a head (every query head has keys of its own) nothing but the memory matters, and states are taken in
 * its order. With more, a few keys meet up to four columns in registers, and sums of weighted values stay in registers
 * for a block. 16-bit elements are widened as they are loaded, which costs nothing beside the products.
 */
#include "tensor/kernels/attend_few.h"

/* Columns of a head that are in registers at once. */
enum { GROUP = VEC_BYTES == 64 ? 4 : 2 };

void attend_carve_dots(const few_plan *plan, carver *from, few_space *space) {
  space->scores = carve_reals(from, plan->block * plan->total + VL);
  space->weights = carve_reals(from, plan->block * plan->total);
  space->q = carve_reals(from, plan->total * plan->key_padded);
  carve_columns(from, plan->total, &space->columns);
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

/* scores [count, heads] = keys q^T, in the order in which the keys lie in memory; VL dot products are summed at once.
   Writes up to VL - 1 elements past the last. (Shapes are copied to locals here and below: stores of vectors could
   change them, for all the compiler knows.) */
ALWAYS_INLINE void single_scores(const ch_dtype dtype, const int64_t dim, const few_plan *plan, int64_t heads,
                                 const few_block *block, const real *q, real *scores) {
  const int64_t padded = plan->key_padded, size = state_size(dtype);
  const int64_t stride = block->keys.stride * size, head_stride = block->keys.head_stride * size;
  const char *token = block->keys.data, *key = token;
  const real *query = q;
  int64_t g = 0, left = block->count * heads;
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
    store(scores, sum_lanes(lanes));
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
  const ch_tile *tile = &block->values;
  int64_t t = 0;
  for (; t + 4 <= block->count; t += 4)
    add_values(dtype, dim, 4, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile, rows);
  for (; t < block->count; t++)
    add_values(dtype, dim, 1, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile, rows);
}

/* --- several columns a head ---------------------------------------------------------------------------------- */

/* Keys in registers beside `columns` columns: as many dot products as are summed at once. */
enum { MOST_ROWS = 16 };
#define KEY_ROWS(columns)                                                                                    \
  (VEC_BYTES < 64 || (columns) == 4 ? 4 : (columns) == 3 ? 5 : (columns) == 2 ? 8 : MOST_ROWS)

static int64_t chunk_of(int64_t left) {
  return left < GROUP ? left : GROUP;
}

/* The next block's memory, whatever is made of it, is asked for while this one is computed, a little in every step of the
   innermost loops: more at once would stop them until memory has caught up. */
typedef struct fetch_stream {
  const char *next, *end;
  int64_t step, due; /* bytes a step */
  struct {
    const char *begin, *end;
  } later[CH_MAX_STATE_PARTS];
  int count, taken;
} fetch_stream;

ALWAYS_INLINE void fetch_step(fetch_stream *stream) {
  for (stream->due += stream->step; stream->due >= 64; stream->due -= 64, stream->next += 64)
    __builtin_prefetch(stream->next, 0, 3);
}

ALWAYS_INLINE void begin_steps(fetch_stream *stream) {
  if (stream->next < stream->end) return;
  if (stream->taken < stream->count) {
    stream->next = stream->later[stream->taken].begin;
    stream->end = stream->later[stream->taken++].end;
  } else {
    stream->step = 0;
  }
}

/* sum += the products of one vector of every key and column; `left` elements are left in their rows. */
ALWAYS_INLINE void add_products(const ch_dtype dtype, const int columns, const char *const key[MOST_ROWS],
                                int64_t k, int64_t left, const real *q, int64_t padded,
                                vec sum[MOST_ROWS][GROUP]) {
  const int key_rows = KEY_ROWS(columns);
  vec line[GROUP];
#pragma GCC unroll 4
  for (int c = 0; c < columns; c++) line[c] = load(q + c * padded + k);
#pragma GCC unroll 16
  for (int r = 0; r < key_rows; r++) {
    vec element = load_state(dtype, key[r], k, left);
#pragma GCC unroll 4
    for (int c = 0; c < columns; c++) sum[r][c] += element * line[c];
  }
}

/* scores [rows, columns], `ld` apart, of `rows` keys, KEY_ROWS(columns) at a time, and the queries q [columns, padded].
   The last time, rows past the last repeat it. */
ALWAYS_INLINE void score_rows(const ch_dtype dtype, const int columns, int64_t dim, const char *keys,
                              int64_t stride, int64_t rows, const real *q, int64_t padded, real *scores,
                              int64_t ld, fetch_stream *stream) {
  const int key_rows = KEY_ROWS(columns), dots = key_rows * columns;
  for (; rows > 0; rows -= key_rows, keys += key_rows * stride, scores += key_rows * ld) {
    const char *key[MOST_ROWS];
    vec sum[MOST_ROWS][GROUP];
#pragma GCC unroll 16
    for (int r = 0; r < key_rows; r++) {
      key[r] = r == 0 ? keys : r < rows ? key[r - 1] + stride : key[r - 1];
#pragma GCC unroll 4
      for (int c = 0; c < columns; c++) sum[r][c] = splat(0);
    }
    int64_t k = 0;
    for (; k + VL <= dim; k += VL) {
      fetch_step(stream);
      add_products(dtype, columns, key, k, VL, q, padded, sum);
    }
    if (k < dim) add_products(dtype, columns, key, k, dim - k, q, padded, sum);
    real total[MOST_ROWS + VL];
#pragma GCC unroll 8
    for (int i = 0; i < dots; i += VL) {
      vec lanes[VL];
#pragma GCC unroll 16
      for (int j = 0; j < VL; j++)
        lanes[j] = i + j < dots ? sum[(i + j) / columns][(i + j) % columns] : splat(0);
      store(total + i, sum_lanes(lanes));
    }
#pragma GCC unroll 16
    for (int r = 0; r < key_rows; r++)
      if (r < rows) memcpy(scores + r * ld, total + r * columns, (size_t)columns * sizeof(real));
  }
}

/* rows [columns] += weights [count, columns] times `vectors` (a constant) vectors of values; `left` elements are left in
   these. */
ALWAYS_INLINE void sum_tile(const ch_dtype dtype, const int columns, const int vectors, int64_t count,
                            const real *weights, int64_t ld, const char *values, int64_t stride, int64_t left,
                            real *rows, int64_t padded, fetch_stream *stream) {
  vec sum[GROUP][4];
#pragma GCC unroll 4
  for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sum[c][v] = load(rows + c * padded + v * VL);
  for (int64_t t = 0; t < count; t++, values += stride, weights += ld) {
    fetch_step(stream);
    vec line[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) line[v] = load_state(dtype, values, v * VL, left - v * VL);
#pragma GCC unroll 4
    for (int c = 0; c < columns; c++) {
      vec weight = splat(weights[c]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) sum[c][v] += weight * line[v];
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) store(rows + c * padded + v * VL, sum[c][v]);
}

#define SCORE_CASE(n)                                                                                        \
  case n:                                                                                                    \
    if (n <= GROUP) score_rows(dtype, n, dim, key, stride, rows, query, padded, to, ld, stream);             \
    break

/* Keys that stay in the first cache for all chunks of columns; values, when their lines fall into few of its sets. */
enum { NEAR_KEYS = 16, NEAR_VALUES = 32 };

/* scores [count, total] of all columns. */
ALWAYS_INLINE void group_scores(const ch_dtype dtype, const int64_t dim, const few_plan *plan, int64_t heads,
                                const few_block *block, const real *q, real *scores, fetch_stream *into) {
  const int64_t group = plan->group_columns, padded = plan->key_padded, ld = plan->total;
  const int64_t size = state_size(dtype), stride = block->keys.stride * size, count = block->count;
  const int64_t near = group <= GROUP ? count : NEAR_KEYS;
  fetch_stream local = *into, *stream = &local;
  for (int64_t t = 0, rows; t < count; t += rows) {
    rows = count - t < near ? count - t : near;
    for (int64_t g = 0; g < heads; g++) {
      const char *key = tile_row(&block->keys, g, t);
      for (int64_t c = 0, columns; c < group; c += columns) {
        columns = chunk_of(group - c);
        const real *query = q + (g * group + c) * padded;
        real *to = scores + t * ld + g * group + c;
        begin_steps(stream);
        switch (columns) {
          SCORE_CASE(1);
          SCORE_CASE(2);
          SCORE_CASE(3);
          SCORE_CASE(4);
        }
      }
    }
  }
  *into = local;
}

#define SUM_CASE(n)                                                                                          \
  case n:                                                                                                    \
    if (n > GROUP) break;                                                                                    \
    if (left >= 4 * VL)                                                                                      \
      sum_tile(dtype, n, 4, rows, from, ld, value, stride, left, to, padded, stream);                        \
    else if (left >= 2 * VL)                                                                                 \
      sum_tile(dtype, n, 2, rows, from, ld, value, stride, left, to, padded, stream);                        \
    else                                                                                                     \
      sum_tile(dtype, n, 1, rows, from, ld, value, stride, left, to, padded, stream);                        \
    break

ALWAYS_INLINE void group_sums(const ch_dtype dtype, const int64_t dim, const few_plan *plan, int64_t heads,
                              const few_block *block, const real *weights, real *sums, fetch_stream *into) {
  const int64_t group = plan->group_columns, padded = plan->value_padded, ld = plan->total;
  const int64_t size = state_size(dtype), stride = block->values.stride * size, count = block->count;
  const int64_t near = group > GROUP && stride % 1024 == 0 ? NEAR_VALUES : 0;
  fetch_stream local = *into, *stream = &local;
  for (int64_t t = 0, rows; t < count; t += rows) {
    rows = near > 0 && count - t > near ? near : count - t;
    for (int64_t g = 0; g < heads; g++)
      for (int64_t k = 0, vectors; k < dim; k += vectors * VL) {
        const int64_t left = dim - k;
        const char *value = tile_row(&block->values, g, t) + k * size;
        vectors = left >= 4 * VL ? 4 : left >= 2 * VL ? 2 : 1;
        for (int64_t c = 0, columns; c < group; c += columns) {
          columns = chunk_of(group - c);
          const real *from = weights + t * ld + g * group + c;
          real *to = sums + (g * group + c) * padded + k;
          begin_steps(stream);
          switch (columns) {
            SUM_CASE(1);
            SUM_CASE(2);
            SUM_CASE(3);
            SUM_CASE(4);
          }
        }
      }
  }
  *into = local;
}

/* Spreads it over the steps that this block takes. */
static fetch_stream stream_of(const ch_attend *args, const few_plan *plan, const few_block *block) {
  const int64_t group = plan->group_columns, chunks = (group + GROUP - 1) / GROUP;
  const int64_t rows = KEY_ROWS(chunk_of(group)), count = block->count;
  int64_t score_steps = (count + rows - 1) / rows * (args->key_dim / VL);
  int64_t sum_steps = count * ((args->value_dim + 4 * VL - 1) / (4 * VL));
  fetch_stream stream = {.count = 0};
  int64_t bytes = 0;
  for (int p = 0; p < CH_MAX_STATE_PARTS && block->coming > 0; p++) {
    const ch_state_view *part = &args->parts[p];
    if (!part->data || (p > 0 && part->data == args->parts[p - 1].data)) continue;
    int64_t size = (int64_t)ch_dtype_size(part->dtype);
    int64_t at = block->sequence * part->sequence_stride + (block->first + count) * part->token_stride;
    const char *begin = (const char *)part->data + at * size;
    stream.later[stream.count].begin = begin;
    stream.later[stream.count++].end = begin + block->coming * part->token_stride * size;
    bytes += block->coming * part->token_stride * size;
  }
  stream.step = bytes / (args->kv_heads * chunks * (score_steps + sum_steps)) + 1;
  return stream;
}

/* --- a block ------------------------------------------------------------------------------------------------- */

/* The usual sizes of a head get loops of a known length. */
#define FOR_DIM(dtype, dim, call, ...)                                                                       \
  ((dim) == 64    ? call(dtype, 64, __VA_ARGS__)                                                             \
   : (dim) == 128 ? call(dtype, 128, __VA_ARGS__)                                                            \
                  : call(dtype, dim, __VA_ARGS__))
#define FOR_TYPE(type, dim, call, ...)                                                                       \
  ((type) == CH_F16    ? call(CH_F16, dim, __VA_ARGS__)                                                      \
   : (type) == CH_BF16 ? call(CH_BF16, dim, __VA_ARGS__)                                                     \
                       : call(CH_KERNEL_DTYPE, dim, __VA_ARGS__))
#define FOR_TYPE_AND_DIM(type, dim, call, ...)                                                               \
  ((type) == CH_F16    ? FOR_DIM(CH_F16, dim, call, __VA_ARGS__)                                             \
   : (type) == CH_BF16 ? FOR_DIM(CH_BF16, dim, call, __VA_ARGS__)                                            \
                       : FOR_DIM(CH_KERNEL_DTYPE, dim, call, __VA_ARGS__))

static void run_scores(const ch_attend *args, const few_plan *plan, const few_block *block,
                       const few_space *space, fetch_stream *stream) {
  if (plan->group_columns == 1)
    FOR_TYPE_AND_DIM(block->keys.dtype, args->key_dim, single_scores, plan, args->kv_heads, block, space->q,
                     space->scores);
  else
    FOR_TYPE(block->keys.dtype, args->key_dim, group_scores, plan, args->kv_heads, block, space->q,
             space->scores, stream);
}

static void run_sums(const ch_attend *args, const few_plan *plan, const few_block *block,
                     const few_space *space, real *rows, fetch_stream *stream) {
  if (plan->group_columns == 1)
    FOR_TYPE_AND_DIM(block->values.dtype, args->value_dim, single_sums, plan, args->kv_heads, block,
                     space->weights, rows);
  else
    FOR_TYPE(block->values.dtype, args->value_dim, group_sums, plan, args->kv_heads, block, space->weights,
             rows, stream);
}

void attend_dot_block(const ch_attend *args, const few_plan *plan, const few_block *block,
                      const few_space *space, const few_state *state) {
  const query_columns *c = &space->columns;
  fetch_stream stream = stream_of(args, plan, block);
  run_scores(args, plan, block, space, &stream);
  bool masked = needs_mask(c, block->first, block->count);
  int64_t ld = plan->group_columns == 1 ? c->count : plan->total;
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
  run_sums(args, plan, block, space, state->rows, &stream);
}
