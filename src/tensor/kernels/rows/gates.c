/* Products and gates element by element, dot products of columns, scaling, and differences with a learned scale
 * lambda, which differential attention uses. */
#include "tensor/kernels/vector/math.h"
#include "tensor/kernels/vector/partials.h"

/* Multiplies rows first … last-1 of [rows, n]. If `repeated`, b has a single row for all of them. */
static void mul_rows(int64_t first, int64_t last, int64_t n, const real *a, const real *b, bool repeated,
                     real *y, bool accumulate) {
  for (int64_t r = first; r < last; r++) {
    const real *x = a + r * n, *factor = repeated ? b : b + r * n;
    for (int64_t i = 0; i < n; i += VL)
      put(y + r * n + i, load_some(x + i, n - i) * load_some(factor + i, n - i), n - i, accumulate);
  }
}

void KERNEL(mul)(const ch_team *team, int64_t rows, int64_t n, const void *a, const void *b, bool repeated,
                 void *y, bool accumulate) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            mul_rows(first, last, n, a, b, repeated, y, accumulate));
}

void KERNEL(dot_rows)(const ch_team *team, int64_t rows, int64_t n, const void *a, const void *b, void *y,
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
        const real *p = (const real *)a + r * n, *q = (const real *)b + r * n;
        for (int64_t i = 0; i < n; i++) partial[i] = real_fma(p[i], q[i], partial[i]);
      }
    }
#pragma omp barrier
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(n, thread, threads, &first, &last);
      sum_partials(threads, n, scratch, first, last, y, accumulate);
    }
  }
}

static void gate_range(int64_t first, int64_t last, int64_t n, double scale, const real *x, const real *gate,
                       real *y) {
  for (int64_t i = first * VL; i < last * VL; i += VL)
    store_some(y + i, load_some(x + i, n - i) * vec_sigmoid(load_some(gate + i, n - i)) * splat((real)scale),
               n - i);
}

void KERNEL(sigmoid_gate_forward)(const ch_team *team, int64_t n, double scale, const void *x,
                                  const void *gate, void *y) {
  FOR_RANGE((n + VL - 1) / VL, n >= CH_PARALLEL_ELEMENTS, gate_range(first, last, n, scale, x, gate, y));
}

void KERNEL(sigmoid_gate_backward)(const ch_team *team, int64_t n, double scale, const void *x,
                                   const void *gate, const void *dy, void *dx, bool accumulate_x, void *dgate,
                                   bool accumulate_gate) {
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t i = first; i < last; i += VL) {
      int64_t left = last - i;
      vec s = vec_sigmoid(load_some((const real *)gate + i, left));
      vec d = load_some((const real *)dy + i, left) * splat((real)scale);
      if (dx) put((real *)dx + i, d * s, left, accumulate_x);
      if (dgate)
        put((real *)dgate + i, d * load_some((const real *)x + i, left) * (s * (1 - s)), left,
            accumulate_gate);
    }
  }
}

/* y[r, p, :] = a[r, p, :] - lambda[p] b[r, p, :]; if `single`, one lambda serves all groups. */
static void subtract_rows(int64_t first, int64_t last, int64_t groups, int64_t width, const real *a,
                          const real *b, const real *lambda, bool single, real *y) {
  for (int64_t r = first; r < last; r++)
    for (int64_t p = 0; p < groups; p++) {
      int64_t at = (r * groups + p) * width;
      vec factor = splat(lambda[single ? 0 : p]);
      for (int64_t i = 0; i < width; i += VL)
        store_some(y + at + i,
                   vec_fnma(factor, load_some(b + at + i, width - i), load_some(a + at + i, width - i)),
                   width - i);
    }
}

void KERNEL(subtract_scaled_forward)(const ch_team *team, int64_t rows, int64_t groups, int64_t width,
                                     const void *a, const void *b, const void *lambda, bool single, void *y) {
  FOR_RANGE(rows, rows > 1 && rows * groups * width >= CH_PARALLEL_ELEMENTS,
            subtract_rows(first, last, groups, width, a, b, lambda, single, y));
}

/* Computes db and one thread's part of dlambda. */
static void subtract_backward_rows(int64_t first, int64_t last, int64_t groups, int64_t width, const real *b,
                                   const real *lambda, bool single, const real *dy, real *db, bool accumulate,
                                   real *partial) {
  for (int64_t r = first; r < last; r++)
    for (int64_t p = 0; p < groups; p++) {
      int64_t at = (r * groups + p) * width;
      vec factor = splat(-lambda[single ? 0 : p]), sum = splat(0);
      for (int64_t i = 0; i < width; i += VL) {
        vec d = load_some(dy + at + i, width - i);
        sum = vec_fma(d, load_some(b + at + i, width - i), sum);
        if (db) put(db + at + i, factor * d, width - i, accumulate);
      }
      if (partial) partial[single ? 0 : p] -= lanes_sum(sum);
    }
}

void KERNEL(subtract_scaled_backward)(const ch_team *team, int64_t rows, int64_t groups, int64_t width,
                                      const void *b, const void *lambda, bool single, const void *dy,
                                      void *db, bool accumulate, void *dlambda, bool accumulate_lambda,
                                      void *scratch) {
  int64_t lambdas = single ? 1 : groups;
  const int threads = parts_of_team(team, rows * groups * width >= CH_PARALLEL_ELEMENTS);
#pragma omp parallel num_threads(team->workers) if (threads > 1)
  {
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(rows, thread, threads, &first, &last);
      real *partial = (real *)scratch + thread * lambdas;
      memset(partial, 0, (size_t)lambdas * sizeof(real));
      subtract_backward_rows(first, last, groups, width, b, lambda, single, dy, db, accumulate,
                             dlambda ? partial : NULL);
    }
#pragma omp barrier
    EACH_PART(thread, threads) {
      int64_t first, last;
      thread_range(lambdas, thread, threads, &first, &last);
      if (dlambda) sum_partials(threads, lambdas, scratch, first, last, dlambda, accumulate_lambda);
    }
  }
}

void KERNEL(scale)(const ch_team *team, int64_t n, double factor, const void *x, void *y, bool accumulate) {
  const vec f = splat((real)factor);
#pragma omp parallel num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    vector_range(n, &first, &last);
    for (int64_t i = first; i < last; i += VL)
      put((real *)y + i, f * load_some((const real *)x + i, last - i), last - i, accumulate);
  }
}

static double dot(int64_t n, const real *a, const real *b) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

void KERNEL(diff_lambda_forward)(int64_t n, const void *const vectors[4], double start, void *lambda,
                                 void *exponentials) {
  double first = exp(dot(n, vectors[0], vectors[1])), second = exp(dot(n, vectors[2], vectors[3]));
  *(real *)lambda = (real)(first - second + start);
  if (!exponentials) return;
  ((real *)exponentials)[0] = (real)first;
  ((real *)exponentials)[1] = (real)second;
}

/* The gradient of a vector is the other vector of its pair, times plus or minus the pair's exponential, times
   dlambda. */
void KERNEL(diff_lambda_backward)(int64_t n, int which, const void *partner, const void *exponentials,
                                  const void *dlambda, void *gradient, bool accumulate) {
  real factor = *(const real *)dlambda * ((const real *)exponentials)[which / 2] * (which < 2 ? 1 : -1);
  const real *other = partner;
  real *out = gradient;
  for (int64_t i = 0; i < n; i++) out[i] = (accumulate ? out[i] : 0) + factor * other[i];
}
