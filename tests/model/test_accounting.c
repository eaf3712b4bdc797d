/* Tests accounting: figures of papers, figures of the reference cases, and formulas derived by hand. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "attention/registry.h"
#include "base/file.h"
#include "model/accounting.h"
#include "model/transformer.h"
#include "config_file/config_json.h"
#include "golden.h"

static void account(const ch_config *config, int64_t depth, ch_dtype dtype, ch_account *result) {
  ch_params params = {0};
  ch_error error = {0};
  if (ch_model_declare(config, &params, &error) != CH_OK ||
      ch_account_model(config, &params, depth, ch_cache_of(dtype), result, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_params_free(&params);
}

/* Returns the configuration of a gqa model with the given sizes. */
static ch_config sized(int64_t layers, int64_t width, int64_t heads, int64_t groups, int64_t head_dim,
                       int64_t ffn, int64_t vocabulary) {
  ch_config c;
  ch_config_defaults(&c);
  c.num_hidden_layers = layers;
  c.hidden_size = width;
  c.num_attention_heads = heads;
  c.num_key_value_heads = groups;
  c.head_dim = head_dim;
  c.intermediate_size = ffn;
  c.vocab_size = vocabulary;
  return c;
}

/* Shared matrices are expanded once, when a model is opened, so a token costs as much as in a dense model.
   Low-rank factors are not expanded. */
static void shared_matrices_cost_a_token_nothing(void **state) {
  (void)state;
  static const ch_sharing_type types[] = {CH_SHARING_MASA, CH_SHARING_SEQUENTIAL, CH_SHARING_REPEAT};
  ch_account dense, a;
  ch_config c = sized(3, 40, 6, 2, 8, 44, 73);
  account(&c, 500, CH_BF16, &dense);
  c.sharing = (ch_sharing){.atoms = 2, .projections = {"q_proj", "o_proj"}, .projection_count = 2};
  for (int i = 0; i < 3; i++) {
    c.sharing.type = types[i];
    account(&c, 500, CH_BF16, &a);
    assert_memory_equal(&a.decode, &dense.decode, sizeof a.decode);
    assert_memory_equal(&a.prefill, &dense.prefill, sizeof a.prefill);
    assert_true(a.flops.total == dense.flops.total);
  }
  c.sharing =
      (ch_sharing){.type = CH_SHARING_LOW_RANK, .rank = 5, .projections = {"q_proj"}, .projection_count = 1};
  account(&c, 500, CH_BF16, &a);
  assert_true(dense.decode.attention_projections - a.decode.attention_projections ==
              3 * 2.0 * (48 * 40 - 5 * (48 + 40)));
}

static void arithmetic_is_counted_term_by_term(void **state) {
  (void)state;
  ch_account a;
  ch_config c = sized(3, 40, 6, 2, 8, 44, 73);
  account(&c, 0, CH_BF16, &a);
  assert_true(a.flops.attention_projections == 3 * 2.0 * (2 * 6 * 8 * 40 + 2 * 2 * 8 * 40));
  assert_true(a.flops.attention_context == 0);
  assert_true(a.flops.feed_forward == 3 * 2.0 * 3 * 40 * 44);
  assert_true(a.flops.lm_head == 2.0 * 73 * 40);
  ch_config talking = c;
  ch_config_set_mechanism(&talking, "talking");
  talking.num_key_value_heads = talking.num_attention_heads;
  account(&talking, 500, CH_BF16, &a);
  assert_true(a.flops.attention_context == 3 * 2.0 * 500 * 6 * (8 + 8 + 6 + 6));
  strcpy(c.hidden_act, "gelu");
  c.tie_word_embeddings = true;
  c.attention_bias = c.attention.qk_norm = c.attention.head_norm = true;
  account(&c, 1000, CH_BF16, &a);
  assert_true(a.flops.attention_projections == 3 * 2.0 * (2 * 6 * 8 * 40 + 2 * 2 * 8 * 40));
  assert_true(a.flops.attention_context == 3 * 2.0 * 1000 * 6 * (8 + 8));
  assert_true(a.flops.feed_forward == 3 * 2.0 * 2 * 40 * 44);
  assert_true(a.flops.lm_head == 2.0 * 73 * 40);
  assert_true(a.flops.total == a.flops.attention_projections + a.flops.attention_context +
                                   a.flops.feed_forward + a.flops.lm_head);
  assert_memory_equal(&a.decode, &a.flops, sizeof a.decode); /* gqa has one form */
  assert_true(a.prefill.attention_context == a.flops.attention_context);
  assert_true(a.prefill.lm_head == a.flops.lm_head / 512); /* only the last token of a chunk has logits */
}

