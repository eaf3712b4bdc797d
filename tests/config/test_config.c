/* Tests our own configurations: every key, errors of broken files, and writing. */
#include <math.h>
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
#include "config_file/config_json.h"
#include "config_file/keys.h"
#include "config/config_texts.h"

static void every_key_of_ours_is_read(void **state) {
  (void)state;
  ch_config c;
  ch_error error;
  assert_int_equal(ch_config_parse(ours, "config.json", &c, &error), CH_OK);
  assert_string_equal(c.model_type, "crosshead");
  assert_true(c.vocab_size == 73 && c.hidden_size == 48 && c.intermediate_size == 44 &&
              c.num_hidden_layers == 2);
  assert_true(c.num_attention_heads == 6 && c.num_key_value_heads == 2 && c.head_dim == 8);
  assert_true(c.max_position_embeddings == 64 && c.rms_norm_eps == 1e-6 && c.tie_word_embeddings);
  assert_true(strcmp(c.hidden_act, "gelu") == 0 && c.position == CH_POSITION_ROPE && c.rope_theta == 5000);
  assert_true(c.rope_interleaved && c.attention_bias && !c.attention_output_bias);
  assert_true(c.rope_scaling.type == CH_ROPE_LLAMA3 && c.rope_scaling.factor == 8.5);
  assert_true(c.rope_scaling.low_freq_factor == 1 && c.rope_scaling.high_freq_factor == 4);
  assert_int_equal(c.rope_scaling.original_max_position_embeddings, 32);
  assert_string_equal(c.attention.type, "gqa");
  assert_true(c.attention.qk_norm && c.attention.head_norm && c.init == CH_INIT_DEEPSEEK);
  assert_true(c.bos_token_id == 3 && c.eos_token_id == 4 && c.sliding_window == 0);
}

static void absent_keys_have_their_defaults(void **state) {
  (void)state;
  ch_config c;
  ch_error error;
  const char *text = "{\"model_type\": \"crosshead\", \"vocab_size\": 9, \"hidden_size\": 12,"
                     "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 3}";
  assert_int_equal(ch_config_parse(text, "config.json", &c, &error), CH_OK);
  assert_true(c.num_key_value_heads == 3 && c.head_dim == 4 && c.rms_norm_eps == 1e-5 &&
              c.rope_theta == 10000);
  assert_true(strcmp(c.hidden_act, "silu") == 0 && c.position == CH_POSITION_ROPE && !c.tie_word_embeddings);
  assert_true(!c.rope_interleaved && !c.attention_bias && c.rope_scaling.type == CH_ROPE_DEFAULT);
  assert_string_equal(c.attention.type, "gqa");
  assert_true(!c.attention.qk_norm && !c.attention.head_norm && c.init == CH_INIT_DEFAULT);
  assert_true(c.bos_token_id == -1 && c.eos_token_id == -1);
}

