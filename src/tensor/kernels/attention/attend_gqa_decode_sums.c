/* GQA decode: weighted values. A row of values is multiplied with all columns whose sums fit in registers. */
#include "tensor/kernels/attention/attend_gqa_decode.h"

/* Loads `vectors` (a constant) vectors of values. If they are block-quantised, they begin at element `at` (a
   constant) of a block. Otherwise the row has `left` elements from `values` on. */
ALWAYS_INLINE void take_values(const ch_dtype dtype, const int vectors, const char *values, const int at,
                               int64_t left, vec line[MOST_VECTORS]) {
  vec scale = splat(0);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    if (is_block_quantised(dtype)) {
      const int element = at + v * VL;
      const char *block = values + bytes_of(dtype, element);
      if (v == 0 || element % GROUP == 0) scale = splat_half(block);
      line[v] = vector_of_integers(dtype, block, element % GROUP) * scale;
    } else {
      line[v] = load_state(dtype, values, v * VL, left - v * VL);
    }
    KEEP_LOADED(line[v]);
  }
}

/* rows [columns] += weights [count, columns] times `vectors` vectors of values. */
ALWAYS_INLINE void sum_tile(const ch_dtype dtype, const int columns, const int vectors, int64_t count,
                            const real *weights, int64_t ld, const char *values, const int at, int64_t stride,
                            int64_t left, real *rows, int64_t padded, fetch_stream *stream) {
  vec sum[MOST_COLUMNS][MOST_VECTORS];
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sum[c][v] = load(rows + c * padded + v * VL);
  begin_steps(stream, count);
  for (int64_t t = 0; t < count; t++, values += stride, weights += ld) {
    fetch_step(has_few_columns(columns), stream);
    vec line[MOST_VECTORS];
    take_values(dtype, vectors, values, at, left, line);
#pragma GCC unroll 14
    for (int c = 0; c < columns; c++) {
      vec weight = splat(weights[c]);
      if (vectors > 1) KEEP_LOADED(weight);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) sum[c][v] = vec_fma(weight, line[v], sum[c][v]);
    }
  }
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) store(rows + c * padded + v * VL, sum[c][v]);
}

/* Adds the weighted rows first … first+count-1 of one head. */
ALWAYS_INLINE void sum_rows(const ch_dtype dtype, const int columns, int64_t dim, const ch_tile *tile,
                            int64_t head, int64_t first, int64_t count, const real *weights, int64_t ld,
                            real *rows, int64_t padded, fetch_stream *stream) {
  const int most = TILE_VECTORS_OF(columns);
  const int64_t stride = bytes_of(dtype, tile->stride);
  const char *values = tile_row(tile, head, first);
  int64_t k = 0;
  for (; most == 4 && 4 * VL >= (is_block_quantised(dtype) ? GROUP : 0) && k + 4 * VL <= dim; k += 4 * VL)
    sum_tile(dtype, columns, 4, count, weights, ld, values + bytes_of(dtype, k), 0, stride, 4 * VL, rows + k,
             padded, stream);
  for (; is_block_quantised(dtype) && k < dim; k += GROUP)
#pragma GCC unroll 8
    for (int at = 0; at < GROUP; at += 2 * VL)
      sum_tile(dtype, columns, 2, count, weights, ld, values + bytes_of(dtype, k), at, stride, 2 * VL,
               rows + k + at, padded, stream);
  for (; k + 2 * VL <= dim; k += 2 * VL)
    sum_tile(dtype, columns, 2, count, weights, ld, values + bytes_of(dtype, k), 0, stride, 2 * VL, rows + k,
             padded, stream);
  for (; k < dim; k += VL)
    sum_tile(dtype, columns, 1, count, weights, ld, values + bytes_of(dtype, k), 0, stride, dim - k, rows + k,
             padded, stream);
}

/* The number of tokens that are summed for one head before the next head. It is small, so that memory is read in
   order. */
enum { FEW_TOKENS = 4 };

/* Adds one chunk of every head's columns: a few tokens of all heads, in their order in memory, then the next
   tokens. */
ALWAYS_INLINE void sum_chunk(const ch_dtype dtype, const int columns, const ch_attend *args,
                             const decode_plan *plan, const decode_block *block, int64_t column,
                             const decode_space *space, real *rows, fetch_stream *stream) {
  const int64_t group = plan->group_columns, ld = plan->total, padded = plan->value_padded,
                most = has_few_columns(group) ? FEW_TOKENS : block->count;
  fetch_stream local = *stream;
  for (int64_t t = 0; t < block->count; t += most) {
    int64_t count = block->count - t < most ? block->count - t : most;
    for (int64_t g = 0; g < args->kv_heads; g++) {
      int64_t at = g * group + column;
      sum_rows(dtype, columns, args->value_dim, &block->tiles.values, g, t, count,
               space->weights + t * ld + at, ld, rows + at * padded, padded, &local);
    }
  }
  *stream = local;
}

/* Each type and number of columns has its own function. In one function the compiler would run out of
   registers. */
typedef void sum_function(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                          int64_t column, const decode_space *space, real *rows, fetch_stream *stream);
#define SUM_NAME2(type, columns) sums_##type##_##columns
#define SUM_NAME(type, columns) SUM_NAME2(type, columns)
#define SUM_FUNCTION(type, columns)                                                                          \
  static __attribute__((noinline)) void SUM_NAME(type, columns)(                                             \
      const ch_attend *args, const decode_plan *plan, const decode_block *block, int64_t column,             \
      const decode_space *space, real *rows, fetch_stream *stream) {                                         \
    sum_chunk(type, columns, args, plan, block, column, space, rows, stream);                                \
  }
FOR_STATES(SUM_FUNCTION)

#define SUM_CHOICE(type, size)                                                                               \
  if (dtype == (type) && columns == (size)) return SUM_NAME(type, size);

static sum_function *sum_of(ch_dtype dtype, int64_t columns) {
  FOR_STATES(SUM_CHOICE)
  return NULL;
}

void attend_gqa_sums(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                     const decode_space *space, real *rows, fetch_stream *stream) {
  attend_gqa_prefetch(args, plan, block, true, stream);
  for (int64_t c = 0, columns; c < plan->group_columns; c += columns) {
    columns = chunk_of(plan->group_columns - c);
    sum_of(block->tiles.values.dtype, columns)(args, plan, block, c, space, rows, stream);
  }
}
