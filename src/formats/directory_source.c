/* Opens a model directory as a source. Tensors have their stored types, and tensors that only training needs are left
 * out. */
#include <string.h>

#include "compress/absorb.h"
#include "formats/source.h"
#include "infer/model.h"
#include "tensor/kernels.h"

static const ch_tensor *tensor_of(const ch_source *source, int index) {
  const ch_model *model = source->context;
  return &model->weights.tensors[ch_params_find(&model->params, source->params.rows[index].name)];
}

/* Returns the address of row `row` of the tensor, in stored form. */
static const char *row_at(const ch_source *source, int index, int64_t row, int64_t columns) {
  const ch_tensor *tensor = tensor_of(source, index);
  int64_t from = ch_deepseek_row(&source->layout, source->params.rows[index].name, row);
  return (const char *)tensor->data + ch_dtype_bytes(tensor->dtype, from * columns);
}

static void convert(const ch_source *source, const char *from, ch_dtype dtype, int64_t count, float *values) {
  const ch_model *model = source->context;
  ch_kernels_best(CH_F32)->convert_from(ch_team_here(), count, from, dtype, values);
  ch_weights_forget(&model->weights, from, ch_dtype_bytes(dtype, count));
}

static ch_status rows(const ch_source *source, int index, int64_t first, int64_t count, float *values,
                      ch_error *error) {
  const char *name = source->params.rows[index].name;
  ch_dtype dtype = tensor_of(source, index)->dtype;
  int64_t all, columns;
  (void)error;
  ch_rows_of(&source->params.rows[index], &all, &columns);
  if (!ch_deepseek_changes(&source->layout, name)) {
    convert(source, row_at(source, index, first, columns), dtype, count * columns, values);
    return CH_OK;
  }
  for (int64_t row = first; row < first + count; row++, values += columns) {
    convert(source, row_at(source, index, row, columns), dtype, columns, values);
    const float scale = (float)ch_deepseek_scale(&source->layout, name, row);
    for (int64_t i = 0; i < columns; i++) values[i] *= scale;
  }
  return CH_OK;
}

static ch_status blocks(const ch_source *source, int index, int64_t first, int64_t count, void *to,
                        ch_error *error) {
  const ch_tensor *tensor = tensor_of(source, index);
  int64_t columns = tensor->shape[1];
  size_t bytes = ch_dtype_bytes(tensor->dtype, columns);
  (void)error;
  for (int64_t i = 0; i < count; i++)
    memcpy((char *)to + (size_t)i * bytes, row_at(source, index, first + i, columns), bytes);
  return CH_OK;
}

static void close_model(void *context) {
  ch_model_unload(context);
}

/* Returns the tensor's type in the file; the model's tensor may be a converted copy. A block type is returned only if
   the model's tensor has it too. For a tensor of F64, F32 is returned. */
static ch_dtype stored_dtype(const ch_model *model, const char *name) {
  for (int i = 0; i < model->weights.shard_count; i++) {
    const ch_stored_tensor *stored = ch_safetensors_find(&model->weights.shards[i], name);
    if (!stored) continue;
    if (ch_dtype_is_block_quantised(stored->tensor.dtype))
      return model->weights.tensors[ch_params_find(&model->params, name)].dtype;
    return stored->tensor.dtype == CH_F64 ? CH_F32 : stored->tensor.dtype;
  }
  ch_dtype dtype = model->weights.tensors[ch_params_find(&model->params, name)].dtype;
  return dtype == CH_F64 ? CH_F32 : dtype; /* stored under another name */
}

/* Returns true if the rows that compute latents are all F32. Scaling rows of another type would round them once
   more. */
static bool latents_are_f32(const ch_model *model) {
  for (int i = 0; i < model->params.count; i++) {
    const char *name = model->params.rows[i].name;
    if (ch_deepseek_makes_latent(name) && stored_dtype(model, name) != CH_F32) return false;
  }
  return true;
}

ch_status ch_directory_source_open(const char *path, bool vocabulary, ch_source *source, ch_error *error) {
  *source = (ch_source){.format = "model directory", .rows = rows, .blocks = blocks, .close = close_model};
  ch_model *model;
  CH_TRY(ch_model_load(path, CH_WEIGHTS_MAPPED, &model, error));
  source->context = model;
  ch_status status = ch_model_materialise(model, CH_MATERIALISE_INFERENCE, error);
  source->config = model->config;
  ch_deepseek_choose(&source->config, latents_are_f32(model), &source->layout);
  ch_choose_model_type(&source->config);
  source->companions = vocabulary ? strdup(path) : NULL;
  if (status == CH_OK && vocabulary && !source->companions) status = ch_no_memory(error);
  if (status == CH_OK) status = ch_source_declare(source, path, error);
  for (int i = 0; status == CH_OK && i < source->params.count; i++)
    source->dtypes[i] = stored_dtype(model, source->params.rows[i].name);
  if (status != CH_OK) ch_source_close(source);
  return status;
}
