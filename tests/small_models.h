/* Small random models of any configuration, and their logits, for tests that one form of a model equals
 * another. */
#ifndef TESTS_SMALL_MODELS_H
#define TESTS_SMALL_MODELS_H

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
#include "base/random.h"
#include "bench/random_model.h"
#include "infer/api_forward.h"

enum { LENGTH = 11, VOCABULARY = 23 };

static ch_error failure;
static char directory[] = "/tmp/crosshead-models-XXXXXX";

static inline void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", failure.message);
}

static inline int make_directory(void **state) {
  (void)state;
  return mkdtemp(directory) ? 0 : -1;
}

static inline int remove_directory(void **state) {
  (void)state;
  static const char *const names[] = {"config.json", "model.safetensors"};
  for (int i = 0; i < 2; i++) {
    char *path = ch_path_join(directory, names[i]);
    unlink(path);
    free(path);
  }
  return rmdir(directory);
}

/* Creates a model with random weights of type `dtype`. Vectors and small parameters differ from their initial
   values, so no module is the identity. `keys` are members of the configuration besides the sizes, with ' for ". */
static inline ch_model *sized_model_of(int hidden, int intermediate, const char *keys, ch_dtype dtype) {
  char json[1600], *path = ch_path_join(directory, "config.json");
  snprintf(json, sizeof json,
           "{'model_type': 'crosshead', 'vocab_size': %d, 'hidden_size': %d, 'intermediate_size': %d,"
           " 'max_position_embeddings': 64, %s}",
           VOCABULARY, hidden, intermediate, keys);
  for (char *c = json; *c; c++)
    if (*c == '\'') *c = '"';
  must(ch_write_file(path, json, strlen(json), &failure));
  ch_model *model;
  must(ch_model_random(path, dtype, 1, &model, &failure));
  free(path);
  ch_random random;
  ch_random_seed(&random, 7, 0);
  for (int i = 0; i < model->params.count; i++) {
    const ch_tensor *tensor = &model->weights.tensors[i];
    const ch_param *row = &model->params.rows[i];
    /* Networks of coefficients get smaller changes: with large ones, logits would depend on the last bits. */
    double most = row->training_only ? 0.1 : 0.6;
    for (int64_t k = 0; tensor->dtype == CH_F32 && k < ch_param_count(row); k++)
      ((float *)tensor->data)[k] += (float)(most * (ch_random_uniform(&random) - 0.5));
  }
  return model;
}

static inline ch_model *model_of(const char *keys, ch_dtype dtype) {
  return sized_model_of(24, 20, keys, dtype);
}

/* Computes logits. `cached` tokens are prefilled before the others are decoded; 0: all at once. */
static inline void logits_of(const ch_model *model, int64_t cached, float *logits) {
  int32_t tokens[LENGTH];
  for (int t = 0; t < LENGTH; t++) tokens[t] = (t * 5 + t * t) % VOCABULARY;
  ch_forward_request request = {.tokens = tokens, .sequences = 1, .length = LENGTH, .cached = cached};
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &failure));
  memcpy(logits, result.logits, sizeof(float) * LENGTH * VOCABULARY);
  ch_forward_result_free(&result);
}

/* Checks logits, with and without the cache. They may differ by `most` times the largest logit. */
static inline void assert_says(const ch_model *model, const float *expected, double most, const char *what) {
  static const int64_t splits[] = {0, 1, 6};
  float got[LENGTH * VOCABULARY];
  for (int s = 0; s < 3; s++) {
    double worst = 0, largest = 0;
    logits_of(model, splits[s], got);
    for (int i = 0; i < LENGTH * VOCABULARY; i++) {
      worst = fmax(worst, fabs((double)got[i] - expected[i]));
      largest = fmax(largest, fabs((double)expected[i]));
    }
    if (!(worst < most * largest))
      fail_msg("%s: logits differ by %g of %g, cached %d", what, worst, largest, (int)splits[s]);
  }
}

static inline void assert_same_logits(const ch_model *model, const ch_model *other, double most,
                                      const char *what) {
  float expected[LENGTH * VOCABULARY];
  logits_of(model, 0, expected);
  assert_says(other, expected, most, what);
}

#endif
