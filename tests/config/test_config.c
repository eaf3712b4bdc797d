/* Configurations: every key, Hugging Face families, and what broken files get. */
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
#include "config/config_testing.h"

static const char ours[] =
    "{\"model_type\": \"crosshead\", \"vocab_size\": 73, \"hidden_size\": 48, \"intermediate_size\": 44,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"head_dim\": 8,"
    " \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": true,"
    " \"hidden_act\": \"gelu\", \"position\": \"rope\", \"rope_theta\": 5000, \"rope_interleaved\": true,"
    " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.5, \"low_freq_factor\": 1,"
    " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 32}, \"attention_bias\": true,"
    " \"attention\": {\"type\": \"gqa\", \"qk_norm\": true, \"head_norm\": true, \"knocking\": null,"
    " \"head_mix\": null, \"q_lora_rank\": 0, \"gate_op\": \"multiply\", \"layer_group_size\": 1},"
    " \"sharing\": null, \"moe\": null, \"init\": \"deepseek\", \"bos_token_id\": 3, \"eos_token_id\": 4}";

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 97,"
    " \"hidden_size\": 96, \"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 16,"
    " \"hidden_act\": \"silu\", \"transformers_version\": \"4.51.3\", \"a_future_key\": [1, {\"b\": null}]}";

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
      {"vocab_size", "0", "\"vocab_size\" is 0 where a whole number from 1"},
      {"vocab_size", "-5", "\"vocab_size\" is -5"},
      {"vocab_size", "73.5", "\"vocab_size\" is 73.5"},
      {"vocab_size", "\"73\"", "\"vocab_size\" is \"73\""},
      {"vocab_size", "true", "\"vocab_size\" is true"},
      {"vocab_size", "null", "\"vocab_size\" is null"},
      {"vocab_size", "[73]", "\"vocab_size\" is [73] where"},
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
      {"rms_norm_eps", "0", "\"rms_norm_eps\" is 0 where a number above 0"},
      {"rms_norm_eps", "-1e-5", "\"rms_norm_eps\" is -1"},
      {"rms_norm_eps", "\"1e-5\"", "\"rms_norm_eps\" is \"1e-5\""},
      {"rms_norm_eps", "null", "\"rms_norm_eps\" is null"},
      {"rms_norm_eps", "2", "\"rms_norm_eps\" is 2"},
      {"tie_word_embeddings", "1", "\"tie_word_embeddings\" is 1 where true or false"},
      {"tie_word_embeddings", "\"yes\"", "\"tie_word_embeddings\" is \"yes\""},
      {"hidden_act", "\"tanh\"", "one of \"silu\", \"gelu\", \"geglu\", \"relu\""},
      {"hidden_act", "3", "\"hidden_act\" is 3"},
      {"norm", "\"batchnorm\"", "\"norm\" is \"batchnorm\" where one of \"rmsnorm\", \"layernorm\""},
      {"norm_placement", "\"sandwich\"", "one of \"pre\", \"post\", \"branch\", \"both\""},
      {"layer_norm_eps", "0.1", "\"layer_norm_eps\" is 0.1, but it belongs to \"norm\": \"layernorm\""},
      {"position", "\"rotary\"", "one of \"rope\", \"alibi\", \"none\", \"learned\""},
      {"position", "\"learned\"", "\"rope_scaling\" needs \"position\": \"rope\""},
      {"partial_rotary_factor", "0.01", "it must leave an even number from 2"},
      {"partial_rotary_factor", "1.5", "\"partial_rotary_factor\" is 1.5 where"},
      {"local_rope_theta", "100", "\"local_rope_theta\" and \"local_rope_layers\" need each other"},
      {"nope_layers", "[500]", "\"nope_layers\" names layer 500, which must be one from 0"},
      {"logits_scaling", "0", "\"logits_scaling\" is 0 where"},
      {"attn_logit_softcapping", "0", "\"attn_logit_softcapping\" is 0 where a number above 0"},
      {"final_logit_softcapping", "-1", "\"final_logit_softcapping\" is -1 where"},
      {"swiglu_alpha", "2", "\"swiglu_alpha\" is 2, but it belongs to \"hidden_act\": \"clamped_swiglu\""},
      {"swiglu_limit", "2", "\"swiglu_limit\" is 2, but it belongs to \"hidden_act\": \"clamped_swiglu\""},
      {"rope_scaling.truncate", "false", "keys of rope type \"yarn\""},
      {"rope_scaling.short_factor", "[1]", "keys of rope type \"longrope\""},
      {"residual_multiplier", "-1", "\"residual_multiplier\" is -1 where"},
      {"position", "\"alibi\"", "\"rope_scaling\" needs \"position\": \"rope\""},
      {"rope_theta", "0", "\"rope_theta\" is 0"},
      {"rope_theta", "-10000", "\"rope_theta\" is -10000"},
      {"rope_theta", "1e308", "\"rope_theta\" is 1e308"},
      {"rope_scaling", "[]", "\"rope_scaling\" is [] where"},
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
      {"attention", "\"gqa\"", "\"attention\" is \"gqa\" where an object"},
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
      {"attention.knocking", "true", "\"attention.knocking\" is true where an object"},
      {"attention.head_mix", "[]", "\"attention.head_mix\" is [] where"},
      {"attention.rope_theta", "7", "\"rope_theta\" is no key of attention; it stands in the top level"},
      {"qk_norm", "true", "\"qk_norm\" is no key of the top level; it stands in attention"},
      {"hiden_size", "4", "unknown key \"hiden_size\"; did you mean \"hidden_size\"?"},
      {"zzzzzz\\u001b", "4", "unknown key"},
      {"sharing", "{\"type\": \"masa\"}", "\"sharing.projections\" is missing"},
      {"moe", "[]", "\"moe\" is [] where"},
      {"moe", "false", "\"moe\" is false"},
      {"init", "\"xavier\"", "one of \"default\", \"deepseek\""},
      {"bos_token_id", "73", "must be below \"vocab_size\", 73"},
      {"eos_token_id", "-1", "\"eos_token_id\" is -1"},
      {"eos_token_id", "[4, 5]", "\"eos_token_id\" is [4, 5] where"},
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
  assert_refused(still, "\"rope_theta\" is 1, which must be above 1");
  free(still);
  free(text);
}

