/* Tests results.json: the keys that other programs rely on, and reading a model back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "report/sample.h"
#include "experiment/trial/model_record.h"
#include "experiment/findings/comparison_json.h"

static void the_promised_keys_are_there(void **state) {
  (void)state;
  static const char *const keys[] = {"name",
                                     "parameters",
                                     "validation_loss",
                                     "perplexity",
                                     "cache_elements_per_token",
                                     "cache_bytes_per_token",
                                     "train_tokens_per_second",
                                     "decode_tokens_per_second",
                                     "tokens_trained",
                                     "seed",
                                     "curve",
                                     "validation_curve"};
  static const char *const beside[] = {"command", "data", "version", "machine", "models"};
  ch_comparison comparison;
  sample_comparison(&comparison, 4);
  json_t *root = ch_comparison_to_json(&comparison);
  assert_non_null(root);
  for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
    assert_non_null(json_object_get(root, beside[i]));
  const json_t *models = json_object_get(root, "models");
  assert_int_equal(json_array_size(models), 4);
  for (size_t m = 0; m < 4; m++)
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      if (!json_object_get(json_array_get(models, m), keys[i])) fail_msg("%s is missing", keys[i]);
  const json_t *model = json_array_get(models, 0);
  assert_float_equal(json_real_value(json_object_get(model, "perplexity")),
                     exp(json_real_value(json_object_get(model, "validation_loss"))), 1e-9);
  assert_true(json_is_true(json_object_get(root, "complete")));
  json_decref(root);
  ch_arena_free(&comparison.arena);
}

static void a_model_survives_the_file(void **state) {
  (void)state;
  char path[] = "/tmp/crosshead-test-XXXXXX";
  close(mkstemp(path));
  ch_comparison comparison;
  ch_error error = {0};
  sample_comparison(&comparison, 1);
  ch_model_result *model = &comparison.models[0], back;
  model->name = "a \"name\"\\ with [\n 1 ] ünïcode";
  model->seed = UINT64_MAX - 5;
  model->validation_loss = 0.1 + 0.2;
  model->train_spread = 1.0 / 3;
  model->decode_unsteady = true;
  model->loss_spikes = 3;
  assert_int_equal(ch_write_json(path, ch_model_result_to_json(model), CH_DIGITS_EXACT, &error), CH_OK);
  json_t *root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  assert_int_equal(ch_model_result_from_json(root, path, &comparison.arena, &back, &error), CH_OK);
  assert_string_equal(back.name, model->name);
  assert_true(back.seed == model->seed);
  assert_true(back.validation_loss == model->validation_loss);
  assert_int_equal(back.parameters, model->parameters);
  assert_int_equal(back.loss_spikes, 3);
  assert_true(back.train_spread == model->train_spread && back.decode_unsteady && !back.train_unsteady);
  assert_int_equal(back.curve_points, SAMPLE_POINTS);
  assert_int_equal(back.validation_points, SAMPLE_EVALUATIONS);
  for (int i = 0; i < SAMPLE_POINTS; i++) {
    assert_int_equal(back.curve[i].tokens, model->curve[i].tokens);
    assert_float_equal(back.curve[i].loss, model->curve[i].loss, 1e-7);
  }
  /* Writing a model that was read gives the same text, so a continued comparison gives the same file. */
  json_t *again = ch_model_result_to_json(&back);
  char *first = json_dumps(root, JSON_REAL_PRECISION(17)),
       *second = json_dumps(again, JSON_REAL_PRECISION(17));
  assert_string_equal(first, second);
  free(first);
  free(second);
  json_decref(again);
  json_decref(root);
  ch_arena_free(&comparison.arena);
  unlink(path);
}

