/* Tests a whole comparison on a small text: interrupted and continued, repeated, extended. */
#include "comparing.h"

/* Returns results.json as text, without values that depend on the clock. */
static char *results_without_times(const char *out) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", out, CH_COMPARE_RESULTS);
  json_t *results = json_load_file(path, 0, NULL), *model;
  assert_non_null(results);
  json_object_del(results, "created");
  json_object_del(results, "summary"); /* it has mean speeds */
  size_t i;
  json_array_foreach(json_object_get(results, "models"), i, model) {
    assert_true(json_number_value(json_object_get(model, "train_tokens_per_second")) > 0);
    assert_true(json_number_value(json_object_get(model, "decode_tokens_per_second")) > 0);
    assert_true(json_number_value(json_object_get(model, "train_seconds")) > 0);
    json_object_del(model, "train_tokens_per_second");
    json_object_del(model, "train_seconds");
    json_object_del(model, "decode_tokens_per_second");
    json_object_del(model, "decode_curve");
    json_object_del(model, "train_tokens_per_second_spread");
    json_object_del(model, "decode_tokens_per_second_spread");
    json_object_del(model, "train_unsteady");
    json_object_del(model, "decode_unsteady");
  }
  char *text = json_dumps(results, JSON_INDENT(1));
  json_decref(results);
  return text;
}

static void an_interrupted_comparison_continues_to_the_same_results(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("whole");
  watch w = {0};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(w.steps, 24);
  assert_int_equal(w.begun, 2);
  assert_int_equal(w.written, 3); /* after each model, and after the timing in turns */
  assert_int_equal(w.timings, 2 * CH_COMPARE_TURNS);
  assert_int_equal(w.timed, 2);
  assert_int_equal(comparison.count, 2);
  ch_arena_free(&comparison.arena);
  char *expected = results_without_times(options.report.out);

  options = small("stopped");
  const int stops[] = {5, 9, 3}; /* after step 5 of the first model, 2 and 5 of the second */
  int steps = 0;
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
    watch stopped = {.stop_after = stops[i], .stop_by_question = i == 1};
    assert_int_equal(compare(&options, &stopped, &comparison, &error), CH_ERROR_INTERRUPTED);
    assert_non_null(strstr(error.message, "the same command continues it"));
    assert_int_equal(stopped.steps, stops[i]);
    steps += stopped.steps;
    ch_arena_free(&comparison.arena);
  }
  watch last = {0};
  if (compare(&options, &last, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(steps + last.steps, 24); /* no step was done twice */
  assert_int_equal(last.earlier, 1);
  ch_arena_free(&comparison.arena);
  char *continued = results_without_times(options.report.out);
  assert_string_equal(continued, expected);

  /* A second run trains nothing and times nothing. */
  watch again = {0};
  assert_int_equal(compare(&options, &again, &comparison, &error), CH_OK);
  assert_int_equal(again.steps, 0);
  assert_int_equal(again.timings, 0);
  assert_int_equal(again.begun, 0);
  assert_int_equal(again.earlier, 2);
  ch_arena_free(&comparison.arena);
  char *repeated = results_without_times(options.report.out);
  assert_string_equal(repeated, expected);
  free(repeated);
  free(continued);
  free(expected);
}

/* Returns the speed in a model's result.json. */
static json_t *speed_of(const char *out, const char *model) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s/%s", out, model, CH_COMPARE_RESULT);
  json_t *result = json_load_file(path, 0, NULL);
  assert_non_null(result);
  json_t *speed =
      json_pack("{s:O, s:O, s:O}", "rate", json_object_get(result, "decode_tokens_per_second"), "curve",
                json_object_get(result, "decode_curve"), "turns", json_object_get(result, "timing_turns"));
  assert_non_null(speed);
  json_decref(result);
  return speed;
}

