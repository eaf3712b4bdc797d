/* Model directories: config.json, model.safetensors (or shards behind an index), tokenizer.json. */
#ifndef CH_IO_MODEL_FILES_H
#define CH_IO_MODEL_FILES_H

#include "io/safetensors.h"
#include "model/config.h"
#include "model/params.h"

/* A directory's weights, opened and matched against the parameter table. */
typedef struct ch_weights {
  ch_safetensors *shards;
  int shard_count;
  ch_tensor *tensors; /* [params->count], in table order; data points into the mappings or into `owned` */
  ch_arena owned;     /* what had to be copied (misaligned, or converted) */
} ch_weights;

/* What a caller wants to do with the weights. */
typedef enum ch_weights_mode {
  CH_WEIGHTS_MAPPED, /* inference: matrices stay mapped in F32, F16 or BF16; vectors become F32 */
  CH_WEIGHTS_F32,    /* everything F32 (mapped where it already is) */
  CH_WEIGHTS_F64     /* everything double: the reference path */
} ch_weights_mode;

/* Opens DIR's weights and checks that exactly the tensors of `params` are there with their shapes (see mechanisms.md
   section 0 for what is tolerated). Errors name the file and the tensor. */
ch_status ch_weights_open(const char *directory, const ch_config *config, const ch_params *params,
                          ch_weights_mode mode, ch_weights *weights, ch_error *error);
void ch_weights_close(ch_weights *weights);

/* Writes DIR/config.json and DIR/model.safetensors; tensors [params->count] of any float type, stored as `dtype`. */
ch_status ch_model_write(const char *directory, const ch_config *config, const ch_params *params,
                         const ch_tensor *tensors, ch_dtype dtype, ch_error *error);

#endif
