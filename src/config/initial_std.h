/* The standard deviations of weights when training starts ("init"). */
#ifndef CH_CONFIG_INITIAL_STD_H
#define CH_CONFIG_INITIAL_STD_H

#include "config/config.h"
#include "config/params.h"

/* The values of "init": "default", "deepseek", "fan_in", in the order of ch_init; NULL after the last. */
extern const char *const ch_init_names[];
/* "standard", "spectral". */
extern const char *const ch_parametrization_names[];

/* Returns the initial standard deviation of a linear layer's matrix with `inputs` inputs: 0.02; 0.006 with
   "deepseek"; 1 / sqrt(inputs) with "fan_in", which preserves the size of activations at any width (at a
   width of 2500 it is 0.02). */
double ch_initial_std(const ch_config *config, int64_t inputs);
/* Returns the standard deviation of a layer's matrix by its role: ch_initial_std for CH_PARAM_HIDDEN.
   CH_PARAM_RESIDUAL, the output matrix of a layer's attention or FFN, is divided by sqrt(2 (layer + 1)),
   except with "deepseek". CH_PARAM_GATE has 1 / (sqrt(inputs) ch_initial_table_std), whatever "init" and the
   parametrisation: its products have variance 1, so that they preserve the size of what they multiply. */
double ch_initial_std_of(const ch_config *config, ch_param_role role, int layer, int64_t inputs);
/* Returns the standard deviation of the lookup tables of embedding gates: "gate_embedding_std", or the one
   that suits their learning rates. */
double ch_initial_table_std(const ch_config *config);
/* Returns the standard deviation of embeddings: 0.02, or 1 / sqrt(hidden_size) with "fan_in". */
double ch_initial_embedding_std(const ch_config *config);

#endif
