/* Tests the search for a learning rate on known losses, and the parsing of rates by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "experiment/lineup/learning_rates.h"
#include "experiment/trial/rate_search.h"

/* A loss whose lowest value, `floor`, is at the rate `best`. */
typedef struct landscape {
  double best, floor, curvature;
  double diverges_above; /* runs at higher rates diverge; 0: none diverges */
} landscape;

static double loss_at(const landscape *l, double lr) {
  double x = log2(lr / l->best);
  return l->floor + l->curvature * x * x;
}

static ch_tune tried(const landscape *l, double usual, int most) {
  ch_tune tune = {.most = most};
  for (double lr; (lr = ch_tune_next(&tune, usual)) > 0; tune.count++) {
    assert_true(tune.count < most);
    bool stopped = l->diverges_above > 0 && lr > l->diverges_above;
    tune.tried[tune.count] = (ch_tried_rate){lr, stopped ? 0 : loss_at(l, lr), stopped};
  }
  return tune;
}

static void near(double got, double expected, double tolerance) {
  if (!(fabs(got - expected) <= tolerance * fabs(expected)))
    fail_msg("%g where %g was expected", got, expected);
}

static void the_vertex_is_found_from_three_rates(void **state) {
  (void)state;
  landscape l = {.best = 3.6e-3, .floor = 3.5, .curvature = 0.05};
  ch_tune tune = tried(&l, 3e-3, 5);
  assert_int_equal(tune.count, 3);
  ch_tune_result result = ch_tune_conclude(&tune);
  near(result.lr, 3.6e-3, 1e-9);
  assert_false(result.at_edge);
  near(loss_at(&l, result.high) / loss_at(&l, result.lr), 1 + ch_tune_flat, 1e-3);
  near(result.lr / result.low, result.high / result.lr, 1e-9);
  near(result.usual_cost, 0, 1); /* the usual rate is the best of those tried */
  assert_true(result.usual_cost == 0);
}

static void a_far_best_rate_is_walked_to(void **state) {
  (void)state;
  landscape high = {.best = 1.5e-2, .floor = 3.5, .curvature = 0.05}, low = {1e-3, 3.5, 0.05, 0};
  ch_tune tune = tried(&high, 3e-3, 5);
  near(ch_tune_conclude(&tune).lr, 1.5e-2, 1e-9);
  assert_true(ch_tune_conclude(&tune).usual_cost > 0);
  tune = tried(&low, 3e-3, 5);
  near(ch_tune_conclude(&tune).lr, 1e-3, 1e-9);
}

static void the_budget_ends_the_search_at_an_edge(void **state) {
  (void)state;
  landscape l = {.best = 1, .floor = 3.5, .curvature = 0.05};
  ch_tune tune = tried(&l, 3e-3, 4);
  assert_int_equal(tune.count, 4);
  ch_tune_result result = ch_tune_conclude(&tune);
  assert_true(result.at_edge && result.low == 0);
  near(result.lr, 3e-3 * 8, 1e-9);
}

static void rates_that_were_stopped_bound_the_search(void **state) {
  (void)state;
  landscape l = {.best = 3e-3, .floor = 3.5, .curvature = 0.05, .diverges_above = 3.5e-3};
  ch_tune tune = tried(&l, 3e-3, 5);
  ch_tune_result result = ch_tune_conclude(&tune);
  near(result.lr, 3e-3, 1e-9);
  assert_false(result.at_edge);
  assert_true(result.low == 0); /* a parabola needs three neighbouring runs that ended */
  l.diverges_above = 1e-3;
  l.best = 5e-4;
  tune = tried(&l, 3e-3, 5); /* 3e-3 and 1.5e-3 diverge */
  assert_true(ch_tune_conclude(&tune).lr < 1e-3);
  l.diverges_above = 1e-9;
  tune = tried(&l, 3e-3, 5);
  assert_int_equal(tune.count, 5);
  for (int i = 0; i < 5; i++) assert_true(tune.tried[i].stopped);
}

static void only_late_and_clearly_worse_runs_are_hopeless(void **state) {
  (void)state;
  const ch_curve_point curve[] = {{100, 6}, {200, 5}, {300, 4.5}, {400, 4}};
  const ch_model_result best = {.validation_curve = curve, .validation_points = 4};
  assert_false(ch_tune_is_hopeless(&best, 100, 400, 60)); /* too early */
  assert_true(ch_tune_is_hopeless(&best, 200, 400, 5.5));
  assert_false(ch_tune_is_hopeless(&best, 200, 400, 5.3));
  assert_false(ch_tune_is_hopeless(&best, 250, 400, 50)); /* the other run was not evaluated there */
  assert_false(ch_tune_is_hopeless(&best, 400, 400, 50)); /* stopping would save nothing */
}

static void rates_are_read_by_name(void **state) {
  (void)state;
  ch_error error = {0};
  ch_compare_plan plan;
  double common;
  assert_int_equal(ch_compare_plan_names("mha,mla,gqa:2", &plan, &error), CH_OK);
  plan.models[2].config.parametrization = CH_PARAMETRIZATION_SPECTRAL;
  assert_int_equal(ch_rates_common(" mla=6e-3, 4e-3", &common, &error), CH_OK);
  assert_true(common == 4e-3);
  assert_int_equal(ch_rates_settle(" mla=6e-3, 4e-3", common, false, &plan, &error), CH_OK);
  assert_true(plan.models[0].lr == 4e-3 && plan.models[1].lr == 6e-3 && plan.models[2].lr == 4e-3);
  assert_int_equal(ch_rates_settle("mla=6e-3", 0, false, &plan, &error), CH_OK);
  assert_true(plan.models[0].lr == 2e-3 && plan.models[1].lr == 6e-3 && plan.models[2].lr == 4e-3);
  assert_int_equal(ch_rates_settle(NULL, 0, true, &plan, &error), CH_OK);
  assert_true(plan.models[0].lr == 1e-3);
  const char *const wrong[] = {"mla=", "mla=x", "1e-3,2e-3", "mla=-1", "mla=nan", "=1e-3 2", "11"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    bool fine = ch_rates_common(wrong[i], &common, &error) == CH_OK &&
                ch_rates_settle(wrong[i], common, false, &plan, &error) == CH_OK;
    if (fine) fail_msg("%s was taken", wrong[i]);
  }
  assert_int_equal(ch_rates_settle("mfa=1e-3", 0, false, &plan, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "mfa, which mechanisms does not name"));
  ch_compare_plan_free(&plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_vertex_is_found_from_three_rates),
      cmocka_unit_test(a_far_best_rate_is_walked_to),
      cmocka_unit_test(the_budget_ends_the_search_at_an_edge),
      cmocka_unit_test(rates_that_were_stopped_bound_the_search),
      cmocka_unit_test(only_late_and_clearly_worse_runs_are_hopeless),
      cmocka_unit_test(rates_are_read_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
