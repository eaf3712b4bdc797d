/* Softmax cross entropy over logits in memory: loss and gradient, row by row in cache. */
#include "tensor/kernels/math.h"

static real row_max(const real *x, int64_t n) {
  vec max[4];
  for (int j = 0; j < 4; j++) max[j] = splat(-(real)INFINITY);
  int64_t i = 0;
  for (; i + 4 * VL <= n; i += 4 * VL)
    for (int j = 0; j < 4; j++) max[j] = vec_max(load(x + i + j * VL), max[j]);
  for (; i + VL <= n; i += VL) max[0] = vec_max(load(x + i), max[0]);
  real result = lanes_max(vec_max(vec_max(max[0], max[1]), vec_max(max[2], max[3])));
  for (; i < n; i++) result = x[i] > result ? x[i] : result;
  return result;
}

/* The sum of e^(x - max); keeps the terms in `terms` unless it is NULL. */
ALWAYS_INLINE real row_exp_sum(const real *x, int64_t n, real max, real *terms) {
  vec sum[2] = {{0}, {0}};
  int64_t i = 0;
  for (; i + 2 * VL <= n; i += 2 * VL)
    for (int j = 0; j < 2; j++) {
      vec e = vec_exp(load(x + i + j * VL) - max);
      if (terms) store(terms + i + j * VL, e);
      sum[j] += e;
    }
  real total = lanes_sum(sum[0] + sum[1]);
  for (; i < n; i++) {
    real e = real_exp(x[i] - max);
    if (terms) terms[i] = e;
    total += e;
  }
  return total;
}

void KERNEL(cross_entropy)(int64_t rows, int64_t vocabulary, void *logits, const int32_t *targets, void *loss,
                           const void *dscale) {
#pragma omp parallel for schedule(static) if (rows > 1 && rows * vocabulary >= CH_PARALLEL_ELEMENTS)
  for (int64_t r = 0; r < rows; r++) {
    real *row = (real *)logits + r * vocabulary, *loss_of = (real *)loss + r;
    int32_t target = targets[r];
    if (target < 0) {
      *loss_of = 0;
      if (dscale) memset(row, 0, (size_t)vocabulary * sizeof(real));
      continue;
    }
    real max = row_max(row, vocabulary), chosen = row[target];
    real sum = dscale ? row_exp_sum(row, vocabulary, max, row) : row_exp_sum(row, vocabulary, max, NULL);
    *loss_of = (real)log((double)sum) - (chosen - max);
    if (!dscale) continue;
    real scale = ((const real *)dscale)[r], share = scale / sum;
    for (int64_t i = 0; i < vocabulary; i++) row[i] *= share;
    row[target] -= scale;
  }
}