static void models_are_timed_in_turns_when_all_are_trained(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("turns");
  watch stopped = {.stop_timing = 3}; /* in the second turn */
  assert_int_equal(compare(&options, &stopped, &comparison, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(stopped.steps, 24);
  assert_int_equal(stopped.timed, 0);
  assert_int_equal(comparison.models[1].timing_turns, 0);
  ch_arena_free(&comparison.arena);
  json_t *alone = speed_of(options.report.out, "mqa");
  assert_int_equal(json_integer_value(json_object_get(alone, "turns")), 0);
  assert_true(json_number_value(json_object_get(alone, "rate")) > 0);
  watch last = {0};
  assert_int_equal(compare(&options, &last, &comparison, &error), CH_OK);
  assert_int_equal(last.steps, 0);
  assert_int_equal(last.timings, 2 * CH_COMPARE_TURNS);
  json_t *turns = speed_of(options.report.out, "mqa");
  assert_int_equal(json_integer_value(json_object_get(turns, "turns")), CH_COMPARE_TURNS);
  assert_false(json_equal(json_object_get(alone, "rate"), json_object_get(turns, "rate")));
  assert_int_equal(json_array_size(json_object_get(alone, "curve")),
                   json_array_size(json_object_get(turns, "curve")));
  assert_true(json_number_value(json_object_get(turns, "rate")) ==
              comparison.models[1].decode_tokens_per_second);
  ch_arena_free(&comparison.arena);
  json_decref(alone);
  /* With `remeasure`, everything is timed again and nothing is trained. */
  options.verdict.remeasure = true;
  watch again = {0};
  assert_int_equal(compare(&options, &again, &comparison, &error), CH_OK);
  assert_int_equal(again.steps, 0);
  assert_int_equal(again.timings, 2 * CH_COMPARE_TURNS);
  assert_int_equal(again.timed, 2);
  assert_true(comparison.models[0].train_spread > 0);
  ch_arena_free(&comparison.arena);
  json_t *measured = speed_of(options.report.out, "mqa");
  assert_false(json_equal(measured, turns));
  json_decref(turns);
  turns = measured;
  options.verdict.remeasure = false;
  /* Measured speeds stay valid, even for a model whose weights were deleted. Runs of later seeds get equal speeds. */
  assert_int_equal(unlink(in_root("turns/mqa/model.safetensors")), 0);
  options.training.seeds = 2;
  watch more = {.runs = 4};
  if (compare(&options, &more, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(more.timings, 0);
  assert_int_equal(more.timed, 2);
  for (int i = 0; i < 4; i++) {
    const ch_model_result *run = &comparison.models[i];
    assert_int_equal(run->timing_turns, CH_COMPARE_TURNS);
    if (strcmp(run->name, "mqa") == 0)
      assert_true(run->decode_tokens_per_second == json_number_value(json_object_get(turns, "rate")));
  }
  ch_arena_free(&comparison.arena);
  json_t *kept = speed_of(options.report.out, "mqa");
  assert_true(json_equal(kept, turns));
  json_decref(kept);
  json_decref(turns);
}

static void mechanisms_may_be_added_behind_those_that_are_there(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("longer");
  watch first = {.runs = 2};
  assert_int_equal(compare(&options, &first, &comparison, &error), CH_OK);
  double loss = comparison.models[1].validation_loss;
  ch_arena_free(&comparison.arena);
  options.lineup.mechanisms = "mha,mqa,gqa:2";
  watch third = {.runs = 3};
  if (compare(&options, &third, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(third.earlier, 2);
  assert_int_equal(third.steps, 12);
  assert_int_equal(comparison.count, 3);
  assert_true(comparison.models[1].validation_loss == loss);
  ch_arena_free(&comparison.arena);
  /* An appended mechanism is part of the comparison, and the order is fixed. */
  options.lineup.mechanisms = "mha,mqa";
  assert_refused(&options, "with mechanisms mha,mqa,gqa:2");
  options.lineup.mechanisms = "gqa:2,mha,mqa";
  assert_refused(&options, "you may append to it");
}

static void results_agree_with_the_models(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("whole"); /* an earlier test may have created it */
  watch w = {0};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_OK);
  assert_int_equal(comparison.count, 2);
  for (int i = 0; i < 2; i++) {
    const ch_model_result *model = &comparison.models[i];
    char path[200];
    ch_config config;
    int64_t parameters;
    snprintf(path, sizeof path, "%s/%s", options.report.out, model->directory);
    assert_int_equal(ch_config_read(path, &config, &error), CH_OK);
    assert_int_equal(ch_count_parameters(&config, CH_COUNT_ALL, &parameters, &error), CH_OK);
    assert_int_equal(parameters, model->parameters);
    assert_int_equal(config.num_key_value_heads, i == 0 ? config.num_attention_heads : 1);
    assert_int_equal(model->cache_elements_per_token,
                     2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim);
    assert_int_equal(model->cache_bytes_per_token, 2 * model->cache_elements_per_token);
    assert_int_equal(model->tokens_trained, 32 * 4 * 12);
    assert_int_equal(model->curve_points, 12);
    assert_true(model->curve[11].loss < model->curve[0].loss);
    assert_true(model->validation_points >= 4);
    assert_int_equal(model->validation_curve[model->validation_points - 1].tokens, model->tokens_trained);
    assert_true(model->validation_curve[model->validation_points - 1].loss == model->validation_loss);
    snprintf(path, sizeof path, "%s/%s/tokenizer.json", options.report.out, model->directory);
    assert_true(ch_is_file(path));
  }
  double difference = (double)(comparison.models[0].parameters - comparison.models[1].parameters);
  assert_true(difference * difference < 0.005 * 0.005 * 60000.0 * 60000.0);
  ch_arena_free(&comparison.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_interrupted_comparison_continues_to_the_same_results),
      cmocka_unit_test(models_are_timed_in_turns_when_all_are_trained),
      cmocka_unit_test(mechanisms_may_be_added_behind_those_that_are_there),
      cmocka_unit_test(results_agree_with_the_models),
  };
  return cmocka_run_group_tests(tests, set_up, remove_root);
}
