/* RMSNorm and LayerNorm, forward and backward, row by row. */
#include "tensor/kernels/vector/partials.h"

/* Returns the sum of (x - mean)^2. Four vectors are summed separately so that additions do not wait for each
   other. */
ALWAYS_INLINE real sum_of_squares(const real *x, int64_t n, real mean) {
  vec sum[4] = {{0}, {0}, {0}, {0}};
  int64_t i = 0;
  for (; i + 4 * VL <= n; i += 4 * VL)
    for (int j = 0; j < 4; j++) {
      vec d = load(x + i + j * VL) - mean;
      sum[j] = vec_fma(d, d, sum[j]);
    }
  for (; i + VL <= n; i += VL) {
    vec d = load(x + i) - mean;
    sum[0] = vec_fma(d, d, sum[0]);
  }
  real total = lanes_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < n; i++) total += (x[i] - mean) * (x[i] - mean);
  return total;
}

ALWAYS_INLINE real sum_of(const real *x, int64_t n) {
  vec sum[4] = {{0}, {0}, {0}, {0}};
  int64_t i = 0;
  for (; i + 4 * VL <= n; i += 4 * VL)
    for (int j = 0; j < 4; j++) sum[j] += load(x + i + j * VL);
  for (; i + VL <= n; i += VL) sum[0] += load(x + i);
  real total = lanes_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < n; i++) total += x[i];
  return total;
}

/* Normalises several rows at a time, so that the root of one row does not wait for the sum of the next. */
static void rmsnorm_rows(int64_t first, int64_t last, int64_t n, int64_t slices, const real *x,
                         const real *weight, double eps, real *y, real *rstd) {
  enum { TOGETHER = 16 };
  double scale[TOGETHER];
  for (int64_t r = first; r < last; r += TOGETHER) {
    int64_t rows = last - r < TOGETHER ? last - r : TOGETHER;
    for (int64_t k = 0; k < rows; k++) scale[k] = (double)(sum_of_squares(x + (r + k) * n, n, 0) / (real)n);
    for (int64_t k = rows; k < TOGETHER; k++) scale[k] = 1;
    for (int k = 0; k < TOGETHER; k++) scale[k] = 1 / sqrt(scale[k] + eps);
    for (int64_t k = 0; k < rows; k++) {
      const real *in = x + (r + k) * n, by = (real)scale[k], *w = weight + (r + k) % slices * n;
      real *out = y + (r + k) * n;
      int64_t i = 0;
      if (rstd) rstd[r + k] = by;
      for (; i + VL <= n; i += VL) store(out + i, load(in + i) * by * load(w + i));
      for (; i < n; i++) out[i] = in[i] * by * w[i];
    }
  }
}

void KERNEL(rmsnorm_forward)(const ch_team *team, int64_t rows, int64_t n, int64_t slices, const void *x,
                             const void *weight, double eps, void *y, void *rstd) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            rmsnorm_rows(first, last, n, slices, x, weight, eps, y, rstd));
}

/* dx = s (w dy - x s^2 mean(w dy x)), with s = 1/sqrt(mean(x^2) + eps). */
static void rmsnorm_row_backward(int64_t n, const real *x, const real *w, real s, const real *dy,
                                 real *restrict dx, bool accumulate) {
  vec dots[2] = {{0}, {0}};
  int64_t i = 0;
  for (; i + 2 * VL <= n; i += 2 * VL)
    for (int j = 0; j < 2; j++)
      dots[j] = vec_fma(load(w + i + j * VL) * load(dy + i + j * VL), load(x + i + j * VL), dots[j]);
  real dot = lanes_sum(dots[0] + dots[1]);
  for (; i < n; i++) dot = real_fma(w[i] * dy[i], x[i], dot);
  real back = s * s * dot / (real)n;
  if (accumulate)
    for (i = 0; i < n; i++) dx[i] = real_fma(s, real_fma(-x[i], back, w[i] * dy[i]), dx[i]);
  else
    for (i = 0; i < n; i++) dx[i] = s * real_fma(-x[i], back, w[i] * dy[i]);
}

void KERNEL(rmsnorm_backward)(const ch_team *team, int64_t rows, int64_t n, int64_t slices, const void *x,
                              const void *weight, const void *rstd, const void *dy, void *dx, bool accumulate,
                              void *dweight, bool accumulate_weight, void *scratch) {
  const int threads = parts_of_team(team, rows * n >= CH_PARALLEL_ELEMENTS);
  const int64_t weights = slices * n;
#pragma omp parallel num_threads(team->workers) if (threads > 1)
  {
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(rows, thread, threads, &first, &last);
      real *partial = (real *)scratch + thread * weights;
      if (dweight) memset(partial, 0, (size_t)weights * sizeof(real));
      for (int64_t r = first; r < last; r++) {
        const real *in = (const real *)x + r * n, *out_gradient = (const real *)dy + r * n;
        real s = ((const real *)rstd)[r], *restrict sums = partial + r % slices * n;
        if (dweight)
          for (int64_t i = 0; i < n; i++) sums[i] = real_fma(out_gradient[i] * in[i], s, sums[i]);
        if (dx)
          rmsnorm_row_backward(n, in, (const real *)weight + r % slices * n, s, out_gradient,
                               (real *)dx + r * n, accumulate);
      }
    }
#pragma omp barrier
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(weights, thread, threads, &first, &last);
      if (dweight) sum_partials(threads, weights, scratch, first, last, dweight, accumulate_weight);
    }
  }
}

