/* The inputs of the gated delta rule: normalised queries and keys, decays, and steps. */
#include "tensor/kernels/vector/dot.h"
#include "tensor/kernels/vector/math.h"
#include "tensor/kernels/vector/partials.h"

/* --- vectors of length 1 -------------------------------------------------------------------------------- */

static real inverse_length(int64_t n, const real *x, double eps) {
  return (real)(1 / sqrt((double)dot(n, x, x) + eps));
}

static void l2norm_rows(int64_t first, int64_t last, int64_t n, const real *x, double eps, real scale,
                        real *y) {
  for (int64_t r = first; r < last; r++) {
    const real *in = x + r * n, by = scale * inverse_length(n, in, eps);
    for (int64_t i = 0; i < n; i += VL) store_some(y + r * n + i, by * load_some(in + i, n - i), n - i);
  }
}

void KERNEL(l2norm_forward)(const ch_team *team, int64_t rows, int64_t n, const void *x, double eps,
                            double scale, void *y) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            l2norm_rows(first, last, n, x, eps, (real)scale, y));
}

/* With u = x / |x|: dx = scale / |x| (dy - (dy . u) u). */
static void l2norm_back_rows(int64_t first, int64_t last, int64_t n, const real *x, double eps, real scale,
                             const real *dy, real *dx, bool accumulate) {
  for (int64_t r = first; r < last; r++) {
    const real *in = x + r * n, *d = dy + r * n, by = inverse_length(n, in, eps);
    vec along = splat(dot(n, in, d) * by * by), factor = splat(scale * by);
    for (int64_t i = 0; i < n; i += VL)
      put(dx + r * n + i, factor * vec_fnma(along, load_some(in + i, n - i), load_some(d + i, n - i)), n - i,
          accumulate);
  }
}

void KERNEL(l2norm_backward)(const ch_team *team, int64_t rows, int64_t n, const void *x, double eps,
                             double scale, const void *dy, void *dx, bool accumulate) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            l2norm_back_rows(first, last, n, x, eps, (real)scale, dy, dx, accumulate));
}

/* --- decays --------------------------------------------------------------------------------------------- */

/* Returns log(1 + e^x) without overflow, and with full precision for a small e^x. */
static double softplus(double x) {
  return x > 30 ? x : log1p(exp(x));
}

static void decay_rows(int64_t first, int64_t last, int64_t n, const real *x, const real *rate,
                       const real *bias, real *y) {
  for (int64_t i = first * n; i < last * n; i++)
    y[i] = (real)(-exp((double)rate[i % n]) * softplus((double)x[i] + (double)bias[i % n]));
}

void KERNEL(decay_forward)(const ch_team *team, int64_t rows, int64_t n, const void *x, const void *rate,
                           const void *bias, void *y) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS / 16,
            decay_rows(first, last, n, x, rate, bias, y));
}

/* dx = -dy e^rate sigmoid(x + bias). dbias is the sum of dx over rows. drate is the sum of dy y over rows. */
void KERNEL(decay_backward)(const ch_team *team, int64_t rows, int64_t n, const void *x, const void *rate,
                            const void *bias, const void *dy, void *dx, bool accumulate, void *drate,
                            bool accumulate_rate, void *dbias, bool accumulate_bias, void *scratch) {
  const int parts = parts_of_team(team, rows * n >= CH_PARALLEL_ELEMENTS / 16);
#pragma omp parallel num_threads(team->workers) if (parts > 1)
  {
    EACH_PART(part, parts) {
      int64_t first, last;
      real *sums = (real *)scratch + part * 2 * n;
      thread_range(rows, part, parts, &first, &last);
      memset(sums, 0, (size_t)(2 * n) * sizeof(real));
      for (int64_t i = first * n; i < last * n; i++) {
        const int64_t h = i % n;
        const double z = (double)((const real *)x)[i] + (double)((const real *)bias)[h],
                     d = -(double)((const real *)dy)[i] * exp((double)((const real *)rate)[h]),
                     slope = d / (1 + exp(-z));
        real *to = (real *)dx + i;
        if (dx) *to = accumulate ? *to + (real)slope : (real)slope;
        sums[h] += (real)(d * softplus(z));
        sums[n + h] += (real)slope;
      }
    }
#pragma omp barrier
    EACH_PART(part, parts) {
      int64_t first, last;
      thread_range(n, part, parts, &first, &last);
      for (int64_t h = first; h < last; h++) {
        real of_rate = 0, of_bias = 0, *rates = (real *)drate + h, *biases = (real *)dbias + h;
        for (int p = 0; p < parts; p++) {
          of_rate += ((const real *)scratch)[p * 2 * n + h];
          of_bias += ((const real *)scratch)[p * 2 * n + n + h];
        }
        if (drate) *rates = accumulate_rate ? *rates + of_rate : of_rate;
        if (dbias) *biases = accumulate_bias ? *biases + of_bias : of_bias;
      }
    }
  }
}

/* --- steps ---------------------------------------------------------------------------------------------- */

static void sigmoid_range(int64_t first, int64_t last, int64_t n, real scale, const real *x, real *y) {
  for (int64_t i = first * VL; i < last * VL; i += VL)
    store_some(y + i, scale * vec_sigmoid(load_some(x + i, n - i)), n - i);
}

void KERNEL(sigmoid_forward)(const ch_team *team, int64_t n, double scale, const void *x, void *y) {
  FOR_RANGE((n + VL - 1) / VL, n >= CH_PARALLEL_ELEMENTS, sigmoid_range(first, last, n, (real)scale, x, y));
}

static void sigmoid_back_range(int64_t first, int64_t last, int64_t n, real scale, const real *x,
                               const real *dy, real *dx, bool accumulate) {
  for (int64_t i = first * VL; i < last * VL; i += VL) {
    vec s = vec_sigmoid(load_some(x + i, n - i));
    put(dx + i, scale * load_some(dy + i, n - i) * s * (1 - s), n - i, accumulate);
  }
}

void KERNEL(sigmoid_backward)(const ch_team *team, int64_t n, double scale, const void *x, const void *dy,
                              void *dx, bool accumulate) {
  FOR_RANGE((n + VL - 1) / VL, n >= CH_PARALLEL_ELEMENTS,
            sigmoid_back_range(first, last, n, (real)scale, x, dy, dx, accumulate));
}
