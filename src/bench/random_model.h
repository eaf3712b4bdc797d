/* A model with random weights from a configuration: for measuring speed without a trained model. */
#ifndef CH_BENCH_RANDOM_MODEL_H
#define CH_BENCH_RANDOM_MODEL_H

#include "infer/model.h"

/* Creates a model with random weights. PATH is a config.json or a directory that holds one. Matrices are
 * stored as `dtype` (F32, F16 or BF16) with the initial values of training. Release with ch_model_unload. */
ch_status ch_model_random(const char *path, ch_dtype dtype, uint64_t seed, ch_model **model, ch_error *error);
/* Creates a random model as ch_model_random does, from a configuration. */
ch_status ch_model_random_of(const ch_config *config, ch_dtype dtype, uint64_t seed, ch_model **model,
                             ch_error *error);

#endif