static void broken_json_is_refused_with_the_place(void **state) {
  (void)state;
  assert_refused("", "not valid JSON");
  assert_refused("[]", "no JSON object");
  assert_refused("{\"model_type\": \"crosshead\"", "not valid JSON");
  assert_refused("{\"model_type\": \"crosshead\"} x", "not valid JSON");
  assert_refused("{\"vocab_size\": 7, \"vocab_size\": 8}", "vocab_size");
  assert_refused("{\"attention\": {\"type\": \"gqa\", \"type\": \"gqa\"}}", "duplicate object key");
  assert_refused("{\n\"rms_norm_eps\": NaN}", "at line 2, after key \"rms_norm_eps\"");
  assert_refused("{\"rope_theta\": -Infinity}", "after key \"rope_theta\"");
  assert_refused("{\"rope_theta\": 1e999}", "after key \"rope_theta\"");
  assert_refused("{\"hidden_size\": 99999999999999999999999}", "after key \"hidden_size\"");
  assert_refused("{\"hidden_size\": 0x10}", "not valid JSON");
  assert_refused("{\"a\xff\": 1}", "not valid JSON");
  char *deep = malloc(100001);
  memset(deep, '[', 100000);
  deep[100000] = 0;
  assert_refused(deep, "not valid JSON");
  free(deep);
}

/* The llama text above as another family. */
static char *as_family(const char *name) {
  char value[32];
  snprintf(value, sizeof value, "\"%s\"", name);
  return changed(llama, "model_type", value);
}

