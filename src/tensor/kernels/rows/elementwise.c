/* Copies, sums and activations, element by element. Also sums over rows or over all elements. */
#include "tensor/kernels/vector/math.h"
#include "tensor/kernels/vector/partials.h"

static void add_range(int64_t first, int64_t last, const real *a, const real *b, real *y) {
#pragma omp simd
  for (int64_t i = first; i < last; i++) y[i] = a[i] + b[i];
}

void KERNEL(add)(const ch_team *team, int64_t n, const void *a, const void *b, void *y) {
  FOR_RANGE(n, n >= CH_PARALLEL_ELEMENTS, add_range(first, last, a, b, y));
}

void KERNEL(copy_or_add)(const ch_team *team, int64_t n, const void *x, void *y, bool accumulate) {
  const real *in = x;
  real *out = y;
  if (accumulate) {
    KERNEL(add)(team, n, x, y, y);
    return;
  }
#pragma omp parallel for simd schedule(static) num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  for (int64_t i = 0; i < n; i++) out[i] = in[i];
}

void KERNEL(fill)(const ch_team *team, int64_t n, double value, void *y) {
  real *out = y;
#pragma omp parallel for simd schedule(static) num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  for (int64_t i = 0; i < n; i++) out[i] = (real)value;
}

void KERNEL(repeat_bytes)(const ch_team *team, int64_t bytes, const void *pattern, int64_t total, void *y) {
#pragma omp parallel for schedule(static) num_threads(team->workers) if (total >= CH_PARALLEL_ELEMENTS)
  for (int64_t at = 0; at < total; at += bytes)
    memcpy((char *)y + at, pattern, (size_t)(total - at < bytes ? total - at : bytes));
}

void KERNEL(add_bias)(const ch_team *team, int64_t rows, int64_t n, const void *bias, void *y) {
  const real *b = bias;
#pragma omp parallel for schedule(static)                                                                    \
    num_threads(team->workers) if (rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS)
  for (int64_t r = 0; r < rows; r++) {
    real *restrict out = (real *)y + r * n;
    for (int64_t i = 0; i < n; i++) out[i] += b[i];
  }
}

size_t KERNEL(sum_scratch)(const ch_team *team, int64_t n) {
  return (size_t)team->threads * (size_t)n * sizeof(real);
}

void KERNEL(sum_rows)(const ch_team *team, int64_t rows, int64_t n, const void *dy, void *dbias,
                      bool accumulate, void *scratch) {
  const int threads = parts_of_team(team, rows * n >= CH_PARALLEL_ELEMENTS);
#pragma omp parallel num_threads(team->workers) if (threads > 1)
  {
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(rows, thread, threads, &first, &last);
      real *restrict partial = (real *)scratch + thread * n;
      memset(partial, 0, (size_t)n * sizeof(real));
      for (int64_t r = first; r < last; r++) {
        const real *in = (const real *)dy + r * n;
        for (int64_t i = 0; i < n; i++) partial[i] += in[i];
      }
    }
#pragma omp barrier
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(n, thread, threads, &first, &last);
      sum_partials(threads, n, scratch, first, last, dbias, accumulate);
    }
  }
}

/* Computes the vectors first … last-1 of n elements. */
static void swiglu_range(int64_t first, int64_t last, int64_t n, const real *gate, const real *up, real *y) {
  for (int64_t i = first * VL; i < last * VL; i += VL) {
    vec g = load_some(gate + i, n - i), u = load_some(up + i, n - i);
    store_some(y + i, g * vec_sigmoid(g) * u, n - i);
  }
}

void KERNEL(swiglu_forward)(const ch_team *team, int64_t n, const void *gate, const void *up, void *y) {
  FOR_RANGE((n + VL - 1) / VL, n >= CH_PARALLEL_ELEMENTS, swiglu_range(first, last, n, gate, up, y));
}

void KERNEL(swiglu_backward)(const ch_team *team, int64_t n, const void *gate, const void *up, const void *dy,
                             void *dgate, bool accumulate_gate, void *dup, bool accumulate_up) {
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t i = first; i < last; i += VL) {
      int64_t left = last - i;
      vec g = load_some((const real *)gate + i, left), u = load_some((const real *)up + i, left);
      vec d = load_some((const real *)dy + i, left), s = vec_sigmoid(g);
      if (dgate) put((real *)dgate + i, d * u * silu_slope(g, s), left, accumulate_gate);
      if (dup) put((real *)dup + i, d * (g * s), left, accumulate_up);
    }
  }
}

static void gelu_range(int64_t first, int64_t last, int64_t n, const real *x, real *y) {
  for (int64_t i = first * VL; i < last * VL; i += VL) {
    vec v = load_some(x + i, n - i), density;
    store_some(y + i, v * vec_normal(v, &density), n - i);
  }
}

void KERNEL(gelu_forward)(const ch_team *team, int64_t n, const void *x, void *y) {
  FOR_RANGE((n + VL - 1) / VL, n >= CH_PARALLEL_ELEMENTS, gelu_range(first, last, n, x, y));
}

