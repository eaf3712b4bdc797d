/* ReLU, max(x, 0), and its square. */
#include "tensor/kernels/vector/variant.h"

static void relu_range(int64_t first, int64_t last, const real *x, bool squared, real *y) {
  for (int64_t i = first; i < last; i++) {
    real positive = x[i] < 0 ? 0 : x[i]; /* NaN stays NaN */
    y[i] = squared ? positive * positive : positive;
  }
}

void KERNEL(relu_forward)(const ch_team *team, int64_t n, const void *x, bool squared, void *y) {
  FOR_RANGE(n, n >= CH_PARALLEL_ELEMENTS, relu_range(first, last, x, squared, y));
}

/* relu'(x) is 1 above 0 and 0 elsewhere; (relu(x)^2)' = 2 relu(x). */
static void relu_range_back(int64_t first, int64_t last, const real *x, bool squared, const real *dy,
                            real *dx, bool accumulate) {
  for (int64_t i = first; i < last; i++) {
    real slope = squared ? 2 * x[i] : 1, gradient = x[i] <= 0 ? 0 : dy[i] * slope;
    dx[i] = accumulate ? dx[i] + gradient : gradient;
  }
}

void KERNEL(relu_backward)(const ch_team *team, int64_t n, const void *x, bool squared, const void *dy,
                           void *dx, bool accumulate) {
  FOR_RANGE(n, n >= CH_PARALLEL_ELEMENTS, relu_range_back(first, last, x, squared, dy, dx, accumulate));
}