static void families_have_the_defaults_of_transformers(void **state) {
  (void)state;
  ch_config c;
  read_changed(llama, "num_attention_heads", "12", &c);
  assert_true(c.num_key_value_heads == 12 && c.head_dim == 8 && c.rms_norm_eps == 1e-6 &&
              c.rope_theta == 10000);
  assert_true(!c.tie_word_embeddings && !c.attention_bias && !c.attention.qk_norm && c.sliding_window == 0);
  assert_true(c.max_position_embeddings == 2048 && c.bos_token_id == -1 && c.eos_token_id == -1);
  assert_true(c.position == CH_POSITION_ROPE && !c.rope_interleaved && strcmp(c.hidden_act, "silu") == 0);
  char *text = as_family("mistral");
  read_changed(text, "head_dim", "10", &c);
  assert_true(c.num_key_value_heads == 8 && c.head_dim == 10 && c.sliding_window == 4096);
  assert_int_equal(c.max_position_embeddings, 131072);
  free(text);
}

static void qwen_families_fix_biases_and_norms(void **state) {
  (void)state;
  ch_config c;
  char *text = as_family("qwen2"), *heads = changed(text, "num_key_value_heads", "4");
  read_changed(heads, "head_dim", "6", &c);
  assert_true(c.attention_bias && !c.attention_output_bias && !c.attention.qk_norm && c.head_dim == 6);
  free(text);
  free(heads);
  text = as_family("qwen3");
  heads = changed(text, "num_key_value_heads", "4");
  read_changed(heads, "attention_bias", "true", &c);
  assert_true(c.attention_bias && c.attention_output_bias && c.attention.qk_norm && c.head_dim == 128);
  read_changed(text, "num_key_value_heads", "null", &c);
  assert_int_equal(c.num_key_value_heads, 16);
  char *absent = changed(text, "num_attention_heads", "64");
  read_changed(absent, "x", "0", &c);
  assert_int_equal(c.num_key_value_heads, 32);
  free(absent);
  free(text);
  free(heads);
  read_changed(llama, "attention_bias", "true", &c);
  assert_true(c.attention_bias && c.attention_output_bias);
  text = as_family("mistral");
  read_changed(text, "attention_bias", "true", &c);
  assert_true(!c.attention_bias && !c.attention_output_bias);
  free(text);
}

static void rope_is_read_from_old_and_new_keys(void **state) {
  (void)state;
  ch_config c;
  read_changed(llama, "rope_theta", "500000.0", &c);
  assert_true(c.rope_theta == 500000 && c.rope_scaling.type == CH_ROPE_DEFAULT);
  read_changed(llama, "rope_scaling", "{\"type\": \"linear\", \"factor\": 4}", &c);
  assert_true(c.rope_scaling.type == CH_ROPE_LINEAR && c.rope_scaling.factor == 4);
  read_changed(llama, "rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 7000, \"factor\": 3}",
               &c);
  assert_true(c.rope_theta == 7000 && c.rope_scaling.type == CH_ROPE_DEFAULT && c.rope_scaling.factor == 0);
  read_changed(llama, "rope_parameters",
               "{\"rope_type\": \"llama3\", \"rope_theta\": 5e5, \"factor\": 8, \"low_freq_factor\": 1,"
               " \"high_freq_factor\": 4}",
               &c);
  assert_true(c.rope_scaling.type == CH_ROPE_LLAMA3 && c.rope_theta == 5e5);
  assert_int_equal(c.rope_scaling.original_max_position_embeddings, 2048);
  read_changed(llama, "rope_scaling", "null", &c);
  assert_int_equal(c.rope_scaling.type, CH_ROPE_DEFAULT);
}

static void token_ids_may_be_lists_or_null(void **state) {
  (void)state;
  ch_config c;
  read_changed(llama, "eos_token_id", "[9, 10]", &c);
  assert_int_equal(c.eos_token_id, 9);
  read_changed(llama, "eos_token_id", "null", &c);
  assert_int_equal(c.eos_token_id, -1);
  read_changed(llama, "bos_token_id", "1", &c);
  assert_int_equal(c.bos_token_id, 1);
}

