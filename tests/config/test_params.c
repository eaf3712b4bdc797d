/* Tests the parameter table: order, names, counts, duplicates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "config/params.h"

static void rows_keep_their_order_and_are_found_by_name(void **state) {
  (void)state;
  ch_params params = {0};
  assert_int_equal(ch_params_find(&params, "anything"), -1);
  enum { LAYERS = 700 };
  for (int i = 0; i < LAYERS; i++) {
    assert_int_equal(ch_params_matrix(&params, CH_PARAM_ATTENTION, 0.02, 6, 4, "layers.%d.q", i), 2 * i);
    assert_int_equal(ch_params_vector(&params, CH_PARAM_NORM, 1, 4, "layers.%d.norm", i), 2 * i + 1);
  }
  assert_int_equal(params.count, 2 * LAYERS);
  assert_false(params.failed);
  for (int i = 0; i < LAYERS; i++) {
    char name[64];
    snprintf(name, sizeof name, "layers.%d.norm", i);
    assert_int_equal(ch_params_find(&params, name), 2 * i + 1);
    assert_string_equal(params.rows[2 * i + 1].name, name);
  }
  assert_int_equal(ch_params_find(&params, "layers.700.q"), -1);
  assert_int_equal(ch_params_find(&params, ""), -1);
  ch_params_free(&params);
  assert_int_equal(params.count, 0);
}

static void matrices_decay_and_vectors_do_not(void **state) {
  (void)state;
  ch_params params = {0};
  int matrix = ch_params_matrix(&params, CH_PARAM_FFN, 0.006, 1 << 20, 1 << 20, "w");
  int bias = ch_params_vector(&params, CH_PARAM_ATTENTION, 0, 7, "b");
  const ch_param *w = &params.rows[matrix], *b = &params.rows[bias];
  assert_true(w->decay && w->init == CH_PARAM_INIT_NORMAL && w->std == 0.006 && w->kind == CH_PARAM_FFN);
  assert_true(w->rank == 2 && ch_param_count(w) == (int64_t)1 << 40);
  assert_true(!b->decay && b->init == CH_PARAM_INIT_CONSTANT && b->start == 0 &&
              b->kind == CH_PARAM_ATTENTION);
  assert_true(b->rank == 1 && ch_param_count(b) == 7);
  ch_params_free(&params);
}

static void a_name_declared_twice_is_reported(void **state) {
  (void)state;
  ch_params params = {0};
  assert_int_equal(ch_params_vector(&params, CH_PARAM_NORM, 1, 4, "norm"), 0);
  assert_int_equal(ch_params_vector(&params, CH_PARAM_NORM, 1, 4, "norm"), -1);
  assert_true(params.failed);
  assert_int_equal(params.count, 1);
  ch_params_free(&params);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_keep_their_order_and_are_found_by_name),
      cmocka_unit_test(matrices_decay_and_vectors_do_not),
      cmocka_unit_test(a_name_declared_twice_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