/* Counts spikes in single steps, which the means of a curve's points would hide. */
static void spikes_of_the_training_loss_are_counted(void **state) {
  (void)state;
  enum { STEPS = 2000 };
  static double losses[STEPS];
  for (int i = 0; i < STEPS; i++) losses[i] = 4 + 2 * exp(-i / 200.0) + 0.01 * sin(13.0 * i);
  losses[700] += 2;
  losses[1400] += 1;
  ch_comparison comparison;
  ch_error error = {0};
  sample_comparison(&comparison, 2);
  ch_compare_setup *setup = calloc(1, sizeof *setup);
  assert_non_null(setup);
  setup->comparison = &comparison;
  setup->training.batch = setup->training.sequence = setup->training.accumulate = 1;
  ch_progress_record record = {.step = STEPS, .steps = STEPS, .losses = losses};
  assert_int_equal(ch_model_result_fill_curves(setup, &record, &comparison.models[0], &error), CH_OK);
  assert_int_equal(comparison.models[0].loss_spikes, 2);
  assert_true(comparison.models[0].curve_points < STEPS);
  free(setup);
  ch_arena_free(&comparison.arena);
}

/* A file of an earlier version has no count of spikes, and the summary then has no mean. */
static void unknown_spikes_are_no_spikes(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  sample_comparison(&comparison, 2);
  comparison.models[0].loss_spikes = 4;
  json_t *root = ch_comparison_to_json(&comparison), *summary = json_object_get(root, "summary");
  const json_t *spikes = json_object_get(json_array_get(summary, 0), "loss_spikes");
  assert_true(json_number_value(json_object_get(spikes, "mean")) == 4);
  json_decref(root);
  json_t *object = ch_model_result_to_json(&comparison.models[0]);
  json_object_del(object, "loss_spikes");
  assert_int_equal(
      ch_model_result_from_json(object, "old.json", &comparison.arena, &comparison.models[0], &error), CH_OK);
  assert_int_equal(comparison.models[0].loss_spikes, -1);
  json_decref(object);
  root = ch_comparison_to_json(&comparison);
  summary = json_object_get(root, "summary");
  assert_null(json_object_get(json_array_get(summary, 0), "loss_spikes"));
  assert_non_null(json_object_get(json_array_get(summary, 1), "loss_spikes"));
  json_decref(root);
  ch_arena_free(&comparison.arena);
}

static void curves_are_written_a_point_a_line(void **state) {
  (void)state;
  char path[] = "/tmp/crosshead-test-XXXXXX";
  close(mkstemp(path));
  ch_comparison comparison;
  ch_error error = {0};
  sample_comparison(&comparison, 1);
  assert_int_equal(ch_write_json(path, ch_comparison_to_json(&comparison), CH_DIGITS_SHOWN, &error), CH_OK);
  char *text;
  size_t size;
  assert_int_equal(ch_read_file(path, 1 << 20, &text, &size, &error), CH_OK);
  assert_non_null(strstr(text, "\n    [33333, "));
  assert_int_equal(text[size - 1], '\n');
  free(text);
  unlink(path);
  ch_arena_free(&comparison.arena);
}

static void broken_files_are_refused_with_the_key(void **state) {
  (void)state;
  static const char *const damage[] = {"name", "parameters", "validation_loss",
                                       "seed", "curve",      "validation_curve"};
  ch_comparison comparison;
  sample_comparison(&comparison, 1);
  for (size_t i = 0; i < sizeof damage / sizeof *damage; i++)
    for (int way = 0; way < 3; way++) {
      if (way == 1 && strcmp(damage[i], "validation_loss") == 0) continue; /* null: the run diverged */
      ch_model_result back;
      ch_error error = {0};
      json_t *object = ch_model_result_to_json(&comparison.models[0]);
      if (way == 0)
        json_object_del(object, damage[i]);
      else
        json_object_set_new(object, damage[i], way == 1 ? json_null() : json_pack("[[s]]", "x"));
      assert_int_equal(ch_model_result_from_json(object, "somewhere.json", &comparison.arena, &back, &error),
                       CH_ERROR_FORMAT);
      assert_non_null(strstr(error.message, "somewhere.json"));
      assert_non_null(strstr(error.message, damage[i]));
      json_decref(object);
    }
  ch_arena_free(&comparison.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_promised_keys_are_there),
      cmocka_unit_test(a_model_survives_the_file),
      cmocka_unit_test(spikes_of_the_training_loss_are_counted),
      cmocka_unit_test(unknown_spikes_are_no_spikes),
      cmocka_unit_test(curves_are_written_a_point_a_line),
      cmocka_unit_test(broken_files_are_refused_with_the_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
