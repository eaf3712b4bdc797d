/* Tests the warnings about runs whose results mean little. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "experiment/findings/warnings.h"

enum { POINTS = 200 };

static ch_curve_point curves[2][POINTS], validations[2][POINTS];

/* Returns two runs, "a" and "b", with 10000 tokens per point. Their losses follow a law with a little noise. */
static ch_comparison made(ch_model_result runs[2]) {
  ch_random random;
  ch_random_seed(&random, 1, 0);
  for (int r = 0; r < 2; r++) {
    for (int p = 0; p < POINTS; p++) {
      int64_t tokens = (p + 1) * INT64_C(10000);
      double loss = pow(2e4 / (double)tokens, 0.5) + 3;
      curves[r][p] = (ch_curve_point){tokens, loss + 0.002 * ch_random_normal(&random)};
      validations[r][p] = (ch_curve_point){tokens, loss};
    }
    runs[r] = (ch_model_result){.name = r ? "b" : "a",
                                .seed = 1,
                                .validation_loss = validations[r][POINTS - 1].loss,
                                .tokens_trained = POINTS * INT64_C(10000),
                                .curve = curves[r],
                                .curve_points = POINTS,
                                .validation_curve = validations[r],
                                .validation_points = POINTS};
  }
  return (ch_comparison){.tolerance = 0.01,
                         .models = runs,
                         .count = 2,
                         .planned = 2,
                         .data = {.train_tokens = 1000000, .token_entropy = 6},
                         .training = {.tokens = POINTS * INT64_C(10000), .steps = POINTS, .seeds = 1}};
}

static void assert_warnings(const ch_comparison *comparison, const char *expected) {
  ch_summary summary;
  ch_warnings warnings;
  ch_error error = {0};
  assert_int_equal(ch_summarise(comparison, &summary, &error), CH_OK);
  assert_int_equal(ch_comparison_warnings(comparison, &summary, &summary.arena, &warnings, &error), CH_OK);
  json_t *list = ch_warnings_to_json(&warnings), *w, *name;
  char found[300] = "";
  size_t i, k;
  json_array_foreach(list, i, w) {
    strcat(found, json_string_value(json_object_get(w, "kind")));
    json_array_foreach(json_object_get(w, "names"), k, name) {
      strcat(found, " ");
      strcat(found, json_string_value(name));
      assert_non_null(strstr(json_string_value(json_object_get(w, "sentence")), json_string_value(name)));
    }
    strcat(found, ";");
  }
  assert_string_equal(found, expected);
  json_decref(list);
  ch_arena_free(&summary.arena);
}

static void runs_that_learned_are_not_warned_of(void **state) {
  (void)state;
  ch_model_result runs[2];
  ch_comparison comparison = made(runs);
  assert_warnings(&comparison, "");
  comparison.count = 0;
  assert_warnings(&comparison, "");
}

static void a_loss_above_that_of_guessing_has_diverged(void **state) {
  (void)state;
  ch_model_result runs[2];
  ch_comparison comparison = made(runs);
  comparison.data.vocab_size = 512;
  runs[1].validation_loss = 6.25; /* log 512 is 6.24: nothing was learned, but the run did not diverge */
  assert_warnings(&comparison, "first_plateau b;");
  runs[1].validation_loss = 6.6;
  assert_warnings(&comparison, "diverged b;");
}

static void a_loss_near_that_of_frequencies_is_the_first_plateau(void **state) {
  (void)state;
  ch_model_result runs[2];
  ch_comparison comparison = made(runs);
  runs[0].validation_loss = 0.94 * 6;
  assert_warnings(&comparison, "");
  runs[1].validation_loss = 0.96 * 6;
  assert_warnings(&comparison, "first_plateau b;");
  runs[0].validation_loss = 6.2;
  assert_warnings(&comparison, "first_plateau b a;");
  comparison.data.token_entropy = 0; /* unknown */
  assert_warnings(&comparison, "");
}

