/* The spectral parametrisation: initial spreads and learning-rate factors of all tensors from their shapes
   and roles. */
#ifndef CH_CONFIG_SPECTRAL_H
#define CH_CONFIG_SPECTRAL_H

#include "config/config.h"
#include "config/params.h"

/* The learning rate that models have when none is given. */
extern const double ch_spectral_rate;

/* Sets `std` and `lr_factor` of every row; call it when all are declared. docs/parametrization.md has the
   rule. */
void ch_spectral(const ch_config *config, ch_params *params);

#endif
