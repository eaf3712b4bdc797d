/* Small random models and calibration for the tests of compression. */
#ifndef CH_TESTS_COMPRESS_TESTING_H
#define CH_TESTS_COMPRESS_TESTING_H

#include "base/file.h"
#include "base/random.h"
#include "compress/calibration.h"
#include "eval/random_model.h"
#include "infer/forward.h"

enum { LENGTH = 11, VOCABULARY = 23, LAYERS = 3, TEXT = 1500 };

static ch_error failure;
static char directory[] = "/tmp/crosshead-compress-XXXXXX";
static int32_t text[TEXT];

static inline void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", failure.message);
}

static inline int make_directory(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 3, 0);
  for (int i = 0; i < TEXT; i++) /* not all ids alike often */
    text[i] = (int32_t)(VOCABULARY * ch_random_uniform(&random) * ch_random_uniform(&random));
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

/* Random weights that no module starts with; quotes are single ones. */
static inline ch_model *random_model(const char *sizes, const char *attention) {
  char json[1400], *path = ch_path_join(directory, "config.json");
  snprintf(json, sizeof json,
           "{'model_type': 'crosshead', 'vocab_size': %d, 'hidden_size': 24, 'intermediate_size': 20,"
           " 'num_hidden_layers': %d, 'max_position_embeddings': 64, %s, 'attention': {%s}}",
           VOCABULARY, LAYERS, sizes, attention);
  for (char *c = json; *c; c++)
    if (*c == '\'') *c = '"';
  must(ch_write_file(path, json, strlen(json), &failure));
  ch_model *model;
  must(ch_model_random(path, CH_F32, 1, &model, &failure));
  free(path);
  ch_random random;
  ch_random_seed(&random, 7, 0);
  for (int i = 0; i < model->params.count; i++) {
    float *x = model->weights.tensors[i].data;
    for (int64_t k = 0; k < ch_param_count(&model->params.rows[i]); k++)
      x[k] += (float)(0.6 * (ch_random_uniform(&random) - 0.5));
  }
  return model;
}

static inline void unload(ch_model *model) {
  ch_model_unload(model);
}

/* The numbers of a tensor, its name given in two parts; NULL when there is none. */
static inline float *tensor_of(const ch_model *model, const char *stem, const char *suffix) {
  char name[120];
  snprintf(name, sizeof name, "%s%s", stem, suffix);
  int row = ch_params_find(&model->params, name);
  return row < 0 ? NULL : model->weights.tensors[row].data;
}

/* A view of what a method made, for ch_forward. */
static inline ch_model as_model(const ch_compressed *compressed) {
  ch_model model = {.config = compressed->model.config, .params = compressed->model.params};
  model.weights.tensors = compressed->model.tensors;
  return model;
}

static inline void logits_of(const ch_model *model, int64_t cached, float *logits) {
  int32_t tokens[LENGTH];
  for (int t = 0; t < LENGTH; t++) tokens[t] = (t * 5 + t * t) % VOCABULARY;
  ch_forward_request request = {
      .tokens = tokens, .sequences = 1, .length = LENGTH, .dtype = CH_F32, .cached = cached};
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &failure));
  memcpy(logits, result.logits, sizeof(float) * LENGTH * VOCABULARY);
  ch_forward_result_free(&result);
}

/* Plain, and through the cache. */
static inline void assert_same_logits(const ch_model *model, const ch_model *other, double most,
                                      const char *what) {
  static const int64_t splits[] = {0, 1, 6};
  float expected[LENGTH * VOCABULARY], got[LENGTH * VOCABULARY];
  logits_of(model, 0, expected);
  for (int s = 0; s < 3; s++) {
    double worst = 0, largest = 0;
    logits_of(other, splits[s], got);
    for (int i = 0; i < LENGTH * VOCABULARY; i++) {
      worst = fmax(worst, fabs((double)got[i] - expected[i]));
      largest = fmax(largest, fabs((double)expected[i]));
    }
    if (!(worst < most * largest))
      fail_msg("%s: logits differ by %g of %g, cached %d", what, worst, largest, (int)splits[s]);
  }
}

static inline ch_calibration *calibrate(const ch_model *model) {
  static const char *const names[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
  ch_calibration_options options = {.projections = names, .projection_count = 4, .drift = true, .window = 40};
  ch_calibration *calibration;
  must(ch_calibrate(model, text, TEXT, &options, &calibration, &failure));
  return calibration;
}

#endif