static void an_active_sliding_window_is_kept(void **state) {
  (void)state;
  ch_config c;
  char *mistral = as_family("mistral");
  read_changed(mistral, "sliding_window", "null", &c);
  assert_int_equal(c.sliding_window, 0);
  read_changed(mistral, "sliding_window", "16", &c);
  assert_int_equal(c.sliding_window, 16);
  free(mistral);
  char *family = as_family("qwen3"), *qwen = changed(family, "num_key_value_heads", "4");
  free(family);
  read_changed(qwen, "sliding_window", "16", &c);
  assert_int_equal(c.sliding_window, 0);
  char *used = changed(qwen, "use_sliding_window", "true"), *first = changed(used, "max_window_layers", "1");
  read_changed(used, "sliding_window", "16", &c); /* layers from 28 on, and there are two */
  assert_int_equal(c.sliding_window, 0);
  read_changed(first, "sliding_window", "16", &c);
  assert_int_equal(c.sliding_window, 16);
  read_changed(used, "layer_types", "[\"full_attention\", \"sliding_attention\"]", &c);
  assert_int_equal(c.sliding_window, 4096);
  read_changed(first, "layer_types", "[\"full_attention\", \"full_attention\"]", &c);
  assert_int_equal(c.sliding_window, 0);
  free(first);
  free(used);
  free(qwen);
}

