/* Draws random weights into memory that the model owns. */
#include "bench/random_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "infer/api.h"
#include "model/transformer.h"
#include "io/model_files.h"
#include "tensor/kernels.h"
#include "train/initialise.h"

/* Returns the type of a tensor. As in opened model files, tensors with `always_real`, such as vectors, are F32. */
static ch_dtype stored_dtype(const ch_param *row, ch_dtype dtype) {
  return row->always_real ? CH_F32 : dtype;
}

static ch_status place_tensors(const ch_params *params, ch_dtype dtype, ch_weights *weights,
                               ch_error *error) {
  weights->tensors = calloc((size_t)params->count + 1, sizeof *weights->tensors);
  for (int i = 0; i < params->count; i++)
    weights->owned_bytes += ch_param_place_bytes(&params->rows[i], stored_dtype(&params->rows[i], dtype));
  weights->owned = ch_pages_alloc(weights->owned_bytes);
  if (!weights->tensors || !weights->owned)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for random weights of %zu bytes", weights->owned_bytes);
  char *place = weights->owned;
  for (int i = 0; i < params->count; i++) {
    const ch_param *row = &params->rows[i];
    ch_tensor *tensor = &weights->tensors[i];
    *tensor = (ch_tensor){.dtype = stored_dtype(row, dtype), .rank = row->rank, .data = place};
    memcpy(tensor->shape, row->shape, sizeof tensor->shape);
    place += ch_param_place_bytes(row, tensor->dtype);
  }
  return CH_OK;
}

/* Fills tensors with initial values in F32. 16-bit tensors are rounded from them. */
static ch_status fill_tensors(const ch_params *params, uint64_t seed, ch_dtype dtype, ch_weights *weights,
                              ch_error *error) {
  if (dtype == CH_F32) {
    ch_initialise(params, seed, weights->tensors);
    return CH_OK;
  }
  ch_weights wide = {0};
  ch_status status = place_tensors(params, CH_F32, &wide, error);
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  if (status == CH_OK) {
    ch_initialise(params, seed, wide.tensors);
    for (int i = 0; i < params->count; i++)
      kernels->convert_to(ch_team_here(), ch_param_count(&params->rows[i]), wide.tensors[i].data,
                          weights->tensors[i].dtype, weights->tensors[i].data);
  }
  ch_weights_close(&wide);
  return status;
}

/* Fills a model. The tensors at the path `stored`, if it is not NULL, give shapes that the configuration leaves
 * open. */
static ch_status fill_model(const char *stored, ch_dtype dtype, uint64_t seed, ch_model *model,
                            ch_error *error) {
  if (stored)
    CH_TRY(ch_model_declare_stored(stored, &model->config, &model->params, error));
  else
    CH_TRY(ch_model_declare(&model->config, &model->params, error));
  CH_TRY(place_tensors(&model->params, dtype, &model->weights, error));
  return fill_tensors(&model->params, seed, dtype, &model->weights, error);
}

static ch_status make_model(const char *name, const char *stored, const ch_config *config, ch_dtype dtype,
                            uint64_t seed, ch_model **result, ch_error *error) {
  *result = NULL;
  ch_model *model = calloc(1, sizeof *model);
  if (model) model->directory = strdup(name);
  ch_status status = CH_OK;
  if (!model || !model->directory) status = ch_no_memory(error);
  if (status == CH_OK) {
    model->config = *config;
    status = fill_model(stored, dtype, seed, model, error);
  }
  if (status == CH_OK)
    *result = model;
  else
    ch_model_unload(model);
  return status;
}

ch_status ch_model_random(const char *path, ch_dtype dtype, uint64_t seed, ch_model **result,
                          ch_error *error) {
  ch_config config;
  *result = NULL;
  CH_TRY(ch_config_read_stored(path, &config, error));
  return make_model(path, path, &config, dtype, seed, result, error);
}

ch_status ch_model_random_of(const ch_config *config, ch_dtype dtype, uint64_t seed, ch_model **result,
                             ch_error *error) {
  return make_model("a random model", NULL, config, dtype, seed, result, error);
}
