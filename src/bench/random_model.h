/* Creates models with random weights from a configuration, to measure speed without a trained model. */
#ifndef CH_BENCH_RANDOM_MODEL_H
#define CH_BENCH_RANDOM_MODEL_H

#include "infer/model.h"

/* Creates a model with random weights. `path` is a config.json or a directory that has one. Matrices are stored as
   `dtype` (F32, F16 or BF16) with the initial values of training. Release with ch_model_unload. */
ch_status ch_model_random(const char *path, ch_dtype dtype, uint64_t seed, ch_model **model, ch_error *error);
/* Like ch_model_random, from a configuration in memory. */
ch_status ch_model_random_of(const ch_config *config, ch_dtype dtype, uint64_t seed, ch_model **model,
                             ch_error *error);

#endif
