/* Helpers of the kernel tests: run a call on every table with several numbers of threads, and compare its results with
 * expected values. */
#ifndef TESTS_TENSOR_KERNEL_TESTING_H
#define TESTS_TENSOR_KERNEL_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "sanitized.h"
#include "tensor/kernels.h"

/* Kernels run with every number of threads from LEAST_THREADS to MOST_THREADS. */
enum { MAX_BUFFERS = 8, MOST_THREADS = 3, LEAST_THREADS = SANITIZED ? MOST_THREADS : 1 };

/* A kernel call under test. It reads in[], and reads and writes out[], both in the table's element type. `data` is the
   test's own. `scratch` has scratch_size elements. */
typedef void (*kernel_call)(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                            const void *data);

typedef struct kernel_check {
  const char *what;
  kernel_call call;
  const void *data;
  int inputs, outputs;
  int64_t in_size[MAX_BUFFERS], out_size[MAX_BUFFERS];
  const double *in[MAX_BUFFERS];
  const double *initial[MAX_BUFFERS];  /* out[] before the call; NULL: NaNs */
  const double *expected[MAX_BUFFERS]; /* out[] after the call; NULL: only two runs are compared */
  const double *bound[MAX_BUFFERS];    /* allowed error of each value of out[], in units of the table's eps */
  int64_t scratch_size;                /* elements of `scratch`, in the table's element type */
} kernel_check;

static inline const ch_kernels *table_number(int number) {
  if (number == 0) return ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  return ch_kernels_for(CH_F32, (ch_isa)(number - 1));
}

enum { TABLE_COUNT = 1 + CH_ISA_COUNT };

static inline double table_eps(const ch_kernels *kernels) {
  return kernels->dtype == CH_F64 ? DBL_EPSILON : FLT_EPSILON;
}

static inline void *reals_from(const ch_kernels *kernels, int64_t n, const double *values) {
  char *reals = malloc((size_t)n * ch_dtype_size(kernels->dtype) + 1);
  assert_non_null(reals);
  for (int64_t i = 0; i < n; i++)
    if (kernels->dtype == CH_F64)
      ((double *)reals)[i] = values ? values[i] : NAN;
    else
      ((float *)reals)[i] = values ? (float)values[i] : NAN;
  return reals;
}

static inline double real_at(const ch_kernels *kernels, const void *reals, int64_t i) {
  return kernels->dtype == CH_F64 ? ((const double *)reals)[i] : (double)((const float *)reals)[i];
}

/* Returns normal random numbers that are exact in F32, so that every table has the same inputs. */
static inline double *random_values(ch_random *random, int64_t n, double scale) {
  double *values = malloc((size_t)(n > 0 ? n : 1) * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < n; i++) values[i] = (float)(scale * ch_random_normal(random));
  return values;
}

static inline double *zeros(int64_t n) {
  double *values = calloc((size_t)(n > 0 ? n : 1), sizeof *values);
  assert_non_null(values);
  return values;
}

static inline void compare_output(const kernel_check *check, const ch_kernels *kernels, int threads,
                                  int output, const void *reals) {
  for (int64_t i = 0; i < check->out_size[output]; i++) {
    double got = real_at(kernels, reals, i), expected = check->expected[output][i];
    double allowed = table_eps(kernels) * check->bound[output][i];
    if (!(fabs(got - expected) <= allowed) && !(isnan(got) && isnan(expected)) && got != expected)
      fail_msg("%s, table %s, %d threads, output %d: value %lld is %.9g instead of %.9g (allowed error %.3g)",
               check->what, kernels->name, threads, output, (long long)i, got, expected, allowed);
  }
}

/* Runs the call twice with each number of threads on each table. Both runs must give the same bits, within the bounds
   of the expected values. */
static inline void run_check(const kernel_check *check) {
  int usual_threads = omp_get_max_threads();
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    size_t size = ch_dtype_size(kernels->dtype);
    void *in[MAX_BUFFERS] = {NULL};
    for (int i = 0; i < check->inputs; i++) in[i] = reals_from(kernels, check->in_size[i], check->in[i]);
    for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
      omp_set_num_threads(threads);
      void *out[2][MAX_BUFFERS] = {{NULL}};
      for (int run = 0; run < 2; run++) {
        void *scratch = malloc((size_t)check->scratch_size * size + 1);
        assert_non_null(scratch);
        memset(scratch, 0xff, (size_t)check->scratch_size * size);
        for (int o = 0; o < check->outputs; o++)
          out[run][o] = reals_from(kernels, check->out_size[o], check->initial[o]);
        check->call(kernels, in, out[run], scratch, check->data);
        free(scratch);
      }
      for (int o = 0; o < check->outputs; o++) {
        if (memcmp(out[0][o], out[1][o], (size_t)check->out_size[o] * size) != 0)
          fail_msg("%s, table %s, %d threads: two runs differ in output %d", check->what, kernels->name,
                   threads, o);
        if (check->expected[o]) compare_output(check, kernels, threads, o, out[0][o]);
        free(out[0][o]);
        free(out[1][o]);
      }
    }
    for (int i = 0; i < check->inputs; i++) free(in[i]);
  }
  omp_set_num_threads(usual_threads);
}

typedef double (*scalar_function)(const double *x, const void *data);

/* Compares an analytic gradient with central differences of a scalar function of x[n], all in double. */
static inline void check_gradient(const char *what, scalar_function function, const void *data, int64_t n,
                                  const double *x, const double *gradient) {
  double *moved = malloc((size_t)n * sizeof *moved);
  assert_non_null(moved);
  memcpy(moved, x, (size_t)n * sizeof *moved);
  for (int64_t i = 0; i < n; i++) {
    const double step = 1e-5;
    moved[i] = x[i] + step;
    double above = function(moved, data);
    moved[i] = x[i] - step;
    double below = function(moved, data);
    moved[i] = x[i];
    double slope = (above - below) / (2 * step);
    if (!(fabs(slope - gradient[i]) <= 1e-7 * (1 + fabs(slope))))
      fail_msg("%s: gradient %lld is %.9g, differences give %.9g", what, (long long)i, gradient[i], slope);
  }
  free(moved);
}

#endif