static void broken_values_of_ours_are_refused_by_name(void **state) {
  (void)state;
  static const struct {
    const char *path, *value, *words;
  } cases[] = {
      {"model_type", NULL, "\"model_type\" is missing"},
      {"model_type", "\"bert\"", "\"model_type\" is \"bert\""},
      {"model_type", "7", "\"model_type\" is 7"},
      {"vocab_size", NULL, "\"vocab_size\" is missing"},
      {"vocab_size", "0", "\"vocab_size\" is 0; it must be a whole number from 1"},
      {"vocab_size", "-5", "\"vocab_size\" is -5"},
      {"vocab_size", "73.5", "\"vocab_size\" is 73.5"},
      {"vocab_size", "\"73\"", "\"vocab_size\" is \"73\""},
      {"vocab_size", "true", "\"vocab_size\" is true"},
      {"vocab_size", "null", "\"vocab_size\" is null"},
      {"vocab_size", "[73]", "\"vocab_size\" is [73]; it must be"},
      {"vocab_size", "{}", "\"vocab_size\" is an object"},
      {"vocab_size", "9223372036854775807", "\"vocab_size\" is 9223372036854775807"},
      {"vocab_size", "1e300", "\"vocab_size\" is 1e300"},
      {"hidden_size", "4294967296", "\"hidden_size\" is 4294967296"},
      {"intermediate_size", "-1", "\"intermediate_size\" is -1"},
      {"num_hidden_layers", "2147483647", "\"num_hidden_layers\" is 2147483647"},
      {"num_attention_heads", "0", "\"num_attention_heads\" is 0"},
      {"num_key_value_heads", "4", "must divide \"num_attention_heads\", 6"},
      {"num_key_value_heads", "12", "must divide \"num_attention_heads\", 6"},
      {"num_key_value_heads", "-2", "\"num_key_value_heads\" is -2"},
      {"head_dim", "7", "must be even"},
      {"head_dim", "0", "\"head_dim\" is 0"},
      {"max_position_embeddings", "0", "\"max_position_embeddings\" is 0"},
      {"rms_norm_eps", "0", "\"rms_norm_eps\" is 0; it must be a number above 0"},
      {"rms_norm_eps", "-1e-5", "\"rms_norm_eps\" is -1"},
      {"rms_norm_eps", "\"1e-5\"", "\"rms_norm_eps\" is \"1e-5\""},
      {"rms_norm_eps", "null", "\"rms_norm_eps\" is null"},
      {"rms_norm_eps", "2", "\"rms_norm_eps\" is 2"},
      {"tie_word_embeddings", "1", "\"tie_word_embeddings\" is 1; it must be true or false"},
      {"tie_word_embeddings", "\"yes\"", "\"tie_word_embeddings\" is \"yes\""},
      {"hidden_act", "\"tanh\"", "one of \"silu\", \"gelu\", \"geglu\", \"relu\""},
      {"hidden_act", "3", "\"hidden_act\" is 3"},
      {"norm", "\"batchnorm\"", "\"norm\" is \"batchnorm\"; it must be one of \"rmsnorm\", \"layernorm\""},
      {"norm_placement", "\"sandwich\"", "one of \"pre\", \"post\", \"branch\", \"both\""},
      {"layer_norm_eps", "0.1", "\"layer_norm_eps\" is 0.1, but it belongs to \"norm\": \"layernorm\""},
      {"position", "\"rotary\"", "one of \"rope\", \"alibi\", \"none\", \"learned\""},
      {"position", "\"learned\"", "\"rope_scaling\" needs \"position\": \"rope\""},
      {"partial_rotary_factor", "0.01", "that number must be even and at least 2"},
      {"partial_rotary_factor", "1.5", "\"partial_rotary_factor\" is 1.5; it must be"},
      {"local_rope_theta", "100", "\"local_rope_theta\" and \"local_rope_layers\" need each other"},
      {"nope_layers", "[500]", "\"nope_layers\" names layer 500; it must be one from 0"},
      {"logits_scaling", "0", "\"logits_scaling\" is 0; it must be"},
      {"attn_logit_softcapping", "0", "\"attn_logit_softcapping\" is 0; it must be a number above 0"},
      {"final_logit_softcapping", "-1", "\"final_logit_softcapping\" is -1; it must be"},
      {"swiglu_alpha", "2", "\"swiglu_alpha\" is 2, but it belongs to \"hidden_act\": \"clamped_swiglu\""},
      {"swiglu_limit", "2", "\"swiglu_limit\" is 2, but it belongs to \"hidden_act\": \"clamped_swiglu\""},
      {"rope_scaling.truncate", "false", "keys of rope type \"yarn\""},
      {"rope_scaling.short_factor", "[1]", "keys of rope type \"longrope\""},
      {"residual_multiplier", "-1", "\"residual_multiplier\" is -1; it must be"},
      {"position", "\"alibi\"", "\"rope_scaling\" needs \"position\": \"rope\""},
      {"rope_theta", "0", "\"rope_theta\" is 0"},
      {"rope_theta", "-10000", "\"rope_theta\" is -10000"},
      {"rope_theta", "1e308", "\"rope_theta\" is 1e308"},
      {"rope_scaling", "[]", "\"rope_scaling\" is []; it must be"},
      {"rope_scaling", "{\"factor\": 2}", "no \"rope_type\""},
      {"rope_scaling", "{\"rope_type\": \"linear\"}", "\"rope_scaling.factor\" is missing"},
      {"rope_scaling.rope_type", "\"dynamic\"", "\"rope_scaling.rope_type\" is \"dynamic\""},
      {"rope_scaling.mscale", "1", "keys of rope type \"yarn\""},
      {"rope_scaling.factor", "0", "\"rope_scaling.factor\" is 0"},
      {"rope_scaling.factor", "\"8\"", "\"rope_scaling.factor\" is \"8\""},
      {"rope_scaling.low_freq_factor", NULL, "low_freq_factor\" is missing"},
      {"rope_scaling.high_freq_factor", "1", "must be above low_freq_factor"},
      {"rope_scaling.original_max_position_embeddings", "-3", "original_max_position_embeddings\" is -3"},
      {"rope_scaling.beta_medium", "8", "unknown key \"beta_medium\""},
      {"attention", "\"gqa\"", "\"attention\" is \"gqa\"; it must be an object"},
      {"attention", "null", "\"attention\" is null"},
      {"attention.type", "\"gqaa\"", "\"attention.type\" is \"gqaa\""},
      {"attention.type", "null", "\"attention.type\" is null"},
      {"attention.qk_norm", "\"true\"", "\"attention.qk_norm\" is \"true\""},
      {"attention.head_nrm", "true", "did you mean \"attention.head_norm\"?"},
      {"attention.kv_lora_rank", "64", "belongs to \"attention.type\" \"mla\""},
      {"attention.q_lora_rank", "64",
       "belongs to \"attention.type\" \"mla\", \"mfa\", \"mfa_kr\", \"gla\", \"mlra\" and not to \"gqa\""},
      {"attention.gate_op", "\"add\"", "belongs to \"attention.type\" \"mla\""},
      {"attention.mix_logits", "false", "belongs to \"attention.type\" \"talking\""},
      {"attention.layer_group_size", "2", "leave it out or set 1"},
      {"attention.knocking", "true", "\"attention.knocking\" is true; it must be an object"},
      {"attention.head_mix", "[]", "\"attention.head_mix\" is []; it must be"},
      {"attention.rope_theta", "7", "\"rope_theta\" is not a key of attention; it belongs to the top level"},
      {"qk_norm", "true", "\"qk_norm\" is not a key of the top level; it belongs to attention"},
      {"hiden_size", "4", "unknown key \"hiden_size\"; did you mean \"hidden_size\"?"},
      {"zzzzzz\\u001b", "4", "unknown key"},
      {"sharing", "{\"type\": \"masa\"}", "\"sharing.projections\" is missing"},
      {"moe", "[]", "\"moe\" is []; it must be"},
      {"moe", "false", "\"moe\" is false"},
      {"init", "\"xavier\"", "one of \"default\", \"deepseek\""},
      {"bos_token_id", "73", "must be below \"vocab_size\", 73"},
      {"eos_token_id", "-1", "\"eos_token_id\" is -1"},
      {"eos_token_id", "[4, 5]", "\"eos_token_id\" is [4, 5]; it must be"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = changed(ours, cases[i].path, cases[i].value);
    assert_refused(text, cases[i].words);
    free(text);
  }
  char *text = changed(ours, "head_dim", NULL);
  char *odd = changed(text, "hidden_size", "50");
  assert_refused(odd, "must divide \"hidden_size\", 50");
  free(odd);
  free(text);
  text = changed(ours, "rope_theta", "1");
  char *still = changed(text, "rope_scaling",
                        "{\"rope_type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 8}");
  assert_refused(still, "\"rope_theta\" is 1; it must be above 1");
  free(still);
  free(text);
}

static void broken_json_is_refused_with_the_place(void **state) {
  (void)state;
  assert_refused("", "not valid JSON");
  assert_refused("[]", "must hold a JSON object");
  assert_refused("{\"model_type\": \"crosshead\"", "not valid JSON");
  assert_refused("{\"model_type\": \"crosshead\"} x", "not valid JSON");
  assert_refused("{\"vocab_size\": 7, \"vocab_size\": 8}", "vocab_size");
  assert_refused("{\"attention\": {\"type\": \"gqa\", \"type\": \"gqa\"}}", "duplicate object key");
  assert_refused("{\n\"rms_norm_eps\": nan}", "at line 2, after key \"rms_norm_eps\"");
  assert_refused("{\"rope_theta\": 1e999}", "after key \"rope_theta\"");
  assert_refused("{\"hidden_size\": 0x10}", "not valid JSON");
  assert_refused("{\"a\xff\": 1}", "not valid JSON");
  char *deep = malloc(100001);
  memset(deep, '[', 100000);
  deep[100000] = 0;
  assert_refused(deep, "not valid JSON");
  free(deep);
}

static void a_written_config_reads_back_the_same(void **state) {
  (void)state;
  char *mistral = as_family("mistral"), *qwen2 = as_family("qwen2"), *qwen3 = as_family("qwen3");
  char *texts[] = {changed(ours, "eos_token_id", "null"),
                   changed(ours, "rope_scaling", "null"),
                   changed(llama, "attention_bias", "true"),
                   changed(llama, "rope_scaling", "{\"type\": \"linear\", \"factor\": 0.1}"),
                   changed(mistral, "sliding_window", "null"),
                   changed(mistral, "rms_norm_eps", "1.1920928955078125e-07"),
                   changed(qwen2, "num_key_value_heads", "1"),
                   changed(qwen3, "num_key_value_heads", "2"),
                   changed(deepseek_v2, "n_shared_experts", "null"),
                   changed(deepseek_v2, "n_routed_experts", "null"),
                   changed(deepseek_v2, "norm_topk_prob", "true"),
                   changed(deepseek_v2, "rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2}"),
                   changed(deepseek_v3, "n_group", "1"),
                   changed(deepseek_v3, "q_lora_rank", "null"),
                   changed(deepseek_v3, "first_k_dense_replace", "5"),
                   changed(deepseek_v3, "rope_interleave", "false")};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    ch_config first, second;
    ch_error error = {0};
    ch_text json = {0};
    assert_int_equal(ch_config_parse(texts[i], "first", &first, &error), CH_OK);
    ch_config_write(&first, &json);
    assert_false(json.failed);
    if (ch_config_parse(json.data, "second", &second, &error) != CH_OK) fail_msg("%s", error.message);
    assert_memory_equal(&first, &second, sizeof first); /* both start from memset zero */
    ch_text_free(&json);
    free(texts[i]);
  }
  free(mistral);
  free(qwen2);
  free(qwen3);
}

