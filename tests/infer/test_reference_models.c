/* Tests the logits of small models against an independent implementation (Hugging Face transformers): whole passes
 * in F32 and double, and through the cache at several splits. Also tests gradients of some models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "infer/api_forward.h"

typedef struct reference {
  ch_safetensors file;
  const ch_stored_tensor *ids, *logits;
  float largest;
} reference;

static ch_error error;

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static void open_reference(const char *directory, reference *r) {
  char path[512];
  snprintf(path, sizeof path, "%s/ref.safetensors", directory);
  must(ch_safetensors_open(path, &r->file, &error));
  r->ids = ch_safetensors_find(&r->file, "input_ids");
  r->logits = ch_safetensors_find(&r->file, "logits");
  assert_non_null(r->ids);
  assert_non_null(r->logits);
  const float *x = r->logits->tensor.data;
  r->largest = 0;
  for (int64_t i = 0; i < ch_tensor_count(&r->logits->tensor); i++)
    r->largest = fmaxf(r->largest, fabsf(x[i]));
}

/* Returns the largest difference divided by the largest logit. */
static double difference(const ch_model *model, const reference *r, int64_t cached) {
  const ch_tensor *ids = &r->ids->tensor;
  ch_forward_request request = {
      .tokens = ids->data, .sequences = ids->shape[0], .length = ids->shape[1], .cached = cached};
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &error));
  const float *expected = r->logits->tensor.data;
  double worst = 0;
  for (int64_t i = 0; i < ch_tensor_count(&r->logits->tensor); i++)
    worst = fmax(worst, fabs((double)result.logits[i] - expected[i]));
  if (cached && !model->config.sliding_window)
    assert_int_equal(result.cache_bytes_allocated,
                     (size_t)(result.cache_tokens * result.cache_elements_per_token) * sizeof(float));
  ch_forward_result_free(&result);
  return worst / r->largest;
}

static void check_model(const char *model_directory, const char *reference_directory) {
  reference r;
  open_reference(reference_directory, &r);
  static const ch_weights_mode ways[] = {CH_WEIGHTS_MAPPED, CH_WEIGHTS_F32, CH_WEIGHTS_F64};
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    ch_model *model;
    must(ch_model_load(model_directory, ways[w], &model, &error));
    assert_true(difference(model, &r, 0) < 2e-5);
    int64_t length = r.ids->tensor.shape[1];
    const int64_t splits[] = {1, length / 2, length};
    for (size_t s = 0; s < 3 && ways[w] != CH_WEIGHTS_F64; s++)
      assert_true(difference(model, &r, splits[s]) < 2e-5);
    ch_model_unload(model);
  }
  ch_safetensors_close(&r.file);
}

static void llama_with_grouped_queries(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/llama_gqa", TEST_DATA "/reference/llama_gqa");
}

static void llama3_scaled_rope(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/llama3_rope", TEST_DATA "/reference/llama3_rope");
}

static void qwen3_with_qk_norm(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/qwen3", TEST_DATA "/reference/qwen3");
}

/* Tests imported families, each with its special feature (tests/data/README.md). */
static void families_in_our_words(void **state) {
  (void)state;
  static const char *const names[] = {
      "olmo2",      "phi3", "gpt2",    "granite",     "smollm3", "seed_oss", "stablelm", "stablelm_parallel",
      "starcoder2", "glm4", "mixtral", "gemma3_text", "olmo3"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/reference/%s", TEST_DATA, names[i]);
    check_model(path, path);
  }
}

/* Checks the gradients of some tensors against those in the reference file. */
static void check_gradients(const char *directory) {
  reference r;
  ch_model *model;
  ch_forward_result result;
  open_reference(directory, &r);
  must(ch_model_load(directory, CH_WEIGHTS_F32, &model, &error));
  ch_forward_request request = {.tokens = r.ids->tensor.data,
                                .sequences = r.ids->tensor.shape[0],
                                .length = r.ids->tensor.shape[1],
                                .gradients = true};
  must(ch_forward(model, &request, &result, &error));
  int compared = 0;
  for (int i = 0; i < model->params.count; i++) {
    char name[128];
    snprintf(name, sizeof name, "grad.%s", model->params.rows[i].name);
    const ch_stored_tensor *stored = ch_safetensors_find(&r.file, name);
    if (!stored) continue;
    const float *expected = stored->tensor.data, *got = result.gradients[i].data;
    double worst = 0, largest = 0;
    for (int64_t k = 0; k < ch_tensor_count(&stored->tensor); k++) {
      worst = fmax(worst, fabs((double)got[k] - expected[k]));
      largest = fmax(largest, fabs((double)expected[k]));
    }
    assert_true(largest > 0 && worst < 1e-5 * largest);
    compared++;
  }
  assert_true(compared >= 3);
  ch_forward_result_free(&result);
  ch_model_unload(model);
  ch_safetensors_close(&r.file);
}

