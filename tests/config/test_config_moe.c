/* Tests the keys of mixtures of experts: reading, writing, refusals. */
#include "config_testing.h"
#include "config_file/config_json.h"

static const char base[] =
    "{\"model_type\": \"crosshead\", \"vocab_size\": 73, \"hidden_size\": 48, \"intermediate_size\": 44,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"moe\": {\"experts\": 8, \"active\": 2,"
    " \"shared\": 1, \"expert_intermediate_size\": 20, \"first_dense_layers\": 1, \"balance\": \"aux\","
    " \"aux_coefficient\": 0.003}}";

static void every_key_is_read_and_absent_ones_have_their_defaults(void **state) {
  (void)state;
  ch_config c;
  read_changed(base, "eos_token_id", "3", &c);
  assert_true(c.moe.experts == 8 && c.moe.active == 2 && c.moe.shared == 1);
  assert_true(c.moe.expert_intermediate_size == 20 && c.moe.first_dense_layers == 1);
  assert_true(c.moe.balance == CH_BALANCE_AUX && c.moe.aux_coefficient == 0.003);
  read_changed(base, "moe", "{\"experts\": 4, \"active\": 1, \"expert_intermediate_size\": 9}", &c);
  assert_true(c.moe.experts == 4 && c.moe.shared == 0 && c.moe.first_dense_layers == 0);
  assert_true(c.moe.balance == CH_BALANCE_AUX && c.moe.aux_coefficient == 0.01);
  assert_true(c.moe.balance_update == CH_BALANCE_SIGN);
  read_changed(base, "moe", "null", &c);
  assert_true(c.moe.experts == 0);
  read_changed(base, "moe", NULL, &c);
  assert_true(c.moe.experts == 0);
}

static void what_is_written_is_read_again(void **state) {
  (void)state;
  static const char *const values[] = {
      "{\"experts\": 8, \"active\": 8, \"shared\": 2, \"expert_intermediate_size\": 7, \"balance\": "
      "\"loss_free\"}",
      "{\"experts\": 8, \"active\": 2, \"expert_intermediate_size\": 7, \"balance\": \"loss_free\", "
      "\"balance_update\": \"rms\"}",
      "{\"experts\": 1, \"active\": 1, \"expert_intermediate_size\": 7, \"balance\": \"none\"}",
      "{\"experts\": 3, \"active\": 1, \"expert_intermediate_size\": 7, \"first_dense_layers\": 1}",
      "{\"experts\": 3, \"active\": 1, \"expert_intermediate_size\": 7, \"dense_layers\": [1]}",
      "null"};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    ch_config before, after;
    ch_text text = {0};
    ch_error error;
    read_changed(base, "moe", values[i], &before);
    ch_config_write(&before, &text);
    assert_int_equal(ch_config_parse(text.data, "written", &after, &error), CH_OK);
    assert_memory_equal(&before.moe, &after.moe, sizeof before.moe);
    assert_true((strstr(text.data, "\"moe\"") != NULL) == (before.moe.experts > 0));
    ch_text_free(&text);
  }
}

static void broken_values_and_contradictions_are_refused_by_name(void **state) {
  (void)state;
  static const struct {
    const char *path, *value, *words;
  } cases[] = {
      {"moe", "7", "\"moe\" is 7; it must be an object"},
      {"moe", "{}", "\"moe.experts\" is missing"},
      {"moe.experts", NULL, "\"moe.experts\" is missing"},
      {"moe.experts", "null", "\"moe.experts\" is missing"},
      {"moe.experts", "0", "\"moe.experts\" is 0; it must be a whole number from 1 to 1024"},
      {"moe.experts", "1025", "\"moe.experts\" is 1025"},
      {"moe.active", NULL, "\"moe.active\" is missing"},
      {"moe.active", "0", "\"moe.active\" is 0"},
      {"moe.active", "9", "\"moe.active\" is 9; it must be at most \"moe.experts\", 8"},
      {"moe.shared", "-1", "\"moe.shared\" is -1"},
      {"moe.expert_intermediate_size", NULL, "\"moe.expert_intermediate_size\" is missing"},
      {"moe.expert_intermediate_size", "2.5", "\"moe.expert_intermediate_size\" is 2.5"},
      {"moe.first_dense_layers", "2", "must be below \"num_hidden_layers\", 2"},
      {"moe.dense_layers", "[0]", "names layer 0; it must be one from 1 to 1"},
      {"moe.dense_layers", "[2]", "names layer 2; it must be one from 1 to 1"},
      {"moe.dense_layers", "[1]", "leaves no layer with experts"},
      {"moe.dense_layers", "[1, 1]", "a list of different layers from 0 to 511"},
      {"moe.dense_layers", "[512]", "a list of different layers from 0 to 511"},
      {"moe.dense_layers", "1", "\"moe.dense_layers\" is 1; it must be a list of different layers"},
      {"moe.balance", "\"free\"", "one of \"aux\", \"loss_free\", \"none\""},
      {"moe.balance", "\"loss_free\"",
       "\"moe.aux_coefficient\" is 0.003, but it belongs to \"moe.balance\": \"aux\""},
      {"moe.balance_update", "\"rms\"",
       "\"moe.balance_update\" is \"rms\", but it belongs to \"moe.balance\": \"loss_free\""},
      {"moe.balance_update", "\"norm\"", "one of \"sign\", \"rms\""},
      {"moe.aux_coefficient", "0", "\"moe.aux_coefficient\" is 0; it must be a number above 0"},
      {"moe.top_k", "2", "unknown key \"top_k\" in moe"},
      {"experts", "2", "\"experts\" is not a key of the top level; it belongs to moe"},
      {"hidden_act", "\"gelu\"", "\"moe\" needs \"hidden_act\": \"silu\" or \"clamped_swiglu\""},
      {"moe.router_bias", "1", "\"moe.router_bias\" is 1; it must be true or false"},
      {"hidden_act", "\"gelu\"", "\"moe\" needs \"hidden_act\": \"silu\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = changed(base, cases[i].path, cases[i].value);
    assert_refused(text, cases[i].words);
    free(text);
  }
}

/* Both spellings of dense first layers give the same configuration. */
static void listed_first_layers_are_first_dense_layers(void **state) {
  (void)state;
  ch_config c;
  read_changed(base, "moe",
               "{\"experts\": 3, \"active\": 1, \"expert_intermediate_size\": 7, "
               "\"dense_layers\": [0]}",
               &c);
  assert_int_equal(c.moe.first_dense_layers, 1);
  assert_false(c.moe.dense_layers[0]);
}

static void a_made_mixture_is_checked_like_a_read_one(void **state) {
  (void)state;
  ch_config c, bad;
  ch_error error;
  assert_int_equal(ch_config_parse(base, "config.json", &c, &error), CH_OK);
  bad = c;
  bad.moe.active = 0;
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "preset: \"moe.active\" is missing"));
  bad = c;
  bad.moe.experts = 0;
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  bad = c;
  bad.moe.experts = 2000;
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  bad = c;
  snprintf(bad.model_type, sizeof bad.model_type, "llama");
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "cannot express this \"moe\""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_key_is_read_and_absent_ones_have_their_defaults),
      cmocka_unit_test(what_is_written_is_read_again),
      cmocka_unit_test(broken_values_and_contradictions_are_refused_by_name),
      cmocka_unit_test(listed_first_layers_are_first_dense_layers),
      cmocka_unit_test(a_made_mixture_is_checked_like_a_read_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
