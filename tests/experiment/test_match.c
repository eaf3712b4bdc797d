/* Tests the FFN widths that make models equal, with counts by hand as the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include "experiment/lineup/match_size.h"
#include "experiment/lineup/comparison_plan.h"
#include "experiment/lineup/presets.h"

/* Returns the number of parameters of a grouped-query transformer, counted without the library. */
static int64_t by_hand(const ch_config *c) {
  int64_t d = c->hidden_size, heads = c->num_attention_heads * c->head_dim,
          keys = c->num_key_value_heads * c->head_dim;
  int64_t matrices = strcmp(c->hidden_act, "silu") == 0 ? 3 : 2;
  int64_t block = 2 * heads * d + 2 * keys * d + matrices * c->intermediate_size * d + 2 * d;
  if (c->attention_bias) block += heads + 2 * keys;
  if (c->attention.qk_norm) block += 2 * c->head_dim;
  if (c->attention.head_norm) block += c->head_dim;
  return (c->tie_word_embeddings ? 1 : 2) * c->vocab_size * d + c->num_hidden_layers * block + d;
}

static void counts_agree_within_half_a_percent_for_many_sizes(void **state) {
  (void)state;
  const char *names[] = {"mha", "gqa", "gqa:4", "mqa"};
  for (double params = 100e3; params < 1e9; params *= 1.23) {
    int64_t target = (int64_t)params, parameters[4];
    ch_config configs[4];
    ch_error error = {0};
    ch_shape_wishes wishes = {.params = target, .vocab = ch_base_vocabulary(target, 1 << 30), .context = 256};
    for (int i = 0; i < 4; i++) {
      assert_int_equal(ch_base_shape(&wishes, &configs[i], &error), CH_OK);
      assert_int_equal(ch_preset_apply(names[i], &configs[i], &error), CH_OK);
    }
    if (ch_match_parameters(configs, names, 4, CH_COUNT_ALL, target, parameters, &error) != CH_OK)
      fail_msg("%lld: %s", (long long)target, error.message);
    for (int i = 0; i < 4; i++) {
      assert_int_equal(parameters[i], by_hand(&configs[i]));
      double away = (double)(parameters[i] - target) / (double)target;
      assert_true(away < 0.005 && away > -0.005);
      for (int j = 0; j < i; j++) {
        double difference = (double)(parameters[i] - parameters[j]) / (double)parameters[j];
        assert_true(difference <= 0.005 && difference >= -0.005);
      }
    }
    /* Fewer keys and values leave more for the FFN. */
    assert_true(configs[0].intermediate_size < configs[2].intermediate_size);
    assert_true(configs[2].intermediate_size < configs[3].intermediate_size);
  }
}

static void every_tensor_is_counted(void **state) {
  (void)state;
  ch_config config;
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = 2000000, .vocab = 777, .context = 64};
  assert_int_equal(ch_base_shape(&wishes, &config, &error), CH_OK);
  for (int variant = 0; variant < 32; variant++) {
    int64_t count;
    config.tie_word_embeddings = variant & 1;
    config.attention_bias = variant & 2;
    config.attention.qk_norm = variant & 4;
    config.attention.head_norm = variant & 8;
    strcpy(config.hidden_act, variant & 16 ? "gelu" : "silu");
    assert_int_equal(ch_count_parameters(&config, CH_COUNT_ALL, &count, &error), CH_OK);
    assert_int_equal(count, by_hand(&config));
  }
}

static void different_shapes_are_matched_too(void **state) {
  (void)state;
  const char *names[] = {"deep", "wide"};
  ch_config configs[2];
  int64_t parameters[2];
  ch_error error = {0};
  ch_shape_wishes deep = {.params = 4000000, .vocab = 1000, .layers = 12, .hidden = 128, .context = 64};
  ch_shape_wishes wide = {.params = 4000000, .vocab = 1000, .layers = 3, .hidden = 320, .context = 64};
  assert_int_equal(ch_base_shape(&deep, &configs[0], &error), CH_OK);
  assert_int_equal(ch_base_shape(&wide, &configs[1], &error), CH_OK);
  configs[1].tie_word_embeddings = false;
  strcpy(configs[1].hidden_act, "gelu");
  assert_int_equal(ch_match_parameters(configs, names, 2, CH_COUNT_ALL, 4000000, parameters, &error), CH_OK);
  assert_int_equal(parameters[0], by_hand(&configs[0]));
  assert_int_equal(parameters[1], by_hand(&configs[1]));
  assert_in_range(parameters[0], 3980000, 4020000);
  assert_in_range(parameters[1], 3980000, 4020000);
}

