/* Tests configurations of Hugging Face families with experts: DeepSeek, Qwen 3 MoE. */
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
  assert_false(c.moe.renormalise); /* transformers' default */
  read_changed(qwen3_moe, "num_experts", NULL, &c);
  assert_int_equal(c.moe.experts, 128);
  read_changed(qwen3_moe, "num_local_experts", "4", &c); /* the older name is present and has precedence */
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

/* Tests which of six layers are dense, before and after writing. */
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
                                         {"num_experts_per_tok", "1", "so its weight would always be 1"},
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

/* Tests settings for which the family has no keys. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(deepseek_configs_are_latent_attention_with_experts),
      cmocka_unit_test(deepseek_layers_may_all_be_dense),
      cmocka_unit_test(qwen3_moe_configs_are_grouped_queries_with_experts),
      cmocka_unit_test(qwen3_moe_layers_may_be_dense),
      cmocka_unit_test(what_qwen3_moe_configs_ask_for_wrongly_is_refused),
      cmocka_unit_test(a_mixture_of_another_kind_is_no_qwen3_moe),
      cmocka_unit_test(what_deepseek_configs_ask_for_wrongly_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
