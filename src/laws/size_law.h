/* The law of models of several sizes, which ch_size_law_fit of <crosshead/fit.h> offers to users. */
#ifndef CH_LAWS_SIZE_LAW_H
#define CH_LAWS_SIZE_LAW_H

#include <crosshead/fit.h>

/* Implements ch_size_law_fit, with its errors. */
ch_status ch_fit_size_law(ch_size_form form, const double *sizes, const double *tokens, const double *losses,
                          int n, double at_size, double at_tokens, ch_size_law *law, ch_error *error);

#endif
