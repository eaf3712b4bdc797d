/* Tests AdamW on a parameter set against its equations in double, norms, and the search for values that are
 * not finite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "train/optimizer.h"
#include "team_testing.h"

enum { ROWS = 9, COLUMNS = 11, MATRIX = ROWS * COLUMNS, VECTOR = 5 };

static void declare(ch_params *params) {
  ch_params_matrix(params, CH_PARAM_FFN, 0.02, ROWS, COLUMNS, "matrix");
  ch_params_vector(params, CH_PARAM_NORM, 1, VECTOR, "vector");
}

static ch_status create_set(ch_parameter_set *set, const ch_params *params, const ch_kernels *kernels,
                            ch_error *error) {
  return ch_parameter_set_create_part(set, params, kernels, 0, 1, NULL, error);
}

/* Updates w, m and v of one value by the paper's equations (decoupled decay). */
static void reference_step(double *w, double *m, double *v, double g, int step, double lr, double decay) {
  const double beta1 = 0.8, beta2 = 0.99, eps = 1e-6;
  *m = beta1 * *m + (1 - beta1) * g;
  *v = beta2 * *v + (1 - beta2) * g * g;
  double m_hat = *m / (1 - pow(beta1, step)), v_hat = *v / (1 - pow(beta2, step));
  *w -= lr * decay * *w + lr * m_hat / (sqrt(v_hat) + eps);
}

/* Checks five steps in an element type. `factor` multiplies the matrix's learning rate. */
static void check_dtype(ch_dtype dtype, double factor, double tolerance) {
  ch_params params = {0};
  ch_parameter_set set;
  ch_error error = {0};
  ch_train_options options = {.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.3};
  const ch_kernels *kernels = ch_kernels_best(dtype);
  declare(&params);
  params.rows[0].lr_factor = factor;
  assert_int_equal(create_set(&set, &params, kernels, &error), CH_OK);
  double w[2][MATRIX], m[2][MATRIX] = {0}, v[2][MATRIX] = {0}, g[2][MATRIX];
  ch_random random;
  ch_random_seed(&random, 3, 0);
  const int64_t counts[2] = {MATRIX, VECTOR};
  for (int step = 1; step <= 5; step++) {
    double squares = 0;
    for (int p = 0; p < 2; p++)
      for (int i = 0; i < counts[p]; i++) {
        if (step == 1) w[p][i] = ch_random_normal(&random);
        g[p][i] = ch_random_normal(&random);
        squares += g[p][i] * g[p][i];
      }
    for (int p = 0; p < 2; p++) {
      if (step == 1) kernels->convert_from(all_threads(), counts[p], w[p], CH_F64, set.weights[p].data);
      kernels->convert_from(all_threads(), counts[p], g[p], CH_F64, set.gradients[p].data);
    }
    assert_true(fabs(ch_gradient_norm(&set, kernels, all_threads()) - sqrt(squares)) < 1e-6 * sqrt(squares));
    ch_adamw_step(&set, kernels, all_threads(), &options, step, 0.01, 0.25);
    for (int p = 0; p < 2; p++)
      for (int i = 0; i < counts[p]; i++)
        if (p == 0) /* decay follows the run's rate, 0.01 */
          reference_step(&w[p][i], &m[p][i], &v[p][i], 0.25 * g[p][i], step, 0.01 * factor, 0.3 / factor);
        else
          reference_step(&w[p][i], &m[p][i], &v[p][i], 0.25 * g[p][i], step, 0.01, 0);
  }
  for (int p = 0; p < 2; p++)
    for (int i = 0; i < counts[p]; i++) {
      double got =
          dtype == CH_F64 ? ((double *)set.weights[p].data)[i] : (double)((float *)set.weights[p].data)[i];
      if (fabs(got - w[p][i]) > tolerance)
        fail_msg("value %d of tensor %d is %.9g where %.9g was expected", i, p, got, w[p][i]);
    }
  ch_parameter_set_free(&set);
  ch_params_free(&params);
}

static void adamw_follows_its_equations_and_decays_matrices_only(void **state) {
  (void)state;
  check_dtype(CH_F64, 1, 1e-14);
  check_dtype(CH_F32, 1, 1e-6);
}

static void a_tensor_learns_at_its_own_share_of_the_rate_and_decays_at_the_rate(void **state) {
  (void)state;
  check_dtype(CH_F64, 0.125, 1e-14);
  check_dtype(CH_F32, 3, 1e-6);
}

