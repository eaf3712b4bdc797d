/* Chooses the types of a quantised model's tensors. */
#include "compress/quantise.h"

ch_dtype ch_quantised_type(const ch_param *row, ch_dtype stored, ch_dtype dtype, bool keep_embedding,
                           ch_quantised_sizes *sizes) {
  int64_t columns = row->shape[row->rank - 1];
  if (row->rank != 2 || !row->block_quantisable || row->always_real ||
      (keep_embedding && row->kind == CH_PARAM_EMBEDDING)) {
    sizes->left += row->rank >= 2;
    return stored;
  }
  if (columns % ch_dtype_block(dtype) == 0) {
    sizes->in_blocks++;
    return dtype;
  }
  sizes->fallen_back++;
  return columns % ch_dtype_block(CH_Q8_0) == 0 ? CH_Q8_0 : CH_F16;
}

ch_status ch_quantise_types(const ch_model *model, ch_dtype dtype, bool keep_embedding, ch_dtype *dtypes,
                            ch_quantised_sizes *sizes, ch_error *error) {
  *sizes = (ch_quantised_sizes){0};
  if (model->config.sharing.type != CH_SHARING_NONE)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s has shared or factored matrices; expand them with `crosshead absorb` first",
                   model->directory);
  CH_TRY(ch_model_check_plain(model, "be quantised again", error));
  for (int i = 0; i < model->params.count; i++) {
    const ch_tensor *tensor = &model->weights.tensors[i];
    const ch_param *row = &model->params.rows[i];
    dtypes[i] = ch_quantised_type(row, tensor->dtype, dtype, keep_embedding, sizes);
    sizes->before += (double)ch_tensor_bytes(tensor);
    sizes->after += (double)ch_dtype_bytes(dtypes[i], ch_tensor_count(tensor));
  }
  if (sizes->in_blocks + sizes->fallen_back == 0)
    return ch_fail(error, CH_ERROR_CONFIG, "%s has no matrix that can be quantised", model->directory);
  return CH_OK;
}
