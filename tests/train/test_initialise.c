/* Tests initial weights: their distribution, and that they do not depend on threads or on other tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "train/initialise.h"

enum { ROWS = 700, COLUMNS = 300, COUNT = ROWS * COLUMNS };

/* Returns the initial values of a tensor `name` of COUNT elements among `others` other tensors. */
static float *initial(const char *name, uint64_t seed, int others) {
  ch_params params = {0};
  ch_tensor tensors[8] = {0};
  float *ours = malloc(COUNT * sizeof *ours), *theirs = malloc(COUNT * sizeof *theirs);
  assert_true(ours && theirs);
  for (int i = 0; i < others; i++) {
    ch_params_matrix(&params, CH_PARAM_FFN, 0.5, ROWS, COLUMNS, "other.%d", i);
    tensors[i] = (ch_tensor){CH_F32, 2, {ROWS, COLUMNS}, theirs};
  }
  ch_params_matrix(&params, CH_PARAM_FFN, 0.02, ROWS, COLUMNS, "%s", name);
  tensors[others] = (ch_tensor){CH_F32, 2, {ROWS, COLUMNS}, ours};
  ch_initialise(&params, seed, tensors);
  ch_params_free(&params);
  free(theirs);
  return ours;
}

static bool same(const float *a, const float *b) {
  return memcmp(a, b, COUNT * sizeof *a) == 0;
}

static void a_tensor_depends_on_seed_and_name_alone(void **state) {
  (void)state;
  float *base = initial("model.a", 1, 0), *beside = initial("model.a", 1, 3);
  float *renamed = initial("model.b", 1, 0), *reseeded = initial("model.a", 2, 0);
  assert_true(same(base, beside));
  assert_false(same(base, renamed));
  assert_false(same(base, reseeded));
  free(base);
  free(beside);
  free(renamed);
  free(reseeded);
}

static void the_number_of_threads_changes_nothing(void **state) {
  (void)state;
  int before = omp_get_max_threads();
  omp_set_num_threads(1);
  float *one = initial("model.a", 1, 1);
  omp_set_num_threads(3);
  float *three = initial("model.a", 1, 1);
  omp_set_num_threads(before);
  assert_true(same(one, three));
  free(one);
  free(three);
}

static void matrices_are_normal_cut_at_three_sigma(void **state) {
  (void)state;
  float *values = initial("model.a", 7, 0);
  double sum = 0, squares = 0, fourth = 0, largest = 0;
  int beyond_two = 0;
  for (int i = 0; i < COUNT; i++) {
    double x = (double)values[i] / 0.02;
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    beyond_two += fabs(x) > 2;
    largest = fmax(largest, fabs(x));
  }
  /* Moments of a standard normal cut at 3: variance 0.97334, kurtosis 2.8348; P(|x| > 2) = 0.04287. */
  assert_true(largest <= 3.0000002 && largest > 2.99);
  assert_true(fabs(sum / COUNT) < 4 / sqrt(COUNT));
  assert_true(fabs(squares / COUNT - 0.97334) < 0.013);
  assert_true(fabs(fourth / COUNT / 0.97334 / 0.97334 - 2.8348) < 0.05);
  assert_true(fabs((double)beyond_two / COUNT - 0.04287) < 0.002);
  free(values);
}

static void pieces_of_a_tensor_do_not_repeat(void **state) {
  (void)state;
  float *values = initial("model.a", 7, 0);
  for (int i = 0; i + (1 << 16) < COUNT; i += 1000) assert_true(values[i] != values[i + (1 << 16)]);
  free(values);
}

static void norms_start_at_one_and_biases_at_zero_in_double_too(void **state) {
  (void)state;
  ch_params params = {0};
  double ones[5], zeros[5] = {9, 9, 9, 9, 9};
  ch_params_vector(&params, CH_PARAM_NORM, 1, 5, "norm");
  ch_params_vector(&params, CH_PARAM_ATTENTION, 0, 5, "bias");
  ch_tensor tensors[2] = {{CH_F64, 1, {5}, ones}, {CH_F64, 1, {5}, zeros}};
  ch_initialise(&params, 0, tensors);
  for (int i = 0; i < 5; i++) assert_true(ones[i] == 1 && zeros[i] == 0);
  ch_params_free(&params);
}

static bool asked_before(void *context) {
  return (*(int *)context)++ > 0;
}

static void drawing_can_be_stopped_between_pieces(void **state) {
  (void)state;
  int asked = 0;
  const ch_param param = {.name = "model.a", .rank = 1, .shape = {1 << 20}, .std = 1};
  float *values = calloc(1 << 20, sizeof *values);
  const ch_tensor weight = {CH_F32, 1, {1 << 20}, values};
  assert_false(ch_initialise_one(&param, 7, &weight, asked_before, &asked));
  assert_true(asked >= 2 && asked < 16); /* there are 16 pieces */
  assert_true(ch_initialise_one(&param, 7, &weight, NULL, NULL));
  free(values);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tensor_depends_on_seed_and_name_alone),
      cmocka_unit_test(the_number_of_threads_changes_nothing),
      cmocka_unit_test(matrices_are_normal_cut_at_three_sigma),
      cmocka_unit_test(pieces_of_a_tensor_do_not_repeat),
      cmocka_unit_test(drawing_can_be_stopped_between_pieces),
      cmocka_unit_test(norms_start_at_one_and_biases_at_zero_in_double_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
