/* Copies, sums and activations, element by element. */
#include "tensor/kernels/variant.h"

void KERNEL(fill)(int64_t n, double value, void *y);

void KERNEL(fill)(int64_t n, double value, void *y) {
  real *out = y;
#pragma omp parallel for schedule(static) if (n > 1 << 15)
  for (int64_t i = 0; i < n; i++) out[i] = (real)value;
}