/* Every token of an image counts and sees all others; the head reads one. */
static void images_are_counted_whole(void **state) {
  (void)state;
  enum { L = 3, D = 40, H = 4, F = 44, C = 3, P = 4, K = 7, T = 1 + 36 };
  ch_account a;
  ch_config c;
  ch_config_defaults_for_images(&c);
  c.image_size = 24, c.patch_size = P, c.num_channels = C, c.num_classes = K;
  c.num_hidden_layers = L, c.hidden_size = D, c.intermediate_size = F;
  c.num_attention_heads = c.num_key_value_heads = H, c.head_dim = D / H;
  account(&c, 0, CH_BF16, &a);
  assert_true(a.parameters_patch == D * (C * P * P + 1) && a.parameters_position == D * (T + 1));
  assert_true(a.parameters_head == K * (D + 1) && a.parameters_attention == L * 4 * D * D);
  assert_true(a.parameters_feed_forward == L * (2 * D * F + D + F) &&
              a.parameters_norm == (2 * L + 1) * 2 * D);
  assert_true(a.parameters_embedding == a.parameters_patch + a.parameters_position + a.parameters_head);
  assert_true(a.parameters_total == a.parameters_embedding + a.parameters_attention +
                                        a.parameters_feed_forward + a.parameters_norm);
  assert_true(a.cache_elements_per_token == 0 && a.cache_bytes_per_token == 0);
  assert_true(a.flops.patches == 2.0 * 36 * D * C * P * P && a.flops.lm_head == 2.0 * K * D);
  assert_true(a.flops.attention_projections == L * T * 2.0 * 4 * D * D);
  assert_true(a.flops.attention_context == L * T * 2.0 * T * 2 * D);
  assert_true(a.flops.feed_forward == L * T * 2.0 * 2 * D * F);
  assert_true(a.flops.total == a.flops.patches + a.flops.lm_head + a.flops.attention_projections +
                                   a.flops.attention_context + a.flops.feed_forward);
}

/* Latents are expanded in training. In decoding they are compared directly. Behind a gate that adds, they are
   expanded token by token. */
static void decoding_is_counted_in_its_own_form(void **state) {
  (void)state;
  enum { L = 3, D = 40, H = 4, N = 12, R = 8, V = 10, C = 20, E = 5, DEPTH = 1000 };
  ch_account a;
  ch_config c = sized(L, D, H, H, 0, 44, 73);
  ch_config_set_mechanism(&c, "mla");
  c.attention.qk_nope_head_dim = N;
  c.attention.qk_rope_head_dim = R;
  c.attention.v_head_dim = V;
  c.attention.kv_lora_rank = C;
  account(&c, DEPTH, CH_BF16, &a);
  double projections = 2.0 * (D * H * (N + R) + D * (C + R) + C * H * (N + V) + H * V * D);
  assert_true(a.flops.attention_projections == L * projections);
  assert_true(a.flops.attention_context == L * 2.0 * DEPTH * H * (N + R + V));
  assert_true(a.decode.attention_projections == L * projections);
  assert_true(a.decode.attention_context == L * 2.0 * DEPTH * H * (C + R + C));
  c.attention.gate_embedding_dim = E;
  account(&c, DEPTH, CH_BF16, &a);
  double gated = projections + 2.0 * E * H * (N + V);
  assert_true(a.flops.attention_projections == L * gated);
  /* A gate that multiplies costs arithmetic per id, and there are 73 ids. */
  assert_true(a.decode.attention_context == L * 2.0 * H * (DEPTH * (2 * C + R) + 73 * C * (N + V)));
  c.attention.gate_op = CH_GATE_ADD;
  account(&c, DEPTH, CH_BF16, &a);
  /* A token's own gate and the moments of its norm are computed once, when the token enters the cache. */
  assert_true(a.decode.attention_projections == L * gated);
  assert_true(a.decode.attention_context == L * 2.0 * DEPTH * (H * (N + R + V) + C * H * (N + V)));
  /* A prompt's chunk of 512 expands its context once. */
  assert_true(fabs(a.prefill.attention_context -
                   L * 2.0 * DEPTH * (H * (N + R + V) + C * H * (N + V) / 512.0)) < 1e-3);
}

