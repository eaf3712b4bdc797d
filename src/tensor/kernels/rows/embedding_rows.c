/* Rows of the embedding matrix by token id, and the gradient back into them. */
#include "tensor/kernels/vector/halves.h"

static void widen_row(int64_t n, const void *row, ch_dtype dtype, real *y) {
  for (int64_t i = 0; i < n; i += VL) {
    vec v = dtype == CH_F16 ? load_f16((const uint16_t *)row + i, n - i)
                            : load_bf16((const uint16_t *)row + i, n - i);
    store_some(y + i, v, n - i);
  }
}

static void take_rows(const ch_team *team, int64_t first, int64_t last, int64_t n, const int32_t *ids,
                      const void *weight, ch_dtype weight_dtype, real *y) {
  size_t row_bytes = ch_dtype_bytes(weight_dtype, n);
  for (int64_t r = first; r < last; r++) {
    const char *row = (const char *)weight + (size_t)ids[r] * row_bytes;
    if (weight_dtype == CH_KERNEL_DTYPE)
      memcpy(y + r * n, row, row_bytes);
    else if (ch_dtype_is_block_quantised(weight_dtype))
      KERNEL(widen_blocks)(team, n, row, weight_dtype, y + r * n);
    else
      widen_row(n, row, weight_dtype, y + r * n);
  }
}

void KERNEL(embedding_forward)(const ch_team *team, int64_t rows, int64_t n, const int32_t *ids,
                               const void *weight, ch_dtype weight_dtype, void *y) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            take_rows(team, first, last, n, ids, weight, weight_dtype, y));
}

/* Each thread adds some columns of every row. Rows of one id are thus added in row order, and frequent ids do
   not unbalance the threads. */
void KERNEL(embedding_backward)(const ch_team *team, int64_t rows, int64_t n, int64_t vocabulary,
                                const int32_t *ids, const void *dy, void *dweight, bool accumulate) {
  if (!accumulate) KERNEL(fill)(team, vocabulary * n, 0, dweight);
#pragma omp parallel num_threads(team->workers) if (rows * n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t r = 0; r < rows && first < last; r++) {
      const real *restrict from = (const real *)dy + r * n;
      real *restrict to = (real *)dweight + ids[r] * n;
      for (int64_t i = first; i < last; i++) to[i] += from[i];
    }
  }
}
