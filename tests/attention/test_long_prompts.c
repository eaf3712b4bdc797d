/* Compares long prompts through the cache with passes without it. LONG prompts have more tokens than are expanded at
 * once. */
#include "small_models.h"

enum { LONG = 1100, MIDDLE = 40, SEQUENCES = 2 };

#define LATENTS                                                                                              \
  "'type': 'mla', 'kv_lora_rank': 40, 'qk_nope_head_dim': 10, 'qk_rope_head_dim': 8, 'v_head_dim': 12"

static float *long_logits(const ch_model *model, const int32_t *tokens, int64_t length, int64_t cached) {
  ch_forward_request request = {.tokens = tokens, .sequences = SEQUENCES, .length = length, .cached = cached};
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &failure));
  size_t bytes = (size_t)(SEQUENCES * length * VOCABULARY) * sizeof(float);
  float *logits = malloc(bytes);
  memcpy(logits, result.logits, bytes);
  ch_forward_result_free(&result);
  return logits;
}

static void check(const char *keys, int length) {
  ch_model *model = sized_model_of(16, 24, keys, CH_F32);
  model->config.max_position_embeddings = length;
  int32_t tokens[SEQUENCES * LONG];
  for (int i = 0; i < SEQUENCES * length; i++) tokens[i] = (i * i / 7 + i) % VOCABULARY;
  float *plain = long_logits(model, tokens, length, 0),
        *cached = long_logits(model, tokens, length, length - 3);
  double largest = 0, most = 0;
  for (int i = 0; i < SEQUENCES * length * VOCABULARY; i++) {
    largest = fmax(largest, fabs((double)plain[i]));
    most = fmax(most, fabs((double)plain[i] - (double)cached[i]));
  }
  if (!(most <= 5e-5 * largest)) fail_msg("%s: logits differ by %g of %g", keys, most, largest);
  free(plain);
  free(cached);
  ch_model_unload(model);
}

static void latents_are_expanded_span_by_span(void **state) {
  (void)state;
  check("'num_hidden_layers': 2, 'num_attention_heads': 3, 'attention': {" LATENTS "}", LONG);
}

static void gated_latents_too(void **state) {
  (void)state;
  check("'num_hidden_layers': 2, 'num_attention_heads': 3, 'attention': {" LATENTS
        ", 'gate_embedding_dim': 6}",
        LONG);
}

static void components_too(void **state) {
  (void)state;
  check("'num_hidden_layers': 2, 'num_attention_heads': 4, 'head_dim': 12, 'attention': {'type': 'gqa', "
        "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 2}}",
        LONG);
}

static void all_heads_are_made_for_a_norm_over_all(void **state) {
  (void)state;
  check("'num_hidden_layers': 2, 'num_attention_heads': 4, 'head_dim': 12, 'attention': {'type': 'gqa', "
        "'qk_norm': true, 'qk_norm_over': 'all', 'head_mix': {'on': ['k', 'v'], 'component_heads': 2}}",
        MIDDLE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(latents_are_expanded_span_by_span),
      cmocka_unit_test(gated_latents_too),
      cmocka_unit_test(components_too),
      cmocka_unit_test(all_heads_are_made_for_a_norm_over_all),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
