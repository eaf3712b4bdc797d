/* Standard deviations of initial weights. train/initialise.c draws the weights. */
#include "config/initial_std.h"

#include <math.h>

const char *const ch_init_names[] = {"default", "deepseek", "fan_in", NULL};
const char *const ch_parametrization_names[] = {"standard", "spectral", NULL};

double ch_initial_std(const ch_config *config, int64_t inputs) {
  if (config->init == CH_INIT_FAN_IN) return 1 / sqrt((double)inputs);
  return config->init == CH_INIT_DEEPSEEK ? 0.006 : 0.02;
}

double ch_initial_std_of(const ch_config *config, ch_param_role role, int layer, int64_t inputs) {
  if (role == CH_PARAM_GATE) {
    double table = ch_initial_table_std(config);
    return 1 / (sqrt((double)inputs) * (table > 0 ? table : 1));
  }
  double std = ch_initial_std(config, inputs);
  bool divided = role == CH_PARAM_RESIDUAL && config->init != CH_INIT_DEEPSEEK;
  return divided ? std / sqrt(2.0 * (layer + 1)) : std;
}

/* With one rate for all tensors, small tables learn faster. The spectral rule gives tables their own rate
   (bench/measurements.md). */
double ch_initial_table_std(const ch_config *config) {
  double given = config->attention.gate_embedding_std;
  if (given >= 0) return given;
  return config->parametrization == CH_PARAMETRIZATION_SPECTRAL ? 1 : 0.02;
}

double ch_initial_embedding_std(const ch_config *config) {
  return config->init == CH_INIT_FAN_IN ? 1 / sqrt((double)config->hidden_size) : 0.02;
}
