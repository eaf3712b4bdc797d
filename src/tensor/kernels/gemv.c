/* Few rows times a matrix from memory: y = x W^T at the speed the weights can be read. */
#include "tensor/kernels/variant.h"
#include "tensor/kernels/halves.h"

ALWAYS_INLINE real weight_at(const void *weight, ch_dtype dtype, int64_t i) {
  if (dtype == CH_F16) return (real)float_from_f16(((const uint16_t *)weight)[i]);
  if (dtype == CH_BF16) return (real)float_from_bf16(((const uint16_t *)weight)[i]);
  return ((const real *)weight)[i];
}

void KERNEL(gemv)(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                  ch_dtype weight_dtype, const void *bias, void *y, bool accumulate) {
#pragma omp parallel for schedule(static) if (in * out >= CH_PARALLEL_ELEMENTS)
  for (int64_t o = 0; o < out; o++)
    for (int64_t r = 0; r < rows; r++) {
      const real *input = (const real *)x + r * in;
      real sum = bias ? ((const real *)bias)[o] : 0;
      for (int64_t i = 0; i < in; i++) sum += input[i] * weight_at(weight, weight_dtype, o * in + i);
      real *result = (real *)y + r * out + o;
      *result = accumulate ? *result + sum : sum;
    }
}