static void text_read_often_with_a_rising_loss_is_warned_of(void **state) {
  (void)state;
  ch_model_result runs[2];
  ch_comparison comparison = made(runs);
  comparison.data.train_tokens = 400000; /* five passes */
  assert_warnings(&comparison, "");
  runs[1].validation_loss = validations[1][POINTS - 1].loss = 1.002 * validations[1][POINTS - 2].loss;
  assert_warnings(&comparison, "reread b;");
  comparison.data.train_tokens = 600000; /* three and a third passes */
  assert_warnings(&comparison, "");
  comparison.data.train_tokens = 400000;
  comparison.data.images = true; /* images are always read several times */
  assert_warnings(&comparison, "");
}

static void laws_of_curves_that_do_not_hold_three_parameters_are_warned_of(void **state) {
  (void)state;
  ch_model_result runs[2];
  ch_comparison comparison = made(runs);
  /* Few points on a straight line do not show how the curve continues. */
  runs[0].curve_points = 9;
  for (int p = 0; p < 9; p++)
    curves[0][p] = (ch_curve_point){1000000 + p * 1000, 4 - 0.01 * p + 0.003 * (p % 3)};
  assert_warnings(&comparison, "loose_law a;");
}

static void a_tuned_rate_at_the_edge_is_warned_of(void **state) {
  (void)state;
  ch_model_result runs[2];
  ch_comparison comparison = made(runs);
  runs[1].lr_at_edge = true;
  assert_warnings(&comparison, "edge_of_grid b;");
}

/* Asserts the warning after a sweep of "a" over three rates. */
static void assert_edge(double lowest, double chosen, const char *sentence) {
  static const double rates[] = {1e-3, 3e-3, 1e-2};
  ch_sweep_result runs[3];
  for (int i = 0; i < 3; i++) runs[i] = (ch_sweep_result){.name = "a", .lr = rates[i]};
  ch_sweep_choice choice = {.name = "a", .chosen = chosen, .lowest = lowest, .whole = true};
  ch_sweep sweep = {.runs = runs, .count = 3, .planned = 3, .choices = &choice, .mechanisms = 1};
  ch_arena arena = {0};
  ch_warnings warnings;
  ch_error error;
  assert_int_equal(ch_sweep_warnings(&sweep, &arena, &warnings, &error), CH_OK);
  assert_int_equal(warnings.count, sentence != NULL);
  if (sentence) {
    assert_string_equal(warnings.list[0].kind, "edge_of_grid");
    assert_non_null(strstr(warnings.list[0].sentence, sentence));
  }
  choice.whole = false; /* unfinished runs may have better rates */
  assert_int_equal(ch_sweep_warnings(&sweep, &arena, &warnings, &error), CH_OK);
  assert_int_equal(warnings.count, 0);
  ch_arena_free(&arena);
}

static void a_rate_at_the_edge_of_the_grid_is_warned_of(void **state) {
  (void)state;
  assert_edge(3e-3, 3e-3, NULL);
  assert_edge(3e-3, 1e-2, "a is stable at 0.01, the largest rate of the grid");
  assert_edge(1e-2, 1e-2, "a has its lowest loss at 0.01, the largest rate of the grid");
  assert_edge(1e-3, 3e-3, "a has its lowest loss at 0.001, the smallest rate of the grid");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_that_learned_are_not_warned_of),
      cmocka_unit_test(a_loss_above_that_of_guessing_has_diverged),
      cmocka_unit_test(a_loss_near_that_of_frequencies_is_the_first_plateau),
      cmocka_unit_test(text_read_often_with_a_rising_loss_is_warned_of),
      cmocka_unit_test(laws_of_curves_that_do_not_hold_three_parameters_are_warned_of),
      cmocka_unit_test(a_tuned_rate_at_the_edge_is_warned_of),
      cmocka_unit_test(a_rate_at_the_edge_of_the_grid_is_warned_of),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
