/* Tests laws and spikes of curves through the public interface, from arrays and from files. */
#include "api_testing.h"

enum { POINTS = 40 };

static double law_of(double tokens) {
  return pow(4e8 / tokens, 0.35) + 1.9;
}

static void a_law_is_found_again(void **state) {
  (void)state;
  double tokens[POINTS], losses[POINTS];
  for (int i = 0; i < POINTS; i++) losses[i] = law_of(tokens[i] = 1e6 * (i + 1));
  ch_scaling_law law;
  must(ch_scaling_law_fit(tokens, losses, POINTS, 1e9, &law, &error));
  assert_true(fabs(law.alpha.value - 0.35) < 1e-3 && fabs(law.floor.value - 1.9) < 1e-2);
  assert_true(fabs(law.at.value - law_of(1e9)) < 1e-2);
  assert_true(fabs(ch_scaling_law_loss(&law, 2e7) - law_of(2e7)) < 1e-3);
  assert_int_equal(law.points, POINTS);
  assert_int_equal(ch_scaling_law_fit(tokens, losses, CH_SCALING_LEAST_POINTS - 1, 0, &law, &error),
                   CH_ERROR_ARGUMENT);
}

static void spikes_are_judged(void **state) {
  (void)state;
  double losses[400];
  ch_stability stability;
  for (int i = 0; i < 400; i++) losses[i] = 5 - 0.005 * i + 0.01 * (i % 3);
  ch_stability_judge(losses, 400, &stability);
  assert_int_equal(stability.verdict, CH_STABLE);
  assert_int_equal(stability.spikes, 0);
  losses[199] = 9;
  ch_stability_judge(losses, 400, &stability);
  assert_int_equal(stability.verdict, CH_STABLE);
  assert_int_equal(stability.spikes, 1);
  assert_true(stability.kept == 1 && stability.list[0].first == 200 && stability.list[0].recovered);
  losses[300] = NAN;
  ch_stability_judge(losses, 400, &stability);
  assert_int_equal(stability.verdict, CH_NOT_FINITE);
  assert_int_equal(stability.step, 301);
  assert_string_equal(ch_stability_name(stability.verdict), "not_finite");
}

static void write_table(const char *name, int points) {
  FILE *file = fopen(at(name), "w");
  assert_non_null(file);
  for (int i = 1; i <= points; i++) fprintf(file, "%d,%.9f\n", 1000000 * i, law_of(1e6 * i));
  assert_int_equal(fclose(file), 0);
}