static void a_made_config_is_checked_like_a_read_one(void **state) {
  (void)state;
  ch_config good, bad;
  ch_error error;
  assert_int_equal(ch_config_parse(ours, "config.json", &good, &error), CH_OK);
  assert_int_equal(ch_config_validate(&good, "preset", &error), CH_OK);
  bad = good;
  bad.intermediate_size = 0;
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "preset: \"intermediate_size\" is 0"));
  bad = good;
  bad.rms_norm_eps = (double)NAN;
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  bad = good;
  memset(bad.attention.type, 'x', sizeof bad.attention.type);
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  bad = good;
  snprintf(bad.model_type, sizeof bad.model_type, "llama");
  assert_int_equal(ch_config_validate(&bad, "preset", &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "cannot express"));
}

static void a_directory_stands_for_its_config(void **state) {
  (void)state;
  char directory[] = "/tmp/crosshead-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  char *path = ch_path_join(directory, "config.json");
  ch_config c;
  ch_error error;
  assert_int_equal(ch_config_read(directory, &c, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, "config.json"));
  assert_int_equal(ch_write_file(path, ours, strlen(ours), &error), CH_OK);
  assert_int_equal(ch_config_read(directory, &c, &error), CH_OK);
  assert_int_equal(ch_config_read(path, &c, &error), CH_OK);
  assert_int_equal(ch_write_file(path, ours, strlen(ours) + 1, &error), CH_OK);
  assert_int_equal(ch_config_read(path, &c, &error), CH_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "NUL byte"));
  unlink(path);
  rmdir(directory);
  free(path);
}

