/* Sets every key of a configuration to its default before a file is read. */
#include <stdio.h>
#include <string.h>

#include "config_file/config_json.h"
#include "config_file/keys.h"

void ch_config_defaults_of(ch_config *config, const char *model_type) {
  memset(config, 0, sizeof *config);
  snprintf(config->model_type, sizeof config->model_type, "%s", model_type);
  config->causal = !ch_config_is_vision(config);
  ch_config_apply_defaults(config);
}

void ch_config_defaults(ch_config *config) {
  ch_config_defaults_of(config, "crosshead");
}

void ch_config_defaults_for_images(ch_config *config) {
  ch_config_defaults_of(config, "crosshead_vit");
}
