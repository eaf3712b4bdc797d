/* Weighted values of several columns that share a key-value head: all that fit in registers meet a row at once. */
#include "tensor/kernels/attend_group.h"

/* rows [columns] += weights [count, columns] times `vectors` (a constant) vectors of values; `left` elements are left in
   these. */
ALWAYS_INLINE void sum_tile(const ch_dtype dtype, const int columns, const int vectors, int64_t count,
                            const real *weights, int64_t ld, const char *values, int64_t stride, int64_t left,
                            real *rows, int64_t padded, fetch_stream *stream) {
  vec sum[MOST_COLUMNS][MOST_VECTORS];
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sum[c][v] = load(rows + c * padded + v * VL);
  begin_steps(stream, count);
  for (int64_t t = 0; t < count; t++, values += stride, weights += ld) {
    fetch_step(stream);
    vec line[MOST_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      line[v] = load_state(dtype, values, v * VL, left - v * VL);
      KEEP_LOADED(line[v]);
    }
#pragma GCC unroll 14
    for (int c = 0; c < columns; c++) {
      vec weight = splat(weights[c]);
      if (vectors > 1) KEEP_LOADED(weight);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) sum[c][v] += weight * line[v];
    }
  }
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) store(rows + c * padded + v * VL, sum[c][v]);
}

ALWAYS_INLINE void sum_chunk(const ch_dtype dtype, const int columns, int64_t dim, const few_block *block,
                             int64_t head, const real *weights, int64_t ld, real *rows, int64_t padded,
                             fetch_stream *stream) {
  const int most = TILE_VECTORS_OF(columns);
  const int64_t size = state_size(dtype), stride = block->values.stride * size, count = block->count;
  const char *values = tile_row(&block->values, head, 0);
  int64_t k = 0;
  for (; most == 4 && k + 4 * VL <= dim; k += 4 * VL)
    sum_tile(dtype, columns, 4, count, weights, ld, values + k * size, stride, 4 * VL, rows + k, padded,
             stream);
  for (; k + 2 * VL <= dim; k += 2 * VL)
    sum_tile(dtype, columns, 2, count, weights, ld, values + k * size, stride, 2 * VL, rows + k, padded,
             stream);
  for (; k < dim; k += VL)
    sum_tile(dtype, columns, 1, count, weights, ld, values + k * size, stride, dim - k, rows + k, padded,
             stream);
}

#define SUM_CASE(n)                                                                                          \
  case n:                                                                                                    \
    if (n <= MOST_COLUMNS) sum_chunk(dtype, n, dim, block, g, weights, ld, to, padded, stream);              \
    break

ALWAYS_INLINE void all_sums(const ch_dtype dtype, const ch_attend *args, const few_plan *plan,
                            const few_block *block, const few_space *space, real *rows, fetch_stream *into) {
  const int64_t group = plan->group_columns, ld = plan->total, dim = args->value_dim,
                padded = plan->value_padded;
  fetch_stream local = *into, *stream = &local;
  for (int64_t g = 0; g < args->kv_heads; g++)
    for (int64_t c = 0, columns; c < group; c += columns) {
      const real *weights = space->weights + g * group + c;
      real *to = rows + (g * group + c) * padded;
      columns = chunk_of(group - c);
      FOR_COLUMNS(columns, SUM_CASE)
    }
  *into = local;
}

void attend_group_sums(const ch_attend *args, const few_plan *plan, const few_block *block,
                       const few_space *space, real *rows, fetch_stream *stream) {
  if (block->values.dtype == CH_F16)
    all_sums(CH_F16, args, plan, block, space, rows, stream);
  else if (block->values.dtype == CH_BF16)
    all_sums(CH_BF16, args, plan, block, space, rows, stream);
  else
    all_sums(CH_KERNEL_DTYPE, args, plan, block, space, rows, stream);
}
