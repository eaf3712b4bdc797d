/* Bounds on the speed of a model: peak rates of element types, and the bytes of its matrices. */
#include "bench/speed_limits.h"

#include <math.h>
#include <string.h>

double ch_speed_peak(const ch_speed_limits *limits, ch_dtype dtype, const char **name) {
  bool bf16 = dtype == CH_BF16 && limits->bf16_peak > limits->fma_peak,
       int8 = ch_dtype_is_block_quantised(dtype) && limits->int8_peak > 0;
  if (name) *name = bf16 ? "BF16" : int8 ? "INT8" : "F32";
  return bf16 ? limits->bf16_peak : int8 ? limits->int8_peak : limits->fma_peak;
}

double ch_speed_least_seconds(const ch_speed_limits *limits, ch_dtype dtype, double flops, double bytes) {
  double computing = flops / ch_speed_peak(limits, dtype, NULL), reading = bytes / limits->read_bandwidth;
  return computing > reading ? computing : reading;
}

/* Returns the expected share of the experts that at least one of the sequences chooses, if choices are independent. */
static double experts_read(const ch_config *config, int64_t sequences) {
  if (config->moe.experts == 0) return 0;
  return 1 - pow(1 - (double)config->moe.active / (double)config->moe.experts, (double)sequences);
}

double ch_speed_matrix_bytes(const ch_model *model, int64_t sequences) {
  double bytes = 0, share = experts_read(&model->config, sequences);
  for (int i = 0; i < model->params.count; i++) {
    const ch_param *row = &model->params.rows[i];
    bool looked_up =
        row->kind == CH_PARAM_GATE_EMBEDDING ||
        (!model->config.tie_word_embeddings && strcmp(row->name, "model.embed_tokens.weight") == 0);
    if (row->rank < 2 || looked_up) continue;
    bytes += (double)ch_tensor_bytes(&model->weights.tensors[i]) * (row->kind == CH_PARAM_EXPERT ? share : 1);
  }
  return bytes;
}

ch_dtype ch_matrix_type(const ch_model *model) {
  int64_t elements[CH_DTYPE_COUNT] = {0};
  int most = CH_F32;
  for (int i = 0; i < model->params.count; i++) {
    const ch_tensor *tensor = &model->weights.tensors[i];
    if (tensor->rank >= 2) elements[tensor->dtype] += ch_tensor_count(tensor);
  }
  for (int type = 0; type < CH_DTYPE_COUNT; type++)
    if (elements[type] > elements[most]) most = type;
  return (ch_dtype)most;
}
