/* The law of one loss curve, which ch_scaling_law_fit of <crosshead/fit.h> offers to users. */
#ifndef CH_LAWS_SCALING_LAW_H
#define CH_LAWS_SCALING_LAW_H

#include <crosshead/fit.h>

/* Implements ch_scaling_law_fit, with its errors. */
ch_status ch_fit_scaling_law(const double *tokens, const double *losses, int n, double budget,
                             ch_scaling_law *law, ch_error *error);

/* Returns the loss that a fitted law predicts for so many tokens. */
double ch_predict_loss(const ch_scaling_law *law, double tokens);

#endif
