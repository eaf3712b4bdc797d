/* Dot products of vectors in memory. */
#ifndef CH_KERNELS_VECTOR_DOT_H
#define CH_KERNELS_VECTOR_DOT_H

#include "tensor/kernels/vector/variant.h"

static inline real dot(int64_t n, const real *x, const real *y) {
  vec sum = splat(0);
  for (int64_t i = 0; i < n; i += VL) sum = vec_fma(load_some(x + i, n - i), load_some(y + i, n - i), sum);
  return lanes_sum(sum);
}

#endif
