/* Few rows times a matrix from memory: y = x W^T at the speed the weights can be read. */
#include "tensor/kernels/few_rows.h"

static void gemv_range(const few_call *call, ch_dtype weight_dtype, int64_t first, int64_t last) {
  if (weight_dtype == CH_F16)
    few_range(FEW_F16, call, first, last);
  else if (weight_dtype == CH_BF16)
    few_range(FEW_BF16, call, first, last);
  else
    few_range(FEW_REAL, call, first, last);
}

void KERNEL(gemv)(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                  ch_dtype weight_dtype, const void *bias, void *y, bool accumulate) {
  const few_call call = {.rows = rows,
                         .in = in,
                         .out = out,
                         .x = x,
                         .weight = weight,
                         .x_bytes = (size_t)in * sizeof(real),
                         .weight_bytes = (size_t)in * ch_dtype_size(weight_dtype),
                         .bias = bias,
                         .y = y,
                         .accumulate = accumulate};
  FOR_RANGE(out, rows * in * out >= CH_PARALLEL_ELEMENTS, gemv_range(&call, weight_dtype, first, last));
}
