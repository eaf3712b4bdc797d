/* Tests the settings of a comparison: settings that must not change, config files, invalid input. */
#include "comparing.h"

static void other_options_in_the_same_directory_are_refused_by_name(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = small("whole");
  watch w = {0};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  options.training.tokens = 4096;
  assert_refused(&options, "with tokens 1536, whose learning rate has already decayed");
  options.training.tokens = 1000;
  assert_refused(&options, "with tokens 1536, but this command has 1000");
  options = small("whole");
  options.lineup.parameters = 0;
  assert_refused(&options, "with parameters 60000, but this command has its default");
  options = small("whole");
  options.lineup.mechanisms = "mha,gqa";
  assert_refused(&options, "with mechanisms mha,mqa, but this command has mha,gqa");
  options = small("whole");
  options.training.seed = 2;
  assert_refused(&options, "seed 1");
  options = small("whole");
  options.rates.lr = 1e-3;
  assert_refused(&options, "lr");
  options = small("whole");
  write_text("other.txt", 77, 800);
  options.text.data = in_root("other.txt");
  assert_refused(&options, "another text");
  /* Settings that do not affect the results may differ. */
  options = small("whole");
  options.lineup.mechanisms = " mha , mqa ";
  options.verdict.tolerance = 0.05;
  watch same = {0};
  assert_int_equal(compare(&options, &same, &comparison, &error), CH_OK);
  assert_true(comparison.tolerance == 0.05);
  ch_arena_free(&comparison.arena);
}

/* Returns the settings of comparisons of earlier versions, which had one parametrisation. */
static ch_compare_settings earlier(const char *out) {
  ch_compare_settings options = small(out);
  options.lineup.parametrization = CH_PARAMETRIZATION_STANDARD;
  return options;
}

/* Comparisons of earlier versions lack some settings, which had their defaults. */
static void settings_that_came_later_had_their_defaults(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_error error = {0};
  ch_compare_settings options = earlier("earlier");
  watch w = {0};
  assert_int_equal(compare(&options, &w, &comparison, &error), CH_OK);
  ch_arena_free(&comparison.arena);
  char path[200];
  snprintf(path, sizeof path, "%s/%s", options.report.out, CH_COMPARE_SETTINGS);
  json_t *kept = json_load_file(path, 0, NULL);
  assert_non_null(kept);
  static const char *const later[] = {"--init", "--match", "--dtype", "--warmup", "--parametrization"};
  for (int i = 0; i < 5; i++) assert_int_equal(json_object_del(kept, later[i]), 0);
  assert_int_equal(json_dump_file(kept, path, 0), 0);
  for (int i = 0; i < 4; i++) {
    options = earlier("earlier");
    if (i == 0) options.lineup.init = CH_INIT_FAN_IN;
    if (i == 1) options.lineup.match = CH_MATCH_ACTIVE;
    if (i == 2) options.training.type = CH_PRECISION_BF16;
    if (i == 3) options.training.warmup = 2;
    assert_refused(&options, i == 2 ? "with type its default, but this command has bf16"
                                    : "its default, but this command has");
  }
  options = earlier("earlier");
  watch same = {0};
  if (compare(&options, &same, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(same.steps, 0);
  ch_arena_free(&comparison.arena);
  /* The continued comparison has added the missing settings to the file. */
  json_decref(kept);
  kept = json_load_file(path, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(kept, "--dtype")), "f32");
  assert_int_equal(json_integer_value(json_object_get(kept, "--warmup")), -1);
  json_decref(kept);
}

static void config_files_take_part(void **state) {
  (void)state;
  static const char config[] =
      "{\"model_type\": \"crosshead\", \"vocab_size\": 999, \"hidden_size\": 48,"
      " \"intermediate_size\": 100, \"num_hidden_layers\": 3, \"num_attention_heads\": 4,"
      " \"num_key_value_heads\": 2, \"max_position_embeddings\": 16,"
      " \"tie_word_embeddings\": true, \"attention\": {\"type\": \"gqa\", \"qk_norm\": true}}";
  ch_comparison comparison;
  ch_error error = {0};
  char mechanisms[200];
  write_file("mine.json", config, sizeof config - 1);
  snprintf(mechanisms, sizeof mechanisms, "mha,%s", in_root("mine.json"));
  ch_compare_settings options = small("files");
  options.lineup.mechanisms = mechanisms;
  watch w = {0};
  if (compare(&options, &w, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  const ch_model_result *model = &comparison.models[1];
  assert_string_equal(model->directory, "mine");
  assert_int_equal(model->layers, 3);
  assert_int_equal(model->hidden_size, 48);
  assert_int_equal(model->key_value_heads, 2);
  assert_in_range(model->parameters, 59700, 60300);
  assert_int_equal(model->cache_elements_per_token, 3 * 2 * 2 * 12);
  ch_arena_free(&comparison.arena);
  /* Repeating the command continues the comparison, so nothing is trained twice. */
  watch again = {0};
  if (compare(&options, &again, &comparison, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(again.steps, 0);
  ch_arena_free(&comparison.arena);
  /* The contents of the config file are a setting too. */
  char changed[sizeof config];
  memcpy(changed, config, sizeof config);
  *strstr(changed, "48") = '5';
  strstr(changed, "58")[1] = '6';
  write_file("mine.json", changed, sizeof config - 1);
  assert_refused(&options, "an earlier version of");
}

static void bad_input_is_refused_in_a_sentence(void **state) {
  (void)state;
  ch_compare_settings options = small("bad");
  options.lineup.mechanisms = "mha,gqq";
  assert_refused(&options, "did you mean gqa?");
  options.lineup.mechanisms = "mha,,mqa";
  assert_refused(&options, "empty name");
  options.lineup.mechanisms = "mha,mha";
  assert_refused(&options, "names mha twice");
  options.lineup.mechanisms = "mha,nowhere.json";
  assert_refused(&options, "nowhere.json");
  options = small("bad");
  options.text.data = in_root("missing.txt");
  assert_refused(&options, "missing.txt");
  write_file("empty.txt", "", 0);
  options.text.data = in_root("empty.txt");
  assert_refused(&options, "empty.txt");
  static const char binary[4096] = {1, 0, 2, 0, (char)0xff};
  write_file("binary.txt", binary, sizeof binary);
  options.text.data = in_root("binary.txt");
  assert_refused(&options, "binary.txt");
  write_file("short.txt", "Too short to learn from.", 24);
  options.text.data = in_root("short.txt");
  assert_refused(&options, "too");
  options = small("bad");
  options.lineup.parameters = 3000;
  assert_refused(&options, "parameters 3.0 k is too small");
  options = small("text.txt"); /* the output directory is an existing file */
  assert_refused(&options, "text.txt");
  options = small("bad");
  options.rates.lr = -1;
  assert_refused(&options, "lr");
  options = small("bad");
  options.schedule.until_decided = true;
  assert_refused(&options, "until_decided needs budget");
  options.schedule.until_decided = false;
  options.schedule.budget = 60;
  assert_refused(&options, "budget is for until_decided");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_options_in_the_same_directory_are_refused_by_name),
      cmocka_unit_test(settings_that_came_later_had_their_defaults),
      cmocka_unit_test(config_files_take_part),
      cmocka_unit_test(bad_input_is_refused_in_a_sentence),
  };
  return cmocka_run_group_tests(tests, set_up, remove_root);
}