/* Without gradients a step is only decay, lr * 0.3 of a matrix's difference from the identity. The map is a
   tensor of rank 3, with one matrix per head. */
static void maps_of_heads_decay_to_the_identity(void **state) {
  (void)state;
  enum { HEADS = 3, DIM = 4 };
  ch_params params = {0};
  ch_parameter_set set;
  ch_error error = {0};
  ch_train_options options = {.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.3};
  const ch_kernels *kernels = ch_kernels_best(CH_F64);
  int map = ch_params_matrix(&params, CH_PARAM_ATTENTION, 0, DIM, DIM, "map");
  ch_param *row = &params.rows[map];
  row->rank = 3;
  row->shape[0] = HEADS;
  row->shape[1] = row->shape[2] = DIM;
  row->decay_to_identity = true;
  assert_int_equal(create_set(&set, &params, kernels, &error), CH_OK);
  double *weight = set.weights[0].data, *gradient = set.gradients[0].data;
  for (int i = 0; i < HEADS * DIM * DIM; i++) weight[i] = 0.1 * i, gradient[i] = 0;
  ch_adamw_step(&set, kernels, all_threads(), &options, 1, 0.01, 1);
  for (int i = 0; i < HEADS * DIM * DIM; i++) {
    double identity = i / DIM % DIM == i % DIM ? 1 : 0, before = 0.1 * i;
    assert_true(fabs(weight[i] - (before + 0.01 * 0.3 * (identity - before))) < 1e-14);
  }
  ch_parameter_set_free(&set);
  ch_params_free(&params);
}

static void the_first_tensor_that_is_not_finite_is_named(void **state) {
  (void)state;
  ch_params params = {0};
  ch_parameter_set set;
  ch_error error = {0};
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  declare(&params);
  assert_int_equal(create_set(&set, &params, ch_kernels_best(CH_F32), &error), CH_OK);
  assert_null(ch_first_not_finite(&set, set.gradients, kernels, all_threads()));
  ((float *)set.gradients[1].data)[VECTOR - 1] = INFINITY;
  assert_string_equal(ch_first_not_finite(&set, set.gradients, kernels, all_threads()), "vector");
  ((float *)set.gradients[0].data)[MATRIX - 1] = NAN;
  assert_string_equal(ch_first_not_finite(&set, set.gradients, kernels, all_threads()), "matrix");
  assert_false(isfinite(ch_gradient_norm(&set, kernels, all_threads())));
  ch_parameter_set_free(&set);
  ch_params_free(&params);
}

static void tensors_start_on_cache_lines_and_do_not_overlap(void **state) {
  (void)state;
  ch_params params = {0};
  ch_parameter_set set;
  ch_error error = {0};
  declare(&params);
  assert_int_equal(create_set(&set, &params, ch_kernels_best(CH_F32), &error), CH_OK);
  for (int p = 0; p < 2; p++) {
    assert_int_equal((uintptr_t)set.weights[p].data % 64, 0);
    memset(set.weights[p].data, 0xff, ch_tensor_bytes(&set.weights[p]));
    memset(set.gradient_data[p], 0, ch_tensor_bytes(&set.weights[p]));
  }
  assert_int_equal(((unsigned char *)set.weights[0].data)[MATRIX * 4 - 1], 0xff);
  assert_int_equal(((unsigned char *)set.weights[0].data)[MATRIX * 4], 0);
  ch_parameter_set_free(&set);
  ch_params_free(&params);
}

static void a_model_larger_than_the_machine_is_refused(void **state) {
  (void)state;
  ch_params params = {0};
  ch_parameter_set set;
  ch_error error = {0};
  ch_params_matrix(&params, CH_PARAM_FFN, 0.02, 1 << 20, 1 << 20, "matrix");
  assert_int_equal(create_set(&set, &params, ch_kernels_best(CH_F32), &error), CH_ERROR_MEMORY);
  assert_non_null(strstr(error.message, "17592.2 GB"));
  ch_params_free(&params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adamw_follows_its_equations_and_decays_matrices_only),
      cmocka_unit_test(a_tensor_learns_at_its_own_share_of_the_rate_and_decays_at_the_rate),
      cmocka_unit_test(maps_of_heads_decay_to_the_identity),
      cmocka_unit_test(the_first_tensor_that_is_not_finite_is_named),
      cmocka_unit_test(a_model_larger_than_the_machine_is_refused),
      cmocka_unit_test(tensors_start_on_cache_lines_and_do_not_overlap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
