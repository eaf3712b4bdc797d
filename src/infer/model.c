/* Opens a model directory for inference: configuration, parameter table, weights. The tokenizer is opened by
   api.c. */
#include "infer/model.h"
#include "base/memory.h"
#include "config_file/config_json.h"
#include "text/hash.h"

#include <stdlib.h>
#include <string.h>

ch_status ch_model_load(const char *directory, ch_weights_mode mode, ch_model **result, ch_error *error) {
  *result = NULL;
  ch_model *model = calloc(1, sizeof *model);
  if (!model) return ch_no_memory(error);
  ch_status status = CH_OK;
  model->directory = strdup(directory);
  if (!model->directory) status = ch_no_memory(error);
  if (status == CH_OK) status = ch_config_read_stored(directory, &model->config, error);
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

ch_status ch_model_materialise(ch_model *model, ch_materialise_for form, ch_error *error) {
  if (!ch_materialise_changes(&model->config, &model->params, form)) return CH_OK;
  if (model->materialised)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s has already been converted to another form; open it again",
                   model->directory);
  ch_materialised_model to;
  CH_TRY(ch_materialise(&model->config, &model->params, model->weights.tensors, form, &to, error));
  ch_params_free(&model->params);
  free(model->weights.tensors);
  model->config = to.config;
  model->params = to.params;
  model->weights.tensors = to.tensors;
  model->materialised = to.data;
  model->materialised_bytes = to.data_bytes;
  return CH_OK;
}

void ch_model_unload(ch_model *model) {
  if (!model) return;
  ch_pages_free(model->materialised, model->materialised_bytes);
  ch_weights_close(&model->weights);
  ch_params_free(&model->params);
  free(model->directory);
  free(model);
}

uint64_t ch_model_hash(const ch_model *model) {
  uint64_t hash = (uint64_t)model->params.count;
  for (int i = 0; i < model->params.count; i++) {
    const ch_tensor *tensor = &model->weights.tensors[i];
    size_t bytes = ch_tensor_bytes(tensor), some = bytes < 4096 ? bytes : 4096;
    hash = ch_hash_mix(hash ^ ch_hash_bytes(tensor->data, some, (uint64_t)tensor->dtype), bytes + 1);
  }
  return hash;
}

int64_t ch_model_file_bytes(const ch_model *model) {
  int64_t bytes = 0;
  for (int i = 0; i < model->weights.shard_count; i++) bytes += (int64_t)model->weights.shards[i].map.size;
  return bytes;
}

void ch_model_forget_used(const ch_model *model, const ch_run *run, const ch_node *node) {
  if (ch_model_file_bytes(model) <= CH_LARGE_WEIGHTS) return;
  for (int i = 0; i < node->inputs; i++) {
    const ch_tensor *tensor = ch_run_param(run, node->in[i]);
    if (tensor) ch_weights_forget(&model->weights, tensor->data, ch_tensor_bytes(tensor));
  }
}

ch_status ch_model_check_plain(const ch_model *model, const char *what, ch_error *error) {
  for (int i = 0; i < model->params.count; i++)
    if (ch_dtype_is_block_quantised(model->weights.tensors[i].dtype))
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s is quantised (%s is %s) and cannot %s; use the original model", model->directory,
                     model->params.rows[i].name, ch_dtype_name(model->weights.tensors[i].dtype), what);
  return CH_OK;
}
