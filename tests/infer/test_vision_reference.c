/* Tests a small Vision Transformer against an independent implementation (Hugging Face transformers). Its
 * directory is opened unchanged; logits, loss and the gradients of every tensor are compared. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "infer/api_forward.h"
#include "io/tensor_names.h"

#define DIRECTORY SHARED_DATA "/data/reference/vit_cifar"

static ch_error error;

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

typedef struct reference {
  ch_safetensors values, gradients;
  const float *pixels, *logits;
  const int32_t *labels;
  int64_t images, classes;
} reference;

static void open_reference(reference *r) {
  must(ch_safetensors_open(DIRECTORY "/ref.safetensors", &r->values, &error));
  must(ch_safetensors_open(DIRECTORY "/grads.safetensors", &r->gradients, &error));
  const ch_stored_tensor *logits = ch_safetensors_find(&r->values, "logits");
  r->pixels = ch_safetensors_find(&r->values, "pixel_values")->tensor.data;
  r->labels = ch_safetensors_find(&r->values, "labels")->tensor.data;
  r->logits = logits->tensor.data;
  r->images = logits->tensor.shape[0];
  r->classes = logits->tensor.shape[1];
}

static void close_reference(reference *r) {
  ch_safetensors_close(&r->values);
  ch_safetensors_close(&r->gradients);
}

static double value_at(const ch_tensor *tensor, int64_t i) {
  return tensor->dtype == CH_F64 ? ((const double *)tensor->data)[i]
                                 : (double)((const float *)tensor->data)[i];
}

static void compare_logits(const reference *r, const ch_forward_result *result) {
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < r->images * r->classes; i++) {
    worst = fmax(worst, fabs((double)result->logits[i] - (double)r->logits[i]));
    largest = fmax(largest, fabs((double)r->logits[i]));
  }
  if (!(worst <= 2e-5 * largest)) fail_msg("logits differ by %.2g of the largest", worst / largest);
}

/* Checks that the model has the gradients of the reference, and no others. */
static void compare_gradients(const reference *r, const ch_model *model, const ch_forward_result *result) {
  assert_int_equal(r->gradients.count, model->params.count);
  for (int64_t g = 0; g < r->gradients.count; g++) {
    const ch_stored_tensor *theirs = &r->gradients.tensors[g];
    char buffer[CH_TENSOR_NAME_SIZE];
    const char *name = ch_tensor_name_of_vit(theirs->name, buffer);
    int row = ch_params_find(&model->params, name ? name : theirs->name);
    if (row < 0) fail_msg("%s is none of our tensors", theirs->name);
    const ch_gradient *gradient = &result->gradients[row];
    assert_string_equal(gradient->name, model->params.rows[row].name);
    ch_tensor ours = {.dtype = gradient->type == CH_PRECISION_F64 ? CH_F64 : CH_F32,
                      .rank = gradient->rank,
                      .data = (void *)(uintptr_t)gradient->data};
    memcpy(ours.shape, gradient->shape, sizeof ours.shape);
    assert_int_equal(ch_tensor_count(&ours), ch_tensor_count(&theirs->tensor));
    /* A bias of keys shifts all scores equally, so its gradient is only rounding. */
    double worst = 0, largest = 1e-3;
    for (int64_t i = 0; i < ch_tensor_count(&ours); i++) {
      worst = fmax(worst, fabs(value_at(&ours, i) - value_at(&theirs->tensor, i)));
      largest = fmax(largest, fabs(value_at(&theirs->tensor, i)));
    }
    if (!(worst <= 1e-4 * largest))
      fail_msg("%s: gradients differ by %.2g of the largest", theirs->name, worst / largest);
  }
}

static void check(ch_weights_mode mode, bool gradients) {
  reference r;
  ch_model *model;
  ch_forward_result result;
  open_reference(&r);
  must(ch_model_load(DIRECTORY, mode, &model, &error));
  assert_string_equal(model->config.model_type, "crosshead_vit");
  ch_forward_request request = {
      .pixels = r.pixels, .labels = r.labels, .sequences = r.images, .length = 1, .gradients = gradients};
  must(ch_forward(model, &request, &result, &error));
  compare_logits(&r, &result);
  assert_true(fabs(result.loss - 3.338477611541748) < 1e-5);
  if (gradients) compare_gradients(&r, model, &result);
  ch_forward_result_free(&result);
  ch_model_unload(model);
  close_reference(&r);
}

static void a_hugging_face_vit_says_the_same_with_the_same_gradients(void **state) {
  (void)state;
  if (!ch_is_directory(DIRECTORY)) {
    print_message("%s is not there: skipped\n", DIRECTORY);
    skip();
  }
  check(CH_WEIGHTS_MAPPED, false);
  check(CH_WEIGHTS_F32, true);
  check(CH_WEIGHTS_F64, true);
}

static void names_of_a_vit_are_translated_or_left(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"vit.embeddings.cls_token", "model.cls_token"},
      {"vit.encoder.layer.11.attention.attention.query.weight", "model.layers.11.self_attn.q_proj.weight"},
      {"vit.encoder.layer.0.attention.output.dense.bias", "model.layers.0.self_attn.o_proj.bias"},
      {"vit.encoder.layer.3.output.dense.weight", "model.layers.3.mlp.down_proj.weight"},
      {"vit.layers.3.mlp.fc1.bias", "model.layers.3.mlp.up_proj.bias"},
      {"vit.layernorm.weight", "model.norm.weight"},
      {"vit.layers.3.mlp.fc1.scale", NULL},
      {"vit.layers.3.mlp.fc1", NULL},
      {"vit.layers.3", NULL},
      {"vit.layers.", NULL},
      {"vit.layers.1234567.mlp.fc1.bias", NULL},
      {"vit.layers.3.mlp.fc3.weight", NULL},
      {"classifier.weight", NULL},
      {"vit.pooler.dense.weight", NULL},
      {"", NULL}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char buffer[CH_TENSOR_NAME_SIZE];
    const char *name = ch_tensor_name_of_vit(pairs[i][0], buffer);
    if (!pairs[i][1])
      assert_null(name);
    else
      assert_string_equal(name, pairs[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_hugging_face_vit_says_the_same_with_the_same_gradients),
      cmocka_unit_test(names_of_a_vit_are_translated_or_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