static void every_tensor_is_counted_where_it_belongs(void **state) {
  (void)state;
  ch_account a;
  ch_config c = sized(2, 40, 4, 2, 12, 44, 73);
  account(&c, 0, CH_BF16, &a);
  int64_t attention = 2 * (2 * 4 * 12 * 40 + 2 * 2 * 12 * 40);
  assert_int_equal(a.parameters_attention, attention);
  assert_int_equal(a.parameters_embedding, 2 * 73 * 40);
  assert_int_equal(a.parameters_total, attention + 2 * 73 * 40 + 2 * 3 * 40 * 44 + (2 * 2 + 1) * 40);
  assert_int_equal(a.parameters_active, a.parameters_total);
  assert_int_equal(a.parameters_gate_embedding, 0);
  assert_int_equal(a.parameters_feed_forward, 2 * 3 * 40 * 44);
  assert_int_equal(a.parameters_norm, (2 * 2 + 1) * 40);
  c.attention.qk_norm = c.attention.head_norm = c.attention_bias = c.tie_word_embeddings = true;
  account(&c, 0, CH_BF16, &a);
  attention += 2 * (3 * 12 + (4 + 2 + 2) * 12);
  assert_int_equal(a.parameters_attention, attention);
  assert_int_equal(a.parameters_embedding, 73 * 40);
}

static void of_experts_the_chosen_and_the_shared_count(void **state) {
  (void)state;
  ch_account a, dense;
  ch_config c = sized(5, 40, 4, 2, 12, 44, 73);
  account(&c, 0, CH_BF16, &dense);
  c.moe = (ch_moe_config){.experts = 6,
                          .renormalise = true,
                          .scale = 1,
                          .active = 2,
                          .shared = 3,
                          .expert_intermediate_size = 7,
                          .first_dense_layers = 2,
                          .balance = CH_BALANCE_LOSS_FREE,
                          .aux_coefficient = 0.01};
  account(&c, 0, CH_BF16, &a);
  int64_t expert = 3 * 40 * 7, rest = dense.parameters_total - 3 * (3 * 40 * 44);
  assert_int_equal(a.parameters_total, rest + 3 * ((6 + 3) * expert + 6 * 40 + 6));
  assert_int_equal(a.parameters_active, rest + 3 * ((2 + 3) * expert + 6 * 40 + 6));
  assert_true(a.flops.feed_forward == 2.0 * (2 * 3 * 40 * 44 + 3 * (5 * (double)expert + 6 * 40)));
  assert_true(a.flops.attention_projections == dense.flops.attention_projections &&
              a.flops.lm_head == dense.flops.lm_head);
}