static void models_of_several_sizes_are_fitted(void **state) {
  (void)state;
  ch_size_law law;
  ch_fit_settings settings;
  char *json, *text;
  FILE *file = fopen(at("models.csv"), "w");
  assert_non_null(file);
  for (int n = 1; n <= 8; n *= 2)
    for (int d = 20; d <= 160; d *= 2)
      fprintf(file, "%d,%d,%.9f\n", 1000000 * n, 1000000 * d, pow(pow(40.0 / n, 0.75) + 500.0 / d, 0.4));
  assert_int_equal(fclose(file), 0);
  ch_fit_defaults(&settings);
  settings.parameters = 10000000;
  settings.budget = 1000000000;
  must(ch_size_law_fit_file(at("models.csv"), &settings, &law, &json, &text, &error));
  assert_true(fabs(law.alpha_size.value - 0.3) < 1e-4 && fabs(law.alpha_tokens.value - 0.4) < 1e-4);
  assert_true(fabs(law.at.value - pow(pow(4, 0.75) + 0.5, 0.4)) < 1e-4);
  assert_true(fabs(ch_size_law_loss(&law, 2e6, 4e7) - pow(pow(20, 0.75) + 12.5, 0.4)) < 1e-6);
  assert_non_null(strstr(text, "of 4 sizes and 4 numbers of tokens"));
  json_t *figures = read_json(json);
  assert_int_equal(number_of(figures, "models"), 16);
  json_decref(figures);
  ch_free(text);
  settings.skip = 5;
  assert_int_equal(ch_size_law_fit_file(at("models.csv"), &settings, NULL, NULL, NULL, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(ch_size_law_fit_file(NULL, NULL, NULL, NULL, NULL, &error), CH_ERROR_ARGUMENT);
}

static void files_are_fitted(void **state) {
  (void)state;
  ch_fits *fits;
  ch_fit_settings settings;
  char *text;
  write_table("curve.csv", POINTS);
  ch_fit_defaults(&settings);
  settings.budget = 1000000000;
  must(ch_fit_file(at("curve.csv"), &settings, &fits, &error));
  assert_int_equal(ch_fits_count(fits), 1);
  assert_null(ch_fits_curve(fits, 1));
  assert_null(ch_fits_curve(fits, -1));
  const ch_curve_fit *fitted = ch_fits_curve(fits, 0);
  assert_true(fitted->has_law && fitted->points == POINTS && fitted->law.points == POINTS);
  assert_true(fabs(fitted->law.alpha.value - 0.35) < 1e-3);
  assert_string_equal(fitted->no_law, "");
  must(ch_fits_text(fits, &text, &error));
  assert_non_null(strstr(text, "loss at 1.0 G"));
  ch_free(text);
  must(ch_fits_json(fits, &text, &error));
  json_t *json = read_json(text), *curve = json_array_get(json_object_get(json, "curves"), 0);
  assert_true(number_of(curve, "points") == POINTS && json_is_object(json_object_get(curve, "law")));
  json_decref(json);
  ch_fits_free(fits);
  settings.skip = 10000000;
  must(ch_fit_file(at("curve.csv"), &settings, &fits, &error));
  assert_int_equal(ch_fits_curve(fits, 0)->law.points, POINTS - 10);
  assert_int_equal(ch_fits_curve(fits, 0)->points, POINTS);
  ch_fits_free(fits);

  /* A curve without a law is reported, not refused. */
  write_table("short.csv", 3);
  must(ch_fit_file(at("short.csv"), NULL, &fits, &error));
  assert_false(ch_fits_curve(fits, 0)->has_law);
  assert_non_null(strstr(ch_fits_curve(fits, 0)->no_law, "at least 8 points"));
  ch_fits_free(fits);
  ch_fits_free(NULL);

  fits = (ch_fits *)work;
  assert_int_equal(ch_fit_file(at("nothing.csv"), NULL, &fits, &error), CH_ERROR_IO);
  assert_null(fits);
  write_file(at("wrong.csv"), "1,5\n2,four\n");
  assert_int_equal(ch_fit_file(at("wrong.csv"), NULL, &fits, &error), CH_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "line 2"));
  settings.budget = -1;
  assert_int_equal(ch_fit_file(at("curve.csv"), &settings, &fits, &error), CH_ERROR_ARGUMENT);
}

static void the_log_of_a_run_has_two_curves_to_choose_from(void **state) {
  (void)state;
  FILE *file = fopen(at("log.jsonl"), "w");
  assert_non_null(file);
  for (int i = 1; i <= 100; i++) {
    fprintf(file, "{\"event\": \"step\", \"tokens\": %d, \"loss\": %.9f}\n", 1000000 * i, law_of(1e6 * i));
    if (i % 5 == 0)
      fprintf(file, "{\"event\": \"evaluation\", \"tokens\": %d, \"validation_loss\": %.9f}\n", 1000000 * i,
              law_of(1e6 * i) + 1);
  }
  assert_int_equal(fclose(file), 0);
  ch_fits *fits;
  must(ch_fit_file(at("log.jsonl"), NULL, &fits, &error));
  assert_int_equal(ch_fits_curve(fits, 0)->points, 20);
  assert_int_equal(ch_fits_curve(fits, 0)->law.points, 18); /* the first tenth is left out */
  assert_true(fabs(ch_fits_curve(fits, 0)->law.floor.value - 2.9) < 0.05);
  ch_fits_free(fits);
  must(ch_fit_file(at("log.jsonl"), &(ch_fit_settings){.training = true, .skip = 0}, &fits, &error));
  assert_int_equal(ch_fits_curve(fits, 0)->law.points, 100);
  assert_true(fabs(ch_fits_curve(fits, 0)->law.floor.value - 1.9) < 0.01);
  ch_fits_free(fits);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_law_is_found_again),
      cmocka_unit_test(spikes_are_judged),
      cmocka_unit_test(models_of_several_sizes_are_fitted),
      cmocka_unit_test(files_are_fitted),
      cmocka_unit_test(the_log_of_a_run_has_two_curves_to_choose_from),
  };
  return cmocka_run_group_tests(tests, make_work, remove_work);
}