/* The slope is (x Phi(x))' = Phi(x) + x phi(x). */
void KERNEL(gelu_backward)(const ch_team *team, int64_t n, const void *x, const void *dy, void *dx,
                           bool accumulate) {
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t i = first; i < last; i += VL) {
      vec v = load_some((const real *)x + i, last - i), d = load_some((const real *)dy + i, last - i),
          density;
      vec normal = vec_normal(v, &density);
      put((real *)dx + i, d * vec_fma(v, density, normal), last - i, accumulate);
    }
  }
}

/* Clamps x to the range outside which the gate is 0 or 1, so that no square overflows. */
ALWAYS_INLINE vec within_steps(vec x) {
  return vec_min(splat(30), vec_max(splat(-30), x));
}

/* The tanh approximation of GELU is x s(2 z) with z = sqrt(2/pi) (x + 0.044715 x^3), because (1 + tanh z) / 2
   = s(2 z). */
ALWAYS_INLINE vec tanh_gate(vec x) {
  const real slope = (real)1.5957691216057308; /* 2 sqrt(2 / pi) */
  x = within_steps(x);
  return vec_sigmoid(slope * x * vec_fma((real)0.044715 * x, x, splat(1)));
}

static void gelu_tanh_range(int64_t first, int64_t last, int64_t n, const real *x, real *y) {
  for (int64_t i = first * VL; i < last * VL; i += VL) {
    vec v = load_some(x + i, n - i);
    store_some(y + i, v * tanh_gate(v), n - i);
  }
}

void KERNEL(gelu_tanh_forward)(const ch_team *team, int64_t n, const void *x, void *y) {
  FOR_RANGE((n + VL - 1) / VL, n >= CH_PARALLEL_ELEMENTS, gelu_tanh_range(first, last, n, x, y));
}

/* The slope is (x s)' = s + x s (1 - s) (2 z)'. */
void KERNEL(gelu_tanh_backward)(const ch_team *team, int64_t n, const void *x, const void *dy, void *dx,
                                bool accumulate) {
  const real slope = (real)1.5957691216057308;
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t i = first; i < last; i += VL) {
      vec v = load_some((const real *)x + i, last - i), d = load_some((const real *)dy + i, last - i);
      vec s = tanh_gate(v), near = within_steps(v);
      vec steep = slope * vec_fma((real)(3 * 0.044715) * near, near, splat(1));
      put((real *)dx + i, d * vec_fma(near * s * (1 - s), steep, s), last - i, accumulate);
    }
  }
}

static void soft_cap_range(int64_t first, int64_t last, int64_t n, real cap, const real *x, real *y) {
  for (int64_t i = first * VL; i < last * VL; i += VL)
    store_some(y + i, soft_capped(load_some(x + i, n - i), cap), n - i);
}

void KERNEL(soft_cap_forward)(const ch_team *team, int64_t n, double cap, const void *x, void *y) {
  FOR_RANGE((n + VL - 1) / VL, n >= CH_PARALLEL_ELEMENTS, soft_cap_range(first, last, n, (real)cap, x, y));
}

void KERNEL(soft_cap_backward)(const ch_team *team, int64_t n, double cap, const void *y, const void *dy,
                               void *dx, bool accumulate) {
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t i = first; i < last; i += VL) {
      vec capped = load_some((const real *)y + i, last - i), d = load_some((const real *)dy + i, last - i);
      put((real *)dx + i, d * soft_cap_slope(capped, (real)cap), last - i, accumulate);
    }
  }
}

/* Adds 64 parts with any number of threads, so that the sum does not depend on that number. */
double KERNEL(sum_squares)(const ch_team *team, int64_t n, const void *x) {
  enum { PARTS = 64, LANES = 16 };
  double partial[PARTS];
#pragma omp parallel for schedule(static) num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  for (int part = 0; part < PARTS; part++) {
    int64_t first, last;
    thread_range(n, part, PARTS, &first, &last);
    double lanes[LANES] = {0}, total = 0;
    int64_t i = first;
    for (; i + LANES <= last; i += LANES)
      for (int j = 0; j < LANES; j++) {
        double value = (double)((const real *)x)[i + j];
        lanes[j] += value * value;
      }
    for (int j = 0; j < LANES; j++) total += lanes[j];
    for (; i < last; i++) total += (double)((const real *)x)[i] * (double)((const real *)x)[i];
    partial[part] = total;
  }
  double sum = 0;
  for (int part = 0; part < PARTS; part++) sum += partial[part];
  return sum;
}

void KERNEL(column_squares)(const ch_team *team, int64_t rows, int64_t n, const void *x, double *sums) {
#pragma omp parallel num_threads(team->workers) if (rows * n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t i = first; i < last; i++) sums[i] = 0;
    for (int64_t r = 0; r < rows && first < last; r++) {
      const real *restrict row = (const real *)x + r * n;
      for (int64_t i = first; i < last; i++) sums[i] += (double)row[i] * (double)row[i];
    }
  }
}

double KERNEL(sum)(int64_t n, const void *x) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)((const real *)x)[i];
  return sum;
}
