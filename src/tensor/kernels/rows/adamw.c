/* The AdamW step: one pass over weight, gradient and both moments. Also adds a number to a matrix's
   diagonal. */
#include "tensor/kernels/vector/variant.h"

void KERNEL(adamw)(const ch_team *team, int64_t n, void *weight, const void *grad, void *m, void *v,
                   double grad_scale, double lr, double beta1, double beta2, double eps, double decay,
                   double correction1, double correction2) {
  const real b1 = (real)beta1, b2 = (real)beta2, rest1 = (real)(1 - beta1), rest2 = (real)(1 - beta2);
  const real scale = (real)grad_scale, c2 = (real)correction2, epsilon = (real)eps;
  const real step = (real)(lr * correction1), keep = (real)(lr * decay);
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    real *restrict w = weight, *restrict mean = m, *restrict square = v;
    const real *restrict gradient = grad;
    for (int64_t i = first; i < last; i++) {
      real g = gradient[i] * scale;
      mean[i] = real_fma(b1, mean[i], rest1 * g);
      square[i] = real_fma(b2, square[i], rest2 * g * g);
      w[i] -= real_fma(keep, w[i], step * mean[i] / ((real)sqrt(square[i] * c2) + epsilon));
    }
  }
}

void KERNEL(add_to_diagonal)(int64_t rows, int64_t columns, double by, void *matrix) {
  for (int64_t i = 0; i < rows; i++) ((real *)matrix)[i * columns + i] += (real)by;
}
