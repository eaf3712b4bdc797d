/* Tests the summary over seeds: means, spreads, paired intervals. Reference values are from tables of Student's t and
 * from NumPy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "report/sample.h"
#include "experiment/findings/summary.h"
#include "experiment/findings/comparison_json.h"

/* Reference values are from tables of the distribution. */
static void quantiles_are_those_of_students_t(void **state) {
  (void)state;
  static const struct {
    double outside, degrees, value;
  } cases[] = {{0.05, 1, 12.7062047}, {0.05, 2, 4.3026527},   {0.05, 3, 3.1824463},  {0.05, 10, 2.2281389},
               {0.05, 11, 2.2009852}, {0.05, 30, 2.0422725},  {0.05, 99, 1.9842170}, {0.01, 2, 9.9248432},
               {0.01, 4, 4.6040949},  {0.001, 5, 6.8688266},  {0.5, 1, 1},           {0.1, 7, 1.8945786},
               {0.02, 1, 31.8205160}, {0.001, 30, 3.6459586}, {0.2, 120, 1.2886462}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_float_equal(ch_student_t(cases[i].outside, cases[i].degrees), cases[i].value,
                       1e-7 * cases[i].value);
  assert_true(isinf(ch_student_t(0.05, 0)));
}

/* Fills in `seeds` runs of each of two models with the losses `a` and `b`, in the order of seeds. */
static void fill(ch_comparison *comparison, const double *a, const double *b, int seeds) {
  static ch_model_result runs[2 * CH_COMPARE_MOST_SEEDS];
  sample_comparison(comparison, 2);
  for (int i = 0; i < 2 * seeds; i++) {
    runs[i] = comparison->models[i % 2];
    runs[i].seed = (uint64_t)(i / 2 + 1);
    runs[i].validation_loss = i % 2 ? b[i / 2] : a[i / 2];
  }
  comparison->models = runs;
  comparison->count = comparison->planned = 2 * seeds;
}

static void differences_are_paired_by_seed(void **state) {
  (void)state;
  /* Both losses jump by 0.3 between seeds, far more than they differ, so only pairs show the difference. */
  static const double a[] = {3.41, 3.73, 3.10}, b[] = {3.40, 3.71, 3.095};
  ch_comparison comparison;
  ch_summary summary;
  ch_error error;
  fill(&comparison, a, b, 3);
  assert_int_equal(ch_summarise(&comparison, &summary, &error), CH_OK);
  assert_int_equal(summary.count, 2);
  assert_int_equal(summary.seeds, 3);
  assert_string_equal(summary.groups[0].name, "gqa:4"); /* the lower mean first */
  ch_spread spread = ch_group_spread(&summary.groups[1], ch_model_result_quality);
  assert_float_equal(spread.mean, 3.4133333, 1e-6);
  assert_float_equal(spread.deviation, 0.3150132, 1e-6);
  ch_difference d = *ch_difference_of(&summary, 1, 0);
  assert_int_equal(d.pairs, 3);
  assert_float_equal(d.mean, 0.0116667, 1e-6);
  assert_float_equal(d.low, -0.0073063, 2e-5);
  assert_float_equal(d.high, 0.0306396, 2e-5);
  assert_false(d.beyond_noise);
  ch_arena_free(&summary.arena);
  ch_arena_free(&comparison.arena);
}

static void steady_differences_are_beyond_the_noise(void **state) {
  (void)state;
  static const double a[] = {3.411, 3.73, 3.1095}, b[] = {3.40, 3.72, 3.10};
  ch_comparison comparison;
  ch_summary summary;
  ch_error error;
  fill(&comparison, a, b, 3);
  assert_int_equal(ch_summarise(&comparison, &summary, &error), CH_OK);
  ch_difference d = *ch_difference_of(&summary, 1, 0);
  assert_true(d.beyond_noise);
  assert_true(ch_difference_of(&summary, 0, 1)->beyond_noise);
  ch_arena_free(&summary.arena);
  /* One seed says nothing about noise. */
  comparison.count = 2;
  assert_int_equal(ch_summarise(&comparison, &summary, &error), CH_OK);
  d = *ch_difference_of(&summary, 1, 0);
  assert_int_equal(d.pairs, 1);
  assert_false(d.beyond_noise);
  assert_true(isinf(d.high));
  json_t *file = ch_comparison_to_json(&comparison), *list = json_object_get(file, "differences");
  assert_true(json_is_null(json_object_get(json_array_get(list, 0), "beyond_noise")));
  json_decref(file);
  ch_arena_free(&summary.arena);
  ch_arena_free(&comparison.arena);
}

static void only_common_seeds_are_paired(void **state) {
  (void)state;
  static const double a[] = {3.41, 3.73, 6}, b[] = {3.40, 3.70, 3};
  ch_comparison comparison;
  ch_summary summary;
  ch_error error;
  fill(&comparison, a, b, 3);
  comparison.count = 5; /* the third seed of gqa:4 is not done yet */
  comparison.models[4].name = "mha";
  assert_int_equal(ch_summarise(&comparison, &summary, &error), CH_OK);
  ch_difference d = *ch_difference_of(&summary, 1, 0);
  assert_int_equal(d.pairs, 2);
  assert_float_equal(d.mean, 0.02, 1e-9);
  ch_arena_free(&summary.arena);
  ch_arena_free(&comparison.arena);
}

static void the_files_have_means_and_differences(void **state) {
  (void)state;
  static const double a[] = {3.41, 3.73}, b[] = {3.40, 3.70};
  ch_comparison comparison;
  fill(&comparison, a, b, 2);
  json_t *object = ch_comparison_to_json(&comparison);
  assert_int_equal(json_array_size(json_object_get(object, "models")), 4);
  const json_t *first = json_array_get(json_object_get(object, "summary"), 0);
  assert_string_equal(json_string_value(json_object_get(first, "name")), "gqa:4");
  assert_int_equal(json_array_size(json_object_get(first, "seeds")), 2);
  const json_t *loss = json_object_get(first, "validation_loss");
  assert_float_equal(json_real_value(json_object_get(loss, "mean")), 3.55, 1e-9);
  assert_float_equal(json_real_value(json_object_get(loss, "std")), 0.2121320, 1e-6);
  const json_t *pair = json_array_get(json_object_get(object, "differences"), 0);
  assert_string_equal(json_string_value(json_object_get(pair, "name")), "mha");
  assert_string_equal(json_string_value(json_object_get(pair, "minus")), "gqa:4");
  assert_float_equal(json_real_value(json_object_get(pair, "mean")), 0.02, 1e-9);
  json_decref(object);
  ch_arena_free(&comparison.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantiles_are_those_of_students_t),
      cmocka_unit_test(differences_are_paired_by_seed),
      cmocka_unit_test(steady_differences_are_beyond_the_noise),
      cmocka_unit_test(only_common_seeds_are_paired),
      cmocka_unit_test(the_files_have_means_and_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