static void what_a_family_cannot_do_here_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *family, *path, *value, *words;
  } cases[] = {
      {"llama", "hidden_act", "\"gelu\"", "\"hidden_act\" is \"gelu\" where \"silu\" is needed"},
      {"mistral", "mlp_bias", "true", "model_type \"mistral\" cannot express this \"mlp_bias\""},
      {"llama", "partial_rotary_factor", "0.5", "\"partial_rotary_factor\" is 0.5"},
      {"llama", "quantization_config", "{\"quant_method\": \"gptq\"}",
       "\"quantization_config\" is an object"},
      {"llama", "rope_scaling", "{\"type\": \"dynamic\", \"factor\": 2}",
       "\"rope_scaling.type\" is \"dynamic\""},
      {"llama", "rope_parameters", "{\"rope_type\": \"longrope\", \"factor\": 2}",
       "\"rope_scaling.short_factor\" has 0 numbers, but 3 pairs"},
      {"llama", "rope_parameters", "{\"partial_rotary_factor\": 0.25}",
       "\"rope_parameters.partial_rotary_factor\""},
      {"llama", "rope_scaling", "{\"type\": \"linear\"}", "\"rope_scaling.factor\" is missing"},
      {"llama", "rope_theta", "-1", "\"rope_theta\" is -1"},
      {"llama", "vocab_size", NULL, "\"vocab_size\" is missing"},
      {"llama", "hidden_size", "47", "must divide \"hidden_size\", 47"},
      {"llama", "num_key_value_heads", "3", "must divide \"num_attention_heads\", 16"},
      {"llama", "attention_bias", "\"no\"", "\"attention_bias\" is \"no\""},
      {"llama", "eos_token_id", "\"</s>\"", "\"eos_token_id\" is \"</s>\""},
      {"llama", "mlp_bias", "1", "\"mlp_bias\" is 1 where true or false"},
      {"mistral", "sliding_window", "-1", "\"sliding_window\" is -1"},
      {"qwen2", "x", "0", "\"num_key_value_heads\" is 32, which must divide \"num_attention_heads\", 16"},
      {"qwen3", "layer_types", "[\"full_attention\"]", "a list of 2 names"},
      {"qwen3", "layer_types", "[\"full_attention\", \"chunked\"]", "\"layer_types\" has \"chunked\""},
      {"qwen3", "layer_types", "[\"full_attention\", \"sliding_attention\"]",
       "\"use_sliding_window\" is not true"},
      {"qwen3", "use_sliding_window", "1", "\"use_sliding_window\" must be true or false"},
      {"phi3", "rope_scaling", "{\"type\": \"longrope\", \"short_factor\": [1, 1, 1], \"long_factor\": [1]}",
       "\"rope_scaling.long_factor\" has 1 numbers, but 3 pairs"},
      {"phi3", "rope_scaling", "{\"type\": \"su\", \"short_factor\": [1, 0, 1], \"long_factor\": [1, 1, 1]}",
       "\"rope_scaling.short_factor\" is [1, 0, 1] where a list"},
      {"phi3", "rope_parameters", "[1]", "\"rope_parameters\" is [1] where an object"},
      {"phi3", "partial_rotary_factor", "0.01", "it must leave an even number from 2"},
      {"granite", "quantization_config", "{\"quant_method\": \"gptq\"}",
       "\"quantization_config\" is an object"},
      {"granite", "logits_scaling", "0", "\"logits_scaling\" is 0"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", "true", "only false is"},
      {"gpt2", "activation_function", "\"tanh\"", "\"activation_function\" is \"tanh\" where one of"},
      {"stablelm", "qk_layernorm", "true", "\"qk_layernorm\" is true, which is not supported"},
      {"smollm3", "no_rope_layers", "[1]", "\"no_rope_layers\" must be a list of 2 numbers"},
      {"smollm3", "no_rope_layer_interval", "0", "\"no_rope_layer_interval\" must be a whole number from 1"},
      {"mixtral", "num_experts_per_tok", "1", "it must be 2 at least"},
      {"mixtral", "num_local_experts", "1", "\"moe.active\" is 2"},
      {"olmo3", "layer_types", "[\"full_attention\"]", "one for each of 2 layers"},
      {"olmo3", "sliding_window", "0", "\"sliding_window\" is 0 where"},
      {"gemma2", "attn_logit_softcapping", "0", "\"attn_logit_softcapping\" is 0 where a number above 0"},
      {"gemma3_text", "final_logit_softcapping", "-30", "\"final_logit_softcapping\" is -30 where"},
      {"gpt_oss", "num_experts_per_tok", "1", "it must be 2 at least"},
      {"gpt_oss", "swiglu_limit", "-7", "\"swiglu_limit\" is -7 where a number above 0"},
      {"gpt_oss", "quantization_config", "{\"quant_method\": \"gptq\"}",
       "\"quantization_config\" is an object"},
      {"gpt_oss", "layer_types", "[\"chunked_attention\", \"full_attention\"]",
       "\"layer_types\" must be a list"},
      {"gemma3_text", "query_pre_attn_scalar", "0", "\"query_pre_attn_scalar\" must be a number above 0"},
      {"gptj", "x", "0", "\"model_type\" is \"gptj\""},
      {"deepseek_vl", "x", "0", "\"model_type\" is \"deepseek_vl\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *family = as_family(cases[i].family), *text = changed(family, cases[i].path, cases[i].value);
    assert_refused(text, cases[i].words);
    free(text);
    free(family);
  }
}

/* DeepSeek-V2-Lite's and V3's, shortened. */
static const char deepseek_v2[] =
    "{\"model_type\": \"deepseek_v2\", \"vocab_size\": 97, \"hidden_size\": 96, \"intermediate_size\": 64, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"kv_lora_rank\": 20, "
    "\"q_lora_rank\": null, \"qk_nope_head_dim\": 12, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, "
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"n_shared_experts\": 2, "
    "\"moe_intermediate_size\": 24, "
    "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"n_group\": 1, \"topk_group\": 1, \"ep_size\": 1, "
    "\"topk_method\": \"greedy\", \"scoring_func\": \"softmax\", \"norm_topk_prob\": false, "
    "\"routed_scaling_factor\": 1.0, \"rms_norm_eps\": 1e-5, \"torch_dtype\": \"bfloat16\", "
    "\"rope_scaling\": "
    "{\"type\": \"yarn\", \"factor\": 40, \"beta_fast\": 32, \"beta_slow\": 1, \"mscale\": 0.707, "
    "\"mscale_all_dim\": 0.707, \"original_max_position_embeddings\": 4096}}";
static const char deepseek_v3[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 97, \"hidden_size\": 96, \"intermediate_size\": 64, "
    "\"num_hidden_layers\": 5, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"topk_method\": "
    "\"noaux_tc\", "
    "\"num_nextn_predict_layers\": 1, \"dtype\": \"bfloat16\", \"rope_parameters\": {\"rope_theta\": "
    "50000.0, "
    "\"rope_type\": \"default\"}}";

static void deepseek_configs_are_latent_attention_with_experts(void **state) {
  (void)state;
  ch_config c;
  ch_error error = {0};
  assert_int_equal(ch_config_parse(deepseek_v2, "v2", &c, &error), CH_OK);
  assert_string_equal(c.attention.type, "mla");
  assert_true(c.rope_interleaved && c.attention.q_lora_rank == 0 && c.attention.kv_lora_rank == 20 &&
              c.head_dim == 8);
  assert_true(c.rms_norm_eps == 1e-5 && c.attention.latent_norm_eps == 1e-6);
  assert_true(c.moe.experts == 8 && c.moe.active == 2 && c.moe.shared == 2 && c.moe.first_dense_layers == 1);
  assert_true(c.moe.scoring == CH_SCORING_SOFTMAX && !c.moe.renormalise && c.moe.scale == 1 && !c.moe.groups);
  assert_true(c.rope_scaling.type == CH_ROPE_YARN && c.rope_scaling.mscale == 0.707 &&
              c.rope_scaling.factor == 40);
  assert_int_equal(ch_config_parse(deepseek_v3, "v3", &c, &error), CH_OK);
  assert_true(c.attention.q_lora_rank == 1536 && c.attention.kv_lora_rank == 512 && c.rope_theta == 50000);
  assert_true(c.moe.experts == 256 && c.moe.active == 8 && c.moe.shared == 1 &&
              c.moe.first_dense_layers == 3);
  assert_true(c.moe.scoring == CH_SCORING_SIGMOID && c.moe.renormalise && c.moe.scale == 2.5 &&
              c.moe.groups == 8);
  assert_true(c.moe.active_groups == 4 && c.moe.balance == CH_BALANCE_LOSS_FREE);
}

static void deepseek_layers_may_all_be_dense(void **state) {
  (void)state;
  static const char *const changes[][2] = {{"n_routed_experts", "null"}, {"first_k_dense_replace", "3"}};
  for (int i = 0; i < 2; i++) {
    ch_config c;
    read_changed(deepseek_v2, changes[i][0], changes[i][1], &c);
    assert_true(c.moe.experts == 0 && c.moe.active == 0);
  }
}

static const char qwen3_moe[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 97, \"hidden_size\": 96, \"intermediate_size\": 64, "
    "\"num_hidden_layers\": 6, \"num_attention_heads\": 4, \"head_dim\": 16, \"num_experts\": 8, "
    "\"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, \"norm_topk_prob\": true}";

static void qwen3_moe_configs_are_grouped_queries_with_experts(void **state) {
  (void)state;
  ch_config c, again;
  ch_error error = {0};
  assert_int_equal(ch_config_parse(qwen3_moe, "moe", &c, &error), CH_OK);
  assert_string_equal(c.attention.type, "gqa");
  assert_true(c.attention.qk_norm && !c.attention_bias && c.num_key_value_heads == 4 && c.head_dim == 16);
  assert_true(c.sliding_window == 0 && c.rms_norm_eps == 1e-6 && c.max_position_embeddings == 32768);
  assert_true(c.moe.experts == 8 && c.moe.active == 2 && c.moe.shared == 0 &&
              c.moe.expert_intermediate_size == 24 && c.moe.first_dense_layers == 0);
  assert_true(c.moe.renormalise && c.moe.scale == 1 && c.moe.scoring == CH_SCORING_SOFTMAX &&
              c.moe.balance == CH_BALANCE_AUX && c.moe.aux_coefficient == 0.001);
  read_changed(qwen3_moe, "norm_topk_prob", NULL, &c);
  assert_false(c.moe.renormalise); /* what transformers assumes */
  read_changed(qwen3_moe, "num_experts", NULL, &c);
  assert_int_equal(c.moe.experts, 128);
  read_changed(qwen3_moe, "num_local_experts", "4", &c); /* the older name stands too, and counts */
  assert_int_equal(c.moe.experts, 8);
  read_changed(qwen3_moe, "router_aux_loss_coef", "0", &c);
  assert_int_equal(c.moe.balance, CH_BALANCE_NONE);
  read_changed(qwen3_moe, "use_sliding_window", "true", &c);
  assert_int_equal(c.sliding_window, 4096);
  read_changed(qwen3_moe, "num_experts", "0", &c);
  assert_true(c.moe.experts == 0 && c.moe.active == 0);
  ch_text text = {0};
  ch_config_write(&c, &text);
  assert_int_equal(ch_config_parse(text.data, "written", &again, &error), CH_OK);
  assert_memory_equal(&c, &again, sizeof c);
  ch_text_free(&text);
}

/* Which of six layers are dense, and what is written of it. */
static void qwen3_moe_layers_may_be_dense(void **state) {
  (void)state;
  static const struct {
    const char *step, *listed;
    int64_t first;
    bool dense[6];
    const char *written;
  } cases[] = {{"1", "[]", 0, {0}, NULL},
               {"1", "null", 0, {0}, NULL},
               {"2", "[]", 1, {0, 0, 1, 0, 1, 0}, "[0, 2, 4]"},
               {"3", "[5]", 2, {0, 0, 0, 1, 1, 1}, "[0, 1, 3, 4, 5]"},
               {"1", "[0, 1, 4]", 2, {0, 0, 0, 0, 1, 0}, "[0, 1, 4]"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_config c, again;
    ch_error error = {0};
    ch_text text = {0};
    char *step = changed(qwen3_moe, "decoder_sparse_step", cases[i].step);
    read_changed(step, "mlp_only_layers", cases[i].listed, &c);
    assert_int_equal(c.moe.first_dense_layers, cases[i].first);
    assert_memory_equal(c.moe.dense_layers, cases[i].dense, 6);
    ch_config_write(&c, &text);
    const char *list = strstr(text.data, "\"mlp_only_layers\": ");
    assert_int_equal(list != NULL, cases[i].written != NULL);
    if (list) assert_int_equal(strncmp(list + 19, cases[i].written, strlen(cases[i].written)), 0);
    assert_int_equal(ch_config_parse(text.data, "written", &again, &error), CH_OK);
    assert_memory_equal(&c, &again, sizeof c);
    ch_text_free(&text);
    free(step);
  }
  static const char *const none[][2] = {{"decoder_sparse_step", "7"},
                                        {"mlp_only_layers", "[0, 1, 2, 3, 4, 5]"}};
  for (int i = 0; i < 2; i++) {
    ch_config c;
    read_changed(qwen3_moe, none[i][0], none[i][1], &c);
    assert_int_equal(c.moe.experts, 0);
  }
}

static void what_qwen3_moe_configs_ask_for_wrongly_is_refused(void **state) {
  (void)state;
  static const char *const cases[][3] = {{"decoder_sparse_step", "0", "a whole number from 1"},
                                         {"decoder_sparse_step", "\"2\"", "a whole number from 1"},
                                         {"mlp_only_layers", "[6]", "names layer 6"},
                                         {"mlp_only_layers", "3", "\"mlp_only_layers\" is 3"},
                                         {"num_experts_per_tok", "1", "whose weight would always be 1"},
                                         {"num_experts_per_tok", "9", "moe.active"},
                                         {"num_experts", "1025", "\"num_experts\" is 1025"},
                                         {"use_sliding_window", "1", "use_sliding_window"},
                                         {"router_aux_loss_coef", "-1", "router_aux_loss_coef"},
                                         {"mlp_bias", "true", "mlp_bias"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = changed(qwen3_moe, cases[i][0], cases[i][1]);
    assert_refused(text, cases[i][2]);
    free(text);
  }
}

/* What the family has no word for. */
static void a_mixture_of_another_kind_is_no_qwen3_moe(void **state) {
  (void)state;
  ch_config read;
  ch_error error = {0};
  assert_int_equal(ch_config_parse(qwen3_moe, "moe", &read, &error), CH_OK);
  ch_config c[] = {read, read, read, read, read, read};
  c[0].moe.shared = 1;
  c[1].moe.balance = CH_BALANCE_LOSS_FREE;
  c[1].moe.aux_coefficient = 0.01;
  c[2].moe.scoring = CH_SCORING_SIGMOID;
  c[3].moe.scale = 2;
  c[4].moe.groups = 2;
  c[4].moe.active_groups = 1;
  c[5].attention.qk_norm = false;
  static const char *const words[] = {"moe.shared", "moe.balance", "moe.scoring",
                                      "moe.scale",  "moe.groups",  "attention.qk_norm"};
  for (int i = 0; i < 6; i++) {
    assert_int_equal(ch_config_validate(&c[i], "made", &error), CH_ERROR_CONFIG);
    if (!strstr(error.message, words[i])) fail_msg("\"%s\" does not say \"%s\"", error.message, words[i]);
  }
}

static void what_deepseek_configs_ask_for_wrongly_is_refused(void **state) {
  (void)state;
  static const char *const cases[][3] = {{"topk_method", "\"noaux_tc\"", "group_limited_greedy"},
                                         {"topk_method", "7", "\"topk_method\" is 7"},
                                         {"scoring_func", "\"sigmoid\"", "must be \"softmax\""},
                                         {"moe_layer_freq", "2", "moe_layer_freq"},
                                         {"num_experts_per_tok", "9", "moe.active"},
                                         {"num_experts_per_tok", "null", "moe.active"},
                                         {"attention_bias", "true", "attention_bias"},
                                         {"num_key_value_heads", "2", "num_key_value_heads"},
                                         {"qk_rope_head_dim", "7", "must be even"},
                                         {"kv_lora_rank", "0", "kv_lora_rank"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = changed(deepseek_v2, cases[i][0], cases[i][1]);
    assert_refused(text, cases[i][2]);
    free(text);
  }
  char *grouped = changed(deepseek_v2, "topk_method", "\"group_limited_greedy\"");
  char *uneven = changed(grouped, "n_group", "3"), *few = changed(grouped, "n_group", "8");
  char *none = changed(few, "topk_group", "null");
  assert_refused(uneven, "moe.groups");
  assert_refused(few, "moe.active");
  assert_refused(none, "moe.active_groups");
  free(grouped), free(uneven), free(few), free(none);
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
      cmocka_unit_test(families_have_the_defaults_of_transformers),
      cmocka_unit_test(qwen_families_fix_biases_and_norms),
      cmocka_unit_test(rope_is_read_from_old_and_new_keys),
      cmocka_unit_test(token_ids_may_be_lists_or_null),
      cmocka_unit_test(an_active_sliding_window_is_kept),
      cmocka_unit_test(what_a_family_cannot_do_here_is_refused),
      cmocka_unit_test(deepseek_configs_are_latent_attention_with_experts),
      cmocka_unit_test(deepseek_layers_may_all_be_dense),
      cmocka_unit_test(qwen3_moe_configs_are_grouped_queries_with_experts),
      cmocka_unit_test(qwen3_moe_layers_may_be_dense),
      cmocka_unit_test(what_qwen3_moe_configs_ask_for_wrongly_is_refused),
      cmocka_unit_test(a_mixture_of_another_kind_is_no_qwen3_moe),
      cmocka_unit_test(what_deepseek_configs_ask_for_wrongly_is_refused),
      cmocka_unit_test(a_written_config_reads_back_the_same),
      cmocka_unit_test(a_made_config_is_checked_like_a_read_one),
      cmocka_unit_test(a_directory_stands_for_its_config),
      cmocka_unit_test(every_key_is_documented),
      cmocka_unit_test(real_configs_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
