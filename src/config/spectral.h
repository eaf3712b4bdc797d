/* The spectral parametrisation: initial standard deviations and learning-rate factors of all tensors from their
   shapes and roles. */
#ifndef CH_CONFIG_SPECTRAL_H
#define CH_CONFIG_SPECTRAL_H

#include "config/config.h"
#include "config/params.h"

/* The default learning rate of models with this parametrisation. */
extern const double ch_spectral_rate;

/* Sets `std` and `lr_factor` of rows by their roles. Gates, tables and the network of coefficients keep their declared
   `std`. Mixes, coefficients and vectors keep both, except coefficients of matrices whose products are added to the
   residual stream. Call it after all rows are declared. docs/parametrization.md has the rule. */
void ch_spectral(const ch_config *config, ch_params *params);

#endif