/* Tests windows, soft caps, sinks, clamps, biases and LongRoPE, with gradients. */
static void families_with_windows_and_caps(void **state) {
  (void)state;
  static const char *const names[] = {"gpt_oss",       "gemma2",         "gemma3_windows",  "olmo3_windows",
                                      "phi3_longrope", "phi3_shortrope", "smollm3_windows", "mistral_windows",
                                      "qwen2_windows", "llama_mlp_bias"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/reference/%s", TEST_DATA, names[i]);
    check_model(path, path);
    check_gradients(path);
  }
}

static void experts_in_mxfp4(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/gpt_oss_mxfp4", TEST_DATA "/reference/gpt_oss_mxfp4");
}

static void qwen3_with_experts(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/qwen3_moe", TEST_DATA "/reference/qwen3_moe");
}

/* Every second layer has experts, and their weights are not renormalised. */
static void qwen3_with_experts_in_some_layers(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/qwen3_moe_dense", TEST_DATA "/reference/qwen3_moe_dense");
  check_gradients(TEST_DATA "/reference/qwen3_moe_dense");
}

/* Tests latents, interleaved RoPE with YaRN, and a softmax over experts in groups. */
static void deepseek_v2_with_grouped_experts(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/deepseek_v2", TEST_DATA "/reference/deepseek_v2");
  check_gradients(TEST_DATA "/reference/deepseek_v2");
}

/* Tests a factored query, sigmoids and a corrected choice of experts. */
static void deepseek_v3_with_corrected_choice(void **state) {
  (void)state;
  check_model(TEST_DATA "/reference/deepseek_v3", TEST_DATA "/reference/deepseek_v3");
  check_gradients(TEST_DATA "/reference/deepseek_v3");
}

static void check_shared(const char *model_directory, const char *reference_directory) {
  if (!ch_is_directory(reference_directory)) {
    print_message("%s is not there: skipped\n", reference_directory);
    skip();
  }
  check_model(model_directory, reference_directory);
}

static void deepseek_v2_without_experts(void **state) {
  (void)state;
  check_shared(SHARED_DATA "/data/reference/deepseek_v2_mla", SHARED_DATA "/data/reference/deepseek_v2_mla");
}

static void trained_llama(void **state) {
  (void)state;
  check_shared(TEST_DATA "/TinyStories-656K", SHARED_DATA "/data/reference/TinyStories-656K");
}

static void trained_qwen3_in_bf16(void **state) {
  (void)state;
  check_shared(SHARED_DATA "/data/models/stories-qwen3-12L", SHARED_DATA "/data/reference/stories-qwen3-12L");
}

static void trained_llama2c_model(void **state) {
  (void)state;
  check_shared(SHARED_DATA "/data/reference/stories260K", SHARED_DATA "/data/reference/stories260K");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(llama_with_grouped_queries),
      cmocka_unit_test(llama3_scaled_rope),
      cmocka_unit_test(qwen3_with_qk_norm),
      cmocka_unit_test(qwen3_with_experts),
      cmocka_unit_test(qwen3_with_experts_in_some_layers),
      cmocka_unit_test(families_in_our_words),
      cmocka_unit_test(families_with_windows_and_caps),
      cmocka_unit_test(experts_in_mxfp4),
      cmocka_unit_test(trained_llama),
      cmocka_unit_test(deepseek_v2_with_grouped_experts),
      cmocka_unit_test(deepseek_v3_with_corrected_choice),
      cmocka_unit_test(deepseek_v2_without_experts),
      cmocka_unit_test(trained_qwen3_in_bf16),
      cmocka_unit_test(trained_llama2c_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
