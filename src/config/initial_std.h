/* The standard deviations of initial weights ("init"). */
#ifndef CH_CONFIG_INITIAL_STD_H
#define CH_CONFIG_INITIAL_STD_H

#include "config/config.h"
#include "config/params.h"

/* The values of "init": "default", "deepseek", "fan_in", in the order of ch_init; NULL after the last. */
extern const char *const ch_init_names[];
/* The values of "parametrization": "standard", "spectral", in the order of ch_parametrization; NULL after the
   last. */
extern const char *const ch_parametrization_names[];

/* Returns the initial standard deviation of a linear layer's matrix with `inputs` inputs: 0.02; 0.006 with
   "deepseek"; 1 / sqrt(inputs) with "fan_in". "fan_in" preserves the size of activations at any width (0.02 at
   2500 inputs). */
double ch_initial_std(const ch_config *config, int64_t inputs);
/* Returns the standard deviation of a layer's matrix by its role. CH_PARAM_HIDDEN has ch_initial_std.
   CH_PARAM_RESIDUAL, the output matrix of a layer's attention or FFN, has ch_initial_std / sqrt(2 (layer + 1)),
   or ch_initial_std with "deepseek". CH_PARAM_GATE has 1 / (sqrt(inputs) ch_initial_table_std), whatever "init"
   and the parametrisation are: its products have variance 1 and preserve the size of the states they multiply. */
double ch_initial_std_of(const ch_config *config, ch_param_role role, int layer, int64_t inputs);
/* Returns the standard deviation of the lookup tables of embedding gates: "gate_embedding_std" or, if it is not
   given, 1 with the spectral parametrisation, else 0.02. */
double ch_initial_table_std(const ch_config *config);
/* Returns the standard deviation of embeddings: 0.02, or 1 / sqrt(hidden_size) with "fan_in". */
double ch_initial_embedding_std(const ch_config *config);

#endif
