/* Sets the model type of a compressed model, and releases it. */
#include "compress/compress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ch_compressed_free(ch_compressed_model *compressed) {
  ch_materialised_model_free(&compressed->model);
  free(compressed->matrices);
  *compressed = (ch_compressed_model){0};
}

void ch_compressed_config(ch_config *config) {
  if (strncmp(config->model_type, "crosshead", strlen("crosshead")) != 0)
    snprintf(config->model_type, sizeof config->model_type, "crosshead");
}