/* In Qwen3-Next three of four layers have states of constant size, the others 2 key-value heads of 256. */
static void linear_layers_have_states_and_no_cache(void **state) {
  (void)state;
  ch_config config;
  ch_error error = {0};
  ch_text json = {0};
  ch_account a, deep;
  ch_text_puts(&json,
               "{\"model_type\": \"crosshead\", \"vocab_size\": 50, \"hidden_size\": 64, "
               "\"intermediate_size\": 8, \"num_hidden_layers\": 48, \"num_attention_heads\": 16, "
               "\"num_key_value_heads\": 2, \"head_dim\": 256, \"linear_attention\": {\"type\": \"gdn\", "
               "\"heads\": 16, \"value_heads\": 32, \"head_dim\": 128, \"value_head_dim\": 128}, "
               "\"layer_types\": [");
  for (int layer = 0; layer < 48; layer++)
    ch_text_printf(&json, "\"%s_attention\"%s", layer % 4 == 3 ? "full" : "linear", layer < 47 ? ", " : "]}");
  if (ch_config_parse(json.data, "config.json", &config, &error) != CH_OK) fail_msg("%s", error.message);
  account(&config, 0, CH_BF16, &a);
  account(&config, 1000, CH_BF16, &deep);
  assert_int_equal(a.cache_elements_per_token, 12288);
  assert_int_equal(a.state_elements_per_sequence, 19759104);
  assert_int_equal(deep.cache_elements_at_depth, 12288000);
  /* Costs that do not depend on the depth: matrices and convolutions, and three multiply-adds per element of a
     state. */
  const double keys = 16 * 128, values = 32 * 128,
               linear = 64 * (2 * keys + 3 * values + 2 * 32) + 4 * (2 * keys + values) + 3 * 32 * 128 * 128,
               full = 64 * (2 * 16 * 256 + 2 * 2 * 256);
  assert_true(a.flops.attention_projections == 2 * (36 * linear + 12 * full));
  assert_true(deep.flops.attention_projections == a.flops.attention_projections);
  assert_true(deep.flops.attention_context == 2.0 * 12 * 1000 * 2 * 16 * 256);
  ch_text_free(&json);
}

static void check_case(const char *name) {
  char place[600];
  snprintf(place, sizeof place, SHARED_DATA "/vectors/%s", name);
  char *path = ch_path_join(place, "info.json"), *text;
  ch_config config;
  ch_error error = {0};
  ch_account a;
  if (ch_config_read(place, &config, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(ch_read_file(path, 1 << 20, &text, NULL, &error), CH_OK);
  account(&config, 0, CH_BF16, &a);
  json_t *root = json_loads(text, 0, NULL), *figures = json_object_get(root, "figures"), *value;
  json_object_update(figures, json_object_get(root, "figures_proposed"));
  const char *key;
  const struct {
    const char *key;
    int64_t value;
  } ours[] = {{"parameters_total", a.parameters_total},
              {"parameters_attention", a.parameters_attention},
              {"parameters_embedding", a.parameters_embedding},
              {"parameters_gate_embedding", a.parameters_gate_embedding},
              {"parameters_active", a.parameters_active},
              {"cache_elements_per_token", a.cache_elements_per_token},
              {"state_elements_per_sequence", a.state_elements_per_sequence},
              {"total_effective_rank", a.total_effective_rank},
              {"shared_latent_dim", a.shared_latent_dim}};
  assert_true(json_object_size(figures) > 0);
  json_object_foreach(figures, key, value) {
    size_t i = 0;
    while (i < sizeof ours / sizeof *ours && strcmp(ours[i].key, key) != 0) i++;
    if (i == sizeof ours / sizeof *ours) fail_msg("%s has a figure %s that is not counted", name, key);
    if (ours[i].value != json_integer_value(value))
      fail_msg("%s: %s is %lld where %lld is right", name, key, (long long)ours[i].value,
               (long long)json_integer_value(value));
  }
  json_decref(root);
  free(text);
  free(path);
}

static void reference_cases_have_their_figures(void **state) {
  (void)state;
  DIR *directory = opendir(SHARED_DATA "/vectors");
  if (!directory) {
    print_message("no shared vectors beside the checkout: their figures are not compared\n");
    skip();
  }
  int cases = 0;
  for (struct dirent *entry; (entry = readdir(directory));) {
    char file[700];
    snprintf(file, sizeof file, SHARED_DATA "/vectors/%s/info.json", entry->d_name);
    if (entry->d_name[0] == '.' || !ch_is_file(file) || golden_case_is_pending(entry->d_name)) continue;
    check_case(entry->d_name);
    cases++;
  }
  closedir(directory);
  print_message("%d cases\n", cases);
  assert_true(cases > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shared_matrices_cost_a_token_nothing),
      cmocka_unit_test(arithmetic_is_counted_term_by_term),
      cmocka_unit_test(images_are_counted_whole),
      cmocka_unit_test(decoding_is_counted_in_its_own_form),
      cmocka_unit_test(every_tensor_is_counted_where_it_belongs),
      cmocka_unit_test(of_experts_the_chosen_and_the_shared_count),
      cmocka_unit_test(linear_layers_have_states_and_no_cache),
      cmocka_unit_test(reference_cases_have_their_figures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