static void find_moments(int64_t n, const real *x, double eps, real moments[2]) {
  real mean = sum_of(x, n) / (real)n;
  moments[0] = mean;
  moments[1] = (real)(1 / sqrt((double)(sum_of_squares(x, n, mean) / (real)n) + eps));
}

static void normalise_row(int64_t n, const real *x, const real moments[2], const real *w, const real *b,
                          real *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] = real_fma((x[i] - moments[0]) * moments[1], w[i], b[i]);
}

void KERNEL(layernorm_forward)(const ch_team *team, int64_t rows, int64_t n, const void *x,
                               const void *weight, const void *bias, double eps, void *y, void *moments) {
#pragma omp parallel for schedule(static)                                                                    \
    num_threads(team->workers) if (rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS)
  for (int64_t r = 0; r < rows; r++) {
    real own[2], *kept = moments ? (real *)moments + 2 * r : own;
    find_moments(n, (const real *)x + r * n, eps, kept);
    normalise_row(n, (const real *)x + r * n, kept, weight, bias, (real *)y + r * n);
  }
}

void KERNEL(row_moments)(int64_t rows, int64_t n, const void *x, double eps, void *moments) {
  for (int64_t r = 0; r < rows; r++) find_moments(n, (const real *)x + r * n, eps, (real *)moments + 2 * r);
}

void KERNEL(normalise)(int64_t rows, int64_t n, const void *x, const void *moments, const void *weight,
                       const void *bias, void *y) {
  for (int64_t r = 0; r < rows; r++)
    normalise_row(n, (const real *)x + r * n, (const real *)moments + 2 * r, weight, bias, (real *)y + r * n);
}

/* With h = (x - mean) s: dx = s (w dy - mean(w dy) - h mean(w dy h)). */
static void layernorm_row_backward(int64_t n, const real *x, const real *w, real mean, real s, const real *dy,
                                   real *restrict dx, bool accumulate) {
  vec sums = {0}, dots = {0};
  int64_t i = 0;
  for (; i + VL <= n; i += VL) {
    vec g = load(w + i) * load(dy + i);
    sums += g;
    dots = vec_fma(g, (load(x + i) - mean) * s, dots);
  }
  real sum = lanes_sum(sums), dot = lanes_sum(dots);
  for (; i < n; i++) {
    sum += w[i] * dy[i];
    dot += w[i] * dy[i] * ((x[i] - mean) * s);
  }
  sum /= (real)n;
  dot /= (real)n;
  if (accumulate)
    for (i = 0; i < n; i++) dx[i] += s * (w[i] * dy[i] - sum - (x[i] - mean) * s * dot);
  else
    for (i = 0; i < n; i++) dx[i] = s * (w[i] * dy[i] - sum - (x[i] - mean) * s * dot);
}

void KERNEL(layernorm_backward)(const ch_team *team, int64_t rows, int64_t n, const void *x,
                                const void *weight, const void *moments, const void *dy, void *dx,
                                bool accumulate, void *dweight, void *dbias, bool accumulate_weight,
                                void *scratch) {
  bool sums = dweight || dbias;
  const int threads = parts_of_team(team, rows * n >= CH_PARALLEL_ELEMENTS);
#pragma omp parallel num_threads(team->workers) if (threads > 1)
  {
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(rows, thread, threads, &first, &last);
      /* The scratch memory has all threads' weight sums first, then all threads' bias sums. */
      real *restrict weight_part = (real *)scratch + thread * n;
      real *restrict bias_part = (real *)scratch + (threads + thread) * n;
      if (sums) {
        memset(weight_part, 0, (size_t)n * sizeof(real));
        memset(bias_part, 0, (size_t)n * sizeof(real));
      }
      for (int64_t r = first; r < last; r++) {
        const real *in = (const real *)x + r * n, *out_gradient = (const real *)dy + r * n;
        real mean = ((const real *)moments)[2 * r], s = ((const real *)moments)[2 * r + 1];
        if (sums)
          for (int64_t i = 0; i < n; i++) {
            weight_part[i] += out_gradient[i] * ((in[i] - mean) * s);
            bias_part[i] += out_gradient[i];
          }
        if (dx) layernorm_row_backward(n, in, weight, mean, s, out_gradient, (real *)dx + r * n, accumulate);
      }
    }
#pragma omp barrier
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(n, thread, threads, &first, &last);
      if (dweight) sum_partials(threads, n, scratch, first, last, dweight, accumulate_weight);
      if (dbias)
        sum_partials(threads, n, (real *)scratch + threads * n, first, last, dbias, accumulate_weight);
    }
  }
}
