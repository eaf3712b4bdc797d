/* Tests copies, sums, biases, activations and sums of squares of every table against their equations, and gradients
 * against differences. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

static const int64_t sizes[] = {1, 3, 7, 15, 17, 63, 65, 1000, 40007};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct sizes_of {
  int64_t n, rows;
  bool accumulate, accumulate_other;
} sizes_of;

static double silu(double x) {
  return x / (1 + exp(-x));
}

static double silu_slope(double x) {
  double s = 1 / (1 + exp(-x));
  return s + x * s * (1 - s);
}

static double normal(double x) {
  return 0.5 * erfc(-x / sqrt(2));
}

static double normal_density(double x) {
  return exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
}

/* --- sums and copies ------------------------------------------------------------------------------------ */

/* Returns the length of the pattern that is repeated over n elements. */
static int64_t pattern_elements(int64_t n) {
  return n < 7 ? n : 7;
}

static void call_sums(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                      const void *data) {
  (void)scratch;
  const sizes_of *s = data;
  kernels->add(all_threads(), s->n, in[0], in[1], out[0]);
  kernels->copy_or_add(all_threads(), s->n, in[0], out[1], false);
  kernels->copy_or_add(all_threads(), s->n, in[1], out[1], true);
  kernels->fill(all_threads(), s->n, -2.5, out[2]);
  kernels->copy_or_add(all_threads(), s->n, in[0], out[3], false);
  kernels->add(all_threads(), s->n, out[3], in[1], out[3]); /* in place */
  const int64_t element = (int64_t)ch_dtype_size(kernels->dtype);
  kernels->repeat_bytes(all_threads(), pattern_elements(s->n) * element, in[0], s->n * element, out[4]);
}

static void sums_copies_and_fills_are_exact(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 21, 0);
  for (int c = 0; c < SIZES; c++) {
    sizes_of s = {.n = sizes[c]};
    double *a = random_values(&random, s.n, 1), *b = random_values(&random, s.n, 1);
    double *sum = zeros(s.n), *bound = zeros(s.n), *filled = zeros(s.n), *none = zeros(s.n),
           *repeated = zeros(s.n);
    for (int64_t i = 0; i < s.n; i++) repeated[i] = a[i % pattern_elements(s.n)];
    for (int64_t i = 0; i < s.n; i++) sum[i] = a[i] + b[i], bound[i] = fabs(sum[i]), filled[i] = -2.5;
    kernel_check check = {.what = "sums",
                          .call = call_sums,
                          .data = &s,
                          .inputs = 2,
                          .outputs = 5,
                          .in_size = {s.n, s.n},
                          .in = {a, b},
                          .out_size = {s.n, s.n, s.n, s.n, s.n},
                          .expected = {sum, sum, filled, sum, repeated},
                          .bound = {bound, bound, none, bound, none}};
    run_check(&check);
    free(a), free(b), free(sum), free(bound), free(filled), free(none), free(repeated);
  }
}

static void call_bias(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                      const void *data) {
  const sizes_of *s = data;
  kernels->add_bias(all_threads(), s->rows, s->n, in[1], out[0]);
  kernels->sum_rows(all_threads(), s->rows, s->n, in[0], out[1], false, scratch);
  kernels->sum_rows(all_threads(), s->rows, s->n, in[0], out[2], true, scratch);
}

static void a_bias_is_added_to_rows_and_summed_over_them(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 22, 0);
  const int64_t shapes[][2] = {{1, 1}, {3, 7}, {65, 63}, {1, 1000}, {1000, 1}, {301, 129}};
  for (int c = 0; c < 6; c++) {
    sizes_of s = {.rows = shapes[c][0], .n = shapes[c][1]};
    int64_t size = s.rows * s.n;
    double *x = random_values(&random, size, 1), *bias = random_values(&random, s.n, 1);
    double *biased = zeros(size), *biased_bound = zeros(size), *sum = zeros(s.n), *added = zeros(s.n);
    double *bound = zeros(s.n);
    for (int64_t r = 0; r < s.rows; r++)
      for (int64_t i = 0; i < s.n; i++) {
        biased[r * s.n + i] = x[r * s.n + i] + bias[i];
        biased_bound[r * s.n + i] = fabs(biased[r * s.n + i]);
        sum[i] += x[r * s.n + i];
        bound[i] += (double)s.rows * fabs(x[r * s.n + i]) + fabs(bias[i]);
      }
    for (int64_t i = 0; i < s.n; i++) added[i] = bias[i] + sum[i];
    kernel_check check = {.what = "bias",
                          .call = call_bias,
                          .data = &s,
                          .inputs = 2,
                          .outputs = 3,
                          .in_size = {size, s.n},
                          .in = {x, bias},
                          .out_size = {size, s.n, s.n},
                          .initial = {x, NULL, bias},
                          .expected = {biased, sum, added},
                          .bound = {biased_bound, bound, bound},
                          .scratch_size = s.n * MOST_THREADS};
    run_check(&check);
    free(x), free(bias), free(biased), free(biased_bound), free(sum), free(added), free(bound);
  }
}

