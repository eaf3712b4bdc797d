/* The learning rate of each model of a comparison. */
#ifndef CH_EXPERIMENT_LINEUP_LEARNING_RATES_H
#define CH_EXPERIMENT_LINEUP_LEARNING_RATES_H

#include <crosshead/compare.h>

#include "experiment/lineup/comparison_plan.h"

/* Returns the default learning rate of a parametrisation. */
double ch_usual_rate(ch_parametrization parametrization, bool images);

/* Reads the number without a name in a list such as "6e-3,mla=1e-3" into *common; 0 if there is none or `rates` is
 * NULL. Errors: a piece that is not a rate, two numbers without a name. */
ch_status ch_rates_common(const char *rates, double *common, ch_error *error);

/* Sets the rate of every model: the one that `rates` gives to its name, else `common` or, if that is 0, the usual rate
 * of its configuration's parametrisation. Names that the plan does not have are errors. */
ch_status ch_rates_settle(const char *rates, double common, bool images, ch_compare_plan *plan,
                          ch_error *error);

#endif
