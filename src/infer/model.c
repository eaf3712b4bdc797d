/* Opening a model directory. */
#include "infer/model.h"
#include "model/transformer.h"

#include <stdlib.h>
#include <string.h>

ch_status ch_model_load(const char *directory, ch_weights_mode mode, ch_model **result, ch_error *error) {
  *result = NULL;
  ch_model *model = calloc(1, sizeof *model);
  if (!model) return ch_fail(error, CH_ERROR_MEMORY, "no memory to open %s", directory);
  ch_status status = CH_OK;
  model->directory = strdup(directory);
  if (!model->directory) status = ch_fail(error, CH_ERROR_MEMORY, "no memory to open %s", directory);
  if (status == CH_OK) status = ch_config_read(directory, &model->config, error);
  if (status == CH_OK) status = ch_model_declare_stored(directory, &model->config, &model->params, error);
  if (status == CH_OK)
    status = ch_weights_open(directory, &model->config, &model->params, mode, &model->weights, error);
  if (status != CH_OK) {
    ch_model_unload(model);
    return status;
  }
  *result = model;
  return CH_OK;
}

void ch_model_unload(ch_model *model) {
  if (!model) return;
  ch_weights_close(&model->weights);
  ch_params_free(&model->params);
  free(model->directory);
  free(model);
}