/* --- activations ---------------------------------------------------------------------------------------- */

static void call_activations(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                             const void *data) {
  (void)scratch;
  const sizes_of *s = data;
  kernels->swiglu_forward(all_threads(), s->n, in[0], in[1], out[0]);
  kernels->gelu_forward(all_threads(), s->n, in[0], out[1]);
  kernels->gelu_tanh_forward(all_threads(), s->n, in[0], out[2]);
}

/* GELU with a tanh multiplies x by a sigmoid. tanh_argument returns the sigmoid's argument, tanh_gate the sigmoid. */
static double tanh_argument(double x) {
  return 2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
}

static double tanh_gate(double x) {
  return 1 / (1 + exp(-tanh_argument(x)));
}

/* Returns random values. If n is large enough, some of them are difficult ones. */
static double *activation_inputs(ch_random *random, int64_t n) {
  static const double special[] = {0,     1e-30, -1e-30, 20,  -20,  5.5,  -5.5, 13,
                                   -12.5, 80,    -80,    100, -100, 1e30, 3e38};
  double *x = random_values(random, n, 3);
  if (n > 60)
    for (int i = 0; i < 15; i++) x[3 * i] = (float)special[i];
  return x;
}

static void activations_follow_their_equations(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 23, 0);
  for (int c = 0; c < SIZES; c++) {
    sizes_of s = {.n = sizes[c]};
    double *x = activation_inputs(&random, s.n), *up = random_values(&random, s.n, 0.5);
    double *swiglu = zeros(s.n), *gelu = zeros(s.n), *swiglu_bound = zeros(s.n), *gelu_bound = zeros(s.n);
    double *gelu_tanh = zeros(s.n), *gelu_tanh_bound = zeros(s.n);
    for (int64_t i = 0; i < s.n; i++) {
      swiglu[i] = silu(x[i]) * up[i];
      gelu[i] = x[i] * normal(x[i]);
      /* Relative bounds, also for tiny values, and an absolute one below the normal range of F32. */
      swiglu_bound[i] = 8 * fabs(swiglu[i]) + 1e-29;
      /* erfc magnifies its argument's error by x^2 */
      gelu_bound[i] = (10 + 2 * x[i] * x[i]) * fabs(gelu[i]) + 1e-29;
      gelu_tanh[i] = x[i] * tanh_gate(x[i]);
      gelu_tanh_bound[i] = (10 + 8 * fabs(tanh_argument(x[i]))) * fabs(gelu_tanh[i]) + 1e-29;
    }
    kernel_check check = {.what = "activations",
                          .call = call_activations,
                          .data = &s,
                          .inputs = 2,
                          .outputs = 3,
                          .in_size = {s.n, s.n},
                          .in = {x, up},
                          .out_size = {s.n, s.n, s.n},
                          .expected = {swiglu, gelu, gelu_tanh},
                          .bound = {swiglu_bound, gelu_bound, gelu_tanh_bound}};
    run_check(&check);
    free(x), free(up), free(swiglu), free(gelu), free(swiglu_bound), free(gelu_bound);
    free(gelu_tanh), free(gelu_tanh_bound);
  }
}

static void call_activation_gradients(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                                      const void *data) {
  (void)scratch;
  const sizes_of *s = data;
  kernels->swiglu_backward(all_threads(), s->n, in[0], in[1], in[2], out[0], s->accumulate, out[1],
                           s->accumulate_other);
  kernels->gelu_backward(all_threads(), s->n, in[0], in[2], out[2], s->accumulate);
  kernels->gelu_tanh_backward(all_threads(), s->n, in[0], in[2], out[5], s->accumulate);
  kernels->swiglu_backward(all_threads(), s->n, in[0], in[1], in[2], NULL, false, out[3], false);
  kernels->swiglu_backward(all_threads(), s->n, in[0], in[1], in[2], out[4], false, NULL, false);
}

