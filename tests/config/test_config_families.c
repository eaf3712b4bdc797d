/* Tests configurations of Hugging Face families without experts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config_file/config_json.h"
#include "config/config_texts.h"

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

/* Layers with windows have a rotary base of their own. If all layers have windows, nothing reads the base of full
   attention. */
static void a_base_that_no_layer_reads_may_be_null(void **state) {
  (void)state;
  ch_config c;
  char *family = as_family("gemma3_text"), *null = changed(family, "rope_theta", "null");
  read_changed(null, "layer_types", "[\"sliding_attention\", \"sliding_attention\"]", &c);
  double base = c.local_rope_theta != 0 ? c.local_rope_theta : c.rope_theta;
  assert_true(base == 10000);
  free(family);
  char *one = changed(null, "layer_types", "[\"sliding_attention\", \"full_attention\"]");
  assert_refused(one, "\"rope_theta\" is null; it must be a number");
  free(one);
  free(null);
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
  read_changed(used, "sliding_window", "16", &c); /* windows begin at layer 28 of a model of two layers */
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
      {"llama", "hidden_act", "\"gelu\"", "\"hidden_act\" is \"gelu\"; it must be \"silu\""},
      {"mistral", "mlp_bias", "true", "model_type \"mistral\" cannot express this \"mlp_bias\""},
      {"llama", "partial_rotary_factor", "0.5", "\"partial_rotary_factor\" is 0.5"},
      {"llama", "quantization_config", "{\"quant_method\": \"gptq\"}",
       "quantised by GPTQ, which is not supported"},
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
      {"llama", "mlp_bias", "1", "\"mlp_bias\" is 1; it must be true or false"},
      {"mistral", "sliding_window", "-1", "\"sliding_window\" is -1"},
      {"qwen2", "x", "0", "\"num_key_value_heads\" is 32; it must divide \"num_attention_heads\", 16"},
      {"qwen3", "layer_types", "[\"full_attention\"]", "a list of 2 names"},
      {"qwen3", "layer_types", "[\"full_attention\", \"chunked\"]", "\"layer_types\" has \"chunked\""},
      {"qwen3", "layer_types", "[\"full_attention\", \"sliding_attention\"]",
       "\"use_sliding_window\" is not true"},
      {"qwen3", "use_sliding_window", "1", "\"use_sliding_window\" must be true or false"},
      {"phi3", "rope_scaling", "{\"type\": \"longrope\", \"short_factor\": [1, 1, 1], \"long_factor\": [1]}",
       "\"rope_scaling.long_factor\" has 1 numbers, but 3 pairs"},
      {"phi3", "rope_scaling", "{\"type\": \"su\", \"short_factor\": [1, 0, 1], \"long_factor\": [1, 1, 1]}",
       "\"rope_scaling.short_factor\" is [1, 0, 1]; it must be a list"},
      {"phi3", "rope_parameters", "[1]", "\"rope_parameters\" is [1]; it must be an object"},
      {"phi3", "partial_rotary_factor", "0.01", "that number must be even and at least 2"},
      {"llama", "quantization_config", "{\"quant_method\": \"awq\", \"bits\": 4}",
       "quantised by AWQ in 4 bits, which is not supported"},
      {"llama", "quantization_config", "{\"load_in_8bit\": true}", "quantised by bitsandbytes"},
      {"llama", "quantization_config", "{\"quant_method\": \"mxfp4\"}", "quantised by MXFP4"},
      {"llama", "quantization_config", "{\"quant_method\": \"nobody's\"}", "by the method \"nobody's\""},
      {"llama", "quantization_config", "{}", "by a method that it does not name"},
      {"qwen3", "compression_config", "{\"quant_method\": \"compressed-tensors\"}",
       "\"compression_config\" says that the weights are quantised by compressed-tensors"},
      {"granite", "quantization_config", "{\"quant_method\": \"gptq\"}",
       "quantised by GPTQ, which is not supported"},
      {"granite", "logits_scaling", "0", "\"logits_scaling\" is 0"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", "true", "only false is"},
      {"gpt2", "activation_function", "\"tanh\"", "\"activation_function\" is \"tanh\"; it must be one of"},
      {"stablelm", "qk_layernorm", "true", "\"qk_layernorm\" is true, which is not supported"},
      {"smollm3", "no_rope_layers", "[1]", "\"no_rope_layers\" must be a list of 2 numbers"},
      {"smollm3", "no_rope_layer_interval", "0", "\"no_rope_layer_interval\" must be a whole number from 1"},
      {"mixtral", "num_experts_per_tok", "1", "it must be at least 2"},
      {"mixtral", "num_local_experts", "1", "\"moe.active\" is 2"},
      {"olmo3", "layer_types", "[\"full_attention\"]", "one for each of 2 layers"},
      {"olmo3", "sliding_window", "0", "\"sliding_window\" is 0; it must be"},
      {"gemma2", "attn_logit_softcapping", "0",
       "\"attn_logit_softcapping\" is 0; it must be a number above 0"},
      {"gemma3_text", "final_logit_softcapping", "-30", "\"final_logit_softcapping\" is -30; it must be"},
      {"gpt_oss", "num_experts_per_tok", "1", "it must be at least 2"},
      {"gpt_oss", "swiglu_limit", "-7", "\"swiglu_limit\" is -7; it must be a number above 0"},
      {"gpt_oss", "quantization_config", "{\"quant_method\": \"gptq\"}",
       "quantised by GPTQ, which is not supported"},
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(families_have_the_defaults_of_transformers),
      cmocka_unit_test(qwen_families_fix_biases_and_norms),
      cmocka_unit_test(rope_is_read_from_old_and_new_keys),
      cmocka_unit_test(a_base_that_no_layer_reads_may_be_null),
      cmocka_unit_test(token_ids_may_be_lists_or_null),
      cmocka_unit_test(an_active_sliding_window_is_kept),
      cmocka_unit_test(what_a_family_cannot_do_here_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
