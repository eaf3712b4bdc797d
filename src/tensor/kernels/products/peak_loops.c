/* Loops that do nothing but multiply-adds, or nothing but reading. bench/limits.c times them. */
#include "tensor/kernels/vector/variant.h"

/* Runs 12 independent chains. They cover the latency of two units, and fit into 16 registers with both
   constants. */
double KERNEL(fma_loop)(int64_t rounds, double seed, double *flops) {
  enum { CHAINS = 12 };
  vec sum[CHAINS], factor = splat((real)(1 - seed)), term = splat((real)seed);
  for (int i = 0; i < CHAINS; i++) sum[i] = splat((real)i);
  for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) sum[i] = vec_fma(sum[i], factor, term);
  }
  for (int i = 1; i < CHAINS; i++) sum[0] += sum[i];
  *flops = (double)rounds * CHAINS * VL * 2;
  return (double)lanes_sum(sum[0]);
}

double KERNEL(read_loop)(int64_t n, const void *x) {
  enum { STREAMS = 8 };
  const real *values = x;
  vec sum[STREAMS];
  int64_t i = 0;
  for (int j = 0; j < STREAMS; j++) sum[j] = splat(0);
  for (; i + STREAMS * VL <= n; i += STREAMS * VL) {
#pragma GCC unroll 8
    for (int j = 0; j < STREAMS; j++) sum[j] += load(values + i + j * VL);
  }
  for (int j = 1; j < STREAMS; j++) sum[0] += sum[j];
  double total = (double)lanes_sum(sum[0]);
  for (; i < n; i++) total += (double)values[i];
  return total;
}