static void activation_gradients_follow_their_equations(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 24, 0);
  for (int c = 0; c < 4 * SIZES; c++) {
    sizes_of s = {.n = sizes[c / 4], .accumulate = c & 1, .accumulate_other = c & 2};
    double *x = random_values(&random, s.n, 3), *up = random_values(&random, s.n, 1);
    double *dy = random_values(&random, s.n, 1), *old = random_values(&random, s.n, 1);
    double *values[6], *bounds[6];
    for (int o = 0; o < 6; o++) values[o] = zeros(s.n), bounds[o] = zeros(s.n);
    for (int64_t i = 0; i < s.n; i++) {
      double dgate = dy[i] * up[i] * silu_slope(x[i]), dup = dy[i] * silu(x[i]);
      double dgelu = dy[i] * (normal(x[i]) + x[i] * normal_density(x[i]));
      double gate = tanh_gate(x[i]),
             slope = 2 * sqrt(2 / 3.14159265358979323846) * (1 + 3 * 0.044715 * x[i] * x[i]);
      const double all[6] = {dgate + s.accumulate * old[i],
                             dup + s.accumulate_other * old[i],
                             dgelu + s.accumulate * old[i],
                             dup,
                             dgate,
                             dy[i] * (gate + x[i] * gate * (1 - gate) * slope) + s.accumulate * old[i]};
      for (int o = 0; o < 6; o++) {
        values[o][i] = all[o];
        bounds[o][i] = 8 * (fabs(dy[i]) * (1 + fabs(x[i])) * (1 + fabs(up[i])) + fabs(old[i]));
      }
    }
    kernel_check check = {.what = "activation gradients",
                          .call = call_activation_gradients,
                          .data = &s,
                          .inputs = 3,
                          .outputs = 6,
                          .in_size = {s.n, s.n, s.n},
                          .in = {x, up, dy},
                          .initial = {s.accumulate ? old : NULL, s.accumulate_other ? old : NULL,
                                      s.accumulate ? old : NULL, NULL, NULL, s.accumulate ? old : NULL}};
    for (int o = 0; o < 6; o++)
      check.out_size[o] = s.n, check.expected[o] = values[o], check.bound[o] = bounds[o];
    run_check(&check);
    free(x), free(up), free(dy), free(old);
    for (int o = 0; o < 6; o++) free(values[o]), free(bounds[o]);
  }
}

static void call_relu(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                      const void *data) {
  (void)scratch;
  const sizes_of *s = data;
  for (int squared = 0; squared < 2; squared++) {
    kernels->relu_forward(all_threads(), s->n, in[0], squared, out[squared]);
    kernels->relu_backward(all_threads(), s->n, in[0], squared, in[1], out[2 + squared], s->accumulate);
  }
}

static void relu_and_its_square_follow_their_equations(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 27, 0);
  for (int c = 0; c < 2 * SIZES; c++) {
    sizes_of s = {.n = sizes[c / 2], .accumulate = c & 1};
    double *x = random_values(&random, s.n, 3), *dy = random_values(&random, s.n, 1),
           *old = random_values(&random, s.n, 1), *values[4], *bounds[4];
    x[0] = 0;
    for (int o = 0; o < 4; o++) values[o] = zeros(s.n), bounds[o] = zeros(s.n);
    for (int64_t i = 0; i < s.n; i++) {
      double positive = x[i] > 0 ? x[i] : 0, kept = s.accumulate ? old[i] : 0;
      const double all[4] = {positive, positive * positive, (x[i] > 0 ? dy[i] : 0) + kept,
                             2 * positive * dy[i] + kept};
      for (int o = 0; o < 4; o++) {
        values[o][i] = all[o];
        bounds[o][i] = o ? 4 * (fabs(all[o]) + fabs(kept)) : 0;
      }
    }
    kernel_check check = {.what = "relu",
                          .call = call_relu,
                          .data = &s,
                          .inputs = 2,
                          .outputs = 4,
                          .in_size = {s.n, s.n},
                          .in = {x, dy},
                          .initial = {NULL, NULL, s.accumulate ? old : NULL, s.accumulate ? old : NULL}};
    for (int o = 0; o < 4; o++)
      check.out_size[o] = s.n, check.expected[o] = values[o], check.bound[o] = bounds[o];
    run_check(&check);
    free(x), free(dy), free(old);
    for (int o = 0; o < 4; o++) free(values[o]), free(bounds[o]);
  }
}

typedef struct activation_data {
  int64_t n;
  const double *up, *dy;
  bool gelu;
} activation_data;

