/* Few rows times a matrix, both of BF16, by instructions that multiply pairs: y = x W^T. */
#include "tensor/kernels/few_rows.h"

#ifdef __AVX512BF16__
static void gemv_range(const few_call *call, int64_t first, int64_t last) {
  few_range(FEW_PAIRS, call, first, last);
}

void KERNEL(gemv_bf16)(int64_t rows, int64_t in, int64_t out, const uint16_t *x, const uint16_t *weight,
                       const void *bias, void *y, bool accumulate) {
  const few_call call = {.rows = rows,
                         .in = in,
                         .out = out,
                         .x = (const char *)x,
                         .weight = (const char *)weight,
                         .x_bytes = (size_t)in * sizeof *x,
                         .weight_bytes = (size_t)in * sizeof *weight,
                         .bias = bias,
                         .y = y,
                         .accumulate = accumulate};
  FOR_RANGE(out, rows * in * out >= CH_PARALLEL_ELEMENTS, gemv_range(&call, first, last));
}
#endif