static void tables_and_idle_experts_need_not_count(void **state) {
  (void)state;
  const char *names[] = {"mla", "egmla", "experts"};
  ch_config configs[3];
  int64_t parameters[3], total[3];
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = 3000000, .vocab = 4000, .context = 256};
  for (int i = 0; i < 3; i++) assert_int_equal(ch_base_shape(&wishes, &configs[i], &error), CH_OK);
  assert_int_equal(ch_preset_apply("mla", &configs[0], &error), CH_OK);
  assert_int_equal(ch_preset_apply("egmla", &configs[1], &error), CH_OK);
  configs[2].moe =
      (ch_moe_config){.experts = 8, .active = 2, .expert_intermediate_size = 1, .balance = CH_BALANCE_NONE};
  assert_int_equal(ch_match_parameters(configs, names, 3, CH_COUNT_ACTIVE, 3000000, parameters, &error),
                   CH_OK);
  for (int i = 0; i < 3; i++) {
    assert_true(parameters[i] > 2985000 && parameters[i] < 3015000);
    assert_int_equal(ch_count_parameters(&configs[i], CH_COUNT_ALL, &total[i], &error), CH_OK);
  }
  int64_t tables = configs[1].num_hidden_layers * 4000 * configs[1].attention.gate_embedding_dim;
  int64_t expert = 3 * configs[2].hidden_size * configs[2].moe.expert_intermediate_size;
  assert_true(tables > 100000);
  assert_int_equal(total[0], parameters[0]);
  assert_int_equal(total[1], parameters[1] + tables);
  assert_int_equal(total[2], parameters[2] + configs[2].num_hidden_layers * 6 * expert);
}

/* Returns the FLOPs of a token: of products with weights, and of scores and weighted values for `depth` tokens. */
static int64_t flops_by_hand(const ch_config *c, int64_t depth) {
  int64_t d = c->hidden_size, heads = c->num_attention_heads * c->head_dim,
          keys = c->num_key_value_heads * c->head_dim;
  int64_t layer = 2 * (2 * heads * d + 2 * keys * d + 3 * c->intermediate_size * d) + 4 * heads * depth;
  return c->num_hidden_layers * layer + 2 * c->vocab_size * d;
}

static void flops_are_matched_at_the_training_length(void **state) {
  (void)state;
  const char *names[] = {"gqa", "mqa", "mla"};
  ch_config configs[3], first;
  int64_t target, flops;
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = 3000000, .vocab = 4000, .context = 256};
  assert_int_equal(ch_base_shape(&wishes, &first, &error), CH_OK);
  assert_int_equal(ch_count_flops(&first, 256, &target, &error), CH_OK);
  assert_int_equal(target, flops_by_hand(&first, 256));
  for (int i = 0; i < 3; i++) {
    configs[i] = first;
    assert_int_equal(ch_preset_apply(names[i], &configs[i], &error), CH_OK);
  }
  if (ch_match_flops(configs, names, 3, 256, target, &error) != CH_OK) fail_msg("%s", error.message);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(ch_count_flops(&configs[i], 256, &flops, &error), CH_OK);
    assert_true(llabs(flops - target) <= 0.005 * (double)target);
    if (i < 2) assert_int_equal(flops, flops_by_hand(&configs[i], 256));
  }
  assert_true(configs[1].intermediate_size > configs[0].intermediate_size);
  assert_true(configs[0].intermediate_size > first.intermediate_size);
  assert_int_equal(ch_match_flops(configs, names, 3, 256, target / 20, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "FLOPs per token"));
}

static void what_cannot_match_is_said(void **state) {
  (void)state;
  const char *names[] = {"mha"};
  ch_config config;
  int64_t parameters;
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = 4000000, .vocab = 1000, .layers = 4, .hidden = 256, .context = 64};
  assert_int_equal(ch_base_shape(&wishes, &config, &error), CH_OK);
  assert_int_equal(ch_match_parameters(&config, names, 1, CH_COUNT_ALL, 1000000, &parameters, &error),
                   CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "mha has 1.3 M parameters even with an FFN of width 1"));
  /* One column of the FFN in every layer is a large part of a model that is deep and otherwise slim. */
  int64_t least;
  config.vocab_size = 4;
  config.num_hidden_layers = 400;
  config.head_dim = 2;
  config.num_attention_heads = config.num_key_value_heads = 1;
  config.intermediate_size = 1;
  assert_int_equal(ch_count_parameters(&config, CH_COUNT_ALL, &least, &error), CH_OK);
  int64_t column = 3 * 256 * 400;
  assert_int_equal(
      ch_match_parameters(&config, names, 1, CH_COUNT_ALL, least + column / 2, &parameters, &error),
      CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "counts must agree within 0.5 %; raise parameters"));
}