static double activation_loss(const double *x, const void *data) {
  const activation_data *d = data;
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  double *y = zeros(d->n), loss = 0;
  if (d->gelu)
    kernels->gelu_forward(all_threads(), d->n, x, y);
  else
    kernels->swiglu_forward(all_threads(), d->n, x, d->up, y);
  for (int64_t i = 0; i < d->n; i++) loss += d->dy[i] * y[i];
  free(y);
  return loss;
}

static void activation_gradients_in_double_match_differences(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 25, 0);
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  enum { N = 67 };
  double *x = random_values(&random, N, 2), *up = random_values(&random, N, 1),
         *dy = random_values(&random, N, 1);
  double *gradient = zeros(N);
  activation_data d = {N, up, dy, false};
  kernels->swiglu_backward(all_threads(), N, x, up, dy, gradient, false, NULL, false);
  check_gradient("swiglu dgate", activation_loss, &d, N, x, gradient);
  d.gelu = true;
  kernels->gelu_backward(all_threads(), N, x, dy, gradient, false);
  check_gradient("gelu dx", activation_loss, &d, N, x, gradient);
  free(x), free(up), free(dy), free(gradient);
}

/* --- sum of squares ------------------------------------------------------------------------------------- */

static void a_sum_of_squares_is_exact_to_double_rounding_and_shows_what_is_not_finite(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 26, 0);
  int usual_threads = omp_get_max_threads();
  for (int number = 0; number < TABLE_COUNT; number++) {
    const ch_kernels *kernels = table_number(number);
    if (!kernels) continue;
    for (int c = 0; c < SIZES; c++) {
      int64_t n = sizes[c];
      double *x = random_values(&random, n, 1), expected = 0, first = 0;
      for (int64_t i = 0; i < n; i++) expected += x[i] * x[i];
      void *reals = reals_from(kernels, n, x);
      for (int threads = LEAST_THREADS; threads <= MOST_THREADS; threads++) {
        omp_set_num_threads(threads);
        double sum = kernels->sum_squares(all_threads(), n, reals);
        if (threads == LEAST_THREADS) first = sum;
        assert_true(sum == first); /* the same bits with any number of threads */
        assert_true(fabs(sum - expected) <= 1e-12 * expected);
      }
      free(reals);
      const double bad[] = {NAN, INFINITY, -INFINITY};
      for (int b = 0; b < 3; b++) {
        double kept = x[n / 2];
        x[n / 2] = bad[b];
        reals = reals_from(kernels, n, x);
        assert_false(isfinite(kernels->sum_squares(all_threads(), n, reals)));
        free(reals);
        x[n / 2] = kept;
      }
      for (int64_t i = 0; i < n; i++) x[i] = FLT_MAX; /* large but finite */
      reals = reals_from(kernels, n, x);
      assert_true(isfinite(kernels->sum_squares(all_threads(), n, reals)));
      free(reals);
      free(x);
    }
    assert_true(kernels->sum_squares(all_threads(), 0, NULL) == 0);
  }
  omp_set_num_threads(usual_threads);
}

/* Compares the sum of squares of each column with that of the column alone, bit for bit. */
static void squares_of_columns_are_those_of_each_alone(void **state) {
  (void)state;
  enum { ROWS = 7, COLUMNS = 21 };
  float x[ROWS * COLUMNS], column[ROWS];
  double sums[COLUMNS], alone;
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i % 11 - 5) * 0.37f + 1e-4f * (float)i;
  kernels->column_squares(all_threads(), ROWS, COLUMNS, x, sums);
  for (int c = 0; c < COLUMNS; c++) {
    double expected = 0;
    for (int r = 0; r < ROWS; r++) {
      column[r] = x[r * COLUMNS + c];
      expected += (double)column[r] * (double)column[r];
    }
    kernels->column_squares(all_threads(), ROWS, 1, column, &alone);
    assert_memory_equal(&alone, &sums[c], sizeof alone);
    assert_true(fabs(alone - expected) <= 1e-14 * expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(squares_of_columns_are_those_of_each_alone),
      cmocka_unit_test(sums_copies_and_fills_are_exact),
      cmocka_unit_test(a_bias_is_added_to_rows_and_summed_over_them),
      cmocka_unit_test(activations_follow_their_equations),
      cmocka_unit_test(activation_gradients_follow_their_equations),
      cmocka_unit_test(activation_gradients_in_double_match_differences),
      cmocka_unit_test(relu_and_its_square_follow_their_equations),
      cmocka_unit_test(a_sum_of_squares_is_exact_to_double_rounding_and_shows_what_is_not_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