static void every_key_is_documented(void **state) {
  (void)state;
  char *page, name[80];
  ch_error error;
  if (ch_read_file(TEST_DATA "/../../docs/config.md", 1 << 20, &page, NULL, &error) != CH_OK)
    fail_msg("%s", error.message);
  for (int i = 0; i < ch_config_key_count; i++) {
    if (!(ch_config_keys[i].files & CH_KEY_OURS)) continue;
    snprintf(name, sizeof name, "`%s`", ch_config_keys[i].name);
    if (strcmp(ch_config_keys[i].group, "rope") == 0)
      snprintf(name, sizeof name, "\"%s\"", ch_config_keys[i].name);
    if (ch_config_keys[i].alias) continue;
    if (!strstr(page, name)) fail_msg("docs/config.md does not say what \"%s\" means", name);
  }
  free(page);
}

static void real_configs_load(void **state) {
  (void)state;
  static const char *const names[] = {"data/reference/llama_gqa",
                                      "data/reference/llama3_rope",
                                      "data/reference/qwen3",
                                      "data/reference/stories260K",
                                      "data/models/TinyStories-656K",
                                      "data/models/stories-qwen3-12L",
                                      "vectors/gqa",
                                      "vectors/mha",
                                      "vectors/mqa",
                                      "vectors/alibi",
                                      "vectors/qk_norm",
                                      "vectors/head_norm",
                                      "vectors/gelu_tied",
                                      "vectors/llama"};
  if (!ch_is_directory(SHARED_DATA)) {
    print_message("no shared data beside the checkout: real configs are not read\n");
    skip();
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *path = ch_path_join(SHARED_DATA, names[i]);
    ch_config c;
    ch_error error;
    if (ch_config_read(path, &c, &error) != CH_OK) fail_msg("%s", error.message);
    free(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_key_of_ours_is_read),
      cmocka_unit_test(absent_keys_have_their_defaults),
      cmocka_unit_test(broken_values_of_ours_are_refused_by_name),
      cmocka_unit_test(broken_json_is_refused_with_the_place),
      cmocka_unit_test(a_written_config_reads_back_the_same),
      cmocka_unit_test(a_made_config_is_checked_like_a_read_one),
      cmocka_unit_test(a_directory_stands_for_its_config),
      cmocka_unit_test(every_key_is_documented),
      cmocka_unit_test(real_configs_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
