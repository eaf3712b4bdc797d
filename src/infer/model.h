/* A model opened for inference: configuration, parameter table, mapped weights. Immutable; shared by threads. */
#ifndef CH_INFER_MODEL_H
#define CH_INFER_MODEL_H

#include "io/model_files.h"

typedef struct ch_model {
  char *directory;
  ch_config config;
  ch_params params;
  ch_weights weights;
} ch_model;

/* Opens a model directory; mode says what becomes of its weights. Release with ch_model_unload. */
ch_status ch_model_load(const char *directory, ch_weights_mode mode, ch_model **model, ch_error *error);
void ch_model_unload(ch_model *model);

#endif
