/* Small random models and calibration texts for the tests of compression. */
#ifndef CH_TESTS_COMPRESS_TESTING_H
#define CH_TESTS_COMPRESS_TESTING_H

#include "compress/calibration.h"
#include "small_models.h"

enum { LAYERS = 3, TEXT = 1500 };

static int32_t text[TEXT];

static inline int make_directory_and_text(void **state) {
  ch_random random;
  ch_random_seed(&random, 3, 0);
  for (int i = 0; i < TEXT; i++) /* ids must not be equally frequent */
    text[i] = (int32_t)(VOCABULARY * ch_random_uniform(&random) * ch_random_uniform(&random));
  return make_directory(state);
}

static inline ch_model *random_model(const char *sizes, const char *attention) {
  char keys[1200];
  snprintf(keys, sizeof keys, "'num_hidden_layers': %d, %s, 'attention': {%s}", LAYERS, sizes, attention);
  return model_of(keys, CH_F32);
}

static inline void unload(ch_model *model) {
  ch_model_unload(model);
}

/* Returns the numbers of a tensor whose name is given in two parts, or NULL if there is none. */
static inline float *tensor_of(const ch_model *model, const char *stem, const char *suffix) {
  char name[120];
  snprintf(name, sizeof name, "%s%s", stem, suffix);
  int row = ch_params_find(&model->params, name);
  return row < 0 ? NULL : model->weights.tensors[row].data;
}

/* Returns a view of a method's model for ch_forward. */
static inline ch_model as_model(const ch_compressed_model *compressed) {
  ch_model model = {.config = compressed->model.config, .params = compressed->model.params};
  model.weights.tensors = compressed->model.tensors;
  return model;
}

static inline ch_calibration *calibrate(const ch_model *model) {
  static const char *const names[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
  ch_calibration_options options = {.projections = names, .projection_count = 4, .drift = true, .window = 40};
  ch_calibration *calibration;
  must(ch_calibrate(model, text, TEXT, &options, &calibration, &failure));
  return calibration;
}

#endif