/* Tests mixtures of experts by name: with equal parameters, with equal active parameters, and with active experts that
   together have the first model's width. */
static void named_mixtures_are_matched_like_others(void **state) {
  (void)state;
  static const ch_match matches[] = {CH_MATCH_PARAMETERS, CH_MATCH_ACTIVE, CH_MATCH_NONE};
  for (int m = 0; m < 3; m++) {
    ch_compare_plan plan;
    ch_error error = {0};
    ch_shape_wishes wishes = {.params = 2000000, .match = matches[m], .vocab = 512, .context = 64};
    assert_int_equal(ch_compare_plan_names("gqa,kha-mlp+moe,mfa+masa-qkvo+moe:16", &plan, &error), CH_OK);
    if (ch_compare_plan_shapes(&plan, &wishes, 2000000, &error) != CH_OK) fail_msg("%s", error.message);
    ch_count_kind counted = matches[m] == CH_MATCH_ACTIVE ? CH_COUNT_ACTIVE : CH_COUNT_ALL;
    int64_t first, other;
    ch_count_parameters(&plan.models[0].config, counted, &first, &error);
    for (int i = 1; i < plan.count; i++) {
      const ch_config *c = &plan.models[i].config;
      ch_count_parameters(c, counted, &other, &error);
      if (matches[m] == CH_MATCH_NONE)
        assert_int_equal(c->moe.expert_intermediate_size,
                         plan.models[0].config.intermediate_size / c->moe.active);
      else
        assert_true(fabs((double)other / (double)first - 1) <= CH_MATCH_TOLERANCE);
    }
    assert_string_equal(plan.models[1].directory, "kha-mlp-moe");
    ch_compare_plan_free(&plan);
  }
}

static void a_mixture_is_matched_by_the_width_of_its_experts(void **state) {
  (void)state;
  ch_config configs[2];
  int64_t parameters[2];
  ch_error error = {0};
  ch_shape_wishes wishes = {.params = 3000000, .vocab = 1000, .context = 256};
  for (int i = 0; i < 2; i++) assert_int_equal(ch_base_shape(&wishes, &configs[i], &error), CH_OK);
  configs[1].moe.experts = 4;
  configs[1].moe.active = 2;
  configs[1].moe.expert_intermediate_size = 1;
  int64_t dense_width = configs[1].intermediate_size;
  assert_int_equal(ch_match_parameters(configs, (const char *const[]){"dense", "mixture"}, 2, CH_COUNT_ALL,
                                       3000000, parameters, &error),
                   CH_OK);
  assert_int_equal(configs[1].intermediate_size, dense_width);
  assert_int_equal(ch_matched_width(&configs[1]), configs[1].moe.expert_intermediate_size);
  assert_int_equal(ch_matched_width(&configs[0]), configs[0].intermediate_size);
  int64_t experts =
      3 * configs[1].hidden_size * configs[1].num_hidden_layers * 4 * configs[1].moe.expert_intermediate_size;
  int64_t ffn = 3 * configs[0].hidden_size * configs[0].num_hidden_layers * configs[0].intermediate_size;
  int64_t routers = 4 * configs[1].hidden_size * configs[1].num_hidden_layers;
  assert_int_equal(parameters[1] - parameters[0], experts + routers - ffn);
  /* One more column in 64 experts is 5 % of the model, so the dense model is matched to the mixture's count. */
  configs[1].moe.experts = 64;
  assert_int_equal(ch_match_parameters(configs, (const char *const[]){"dense", "mixture"}, 2, CH_COUNT_ALL,
                                       3000000, parameters, &error),
                   CH_OK);
  assert_true(llabs(parameters[1] - 3000000) > 0.005 * 3000000);
  assert_true(llabs(parameters[1] - parameters[0]) < 0.005 * 3000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_agree_within_half_a_percent_for_many_sizes),
      cmocka_unit_test(every_tensor_is_counted),
      cmocka_unit_test(different_shapes_are_matched_too),
      cmocka_unit_test(tables_and_idle_experts_need_not_count),
      cmocka_unit_test(flops_are_matched_at_the_training_length),
      cmocka_unit_test(what_cannot_match_is_said),
      cmocka_unit_test(named_mixtures_are_matched_like_others),
      cmocka_unit_test(a_mixture_is_matched_by_the_width_of_its_experts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
