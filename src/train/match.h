/* Equal parameter counts: the FFN width that makes each model as large as the others. */
#ifndef CH_TRAIN_MATCH_H
#define CH_TRAIN_MATCH_H

#include "config/config.h"

/* Largest difference between the parameter counts of compared models, as a share of the smallest. */
#define CH_MATCH_TOLERANCE 0.005

/* Which parameters are counted, as in model/accounting.h: all, or only those that a token meets (lookup tables of gates and
   experts that were not chosen left out), or those of attention, shared ones once. */
typedef enum ch_counted { CH_COUNT_ALL, CH_COUNT_ACTIVE, CH_COUNT_ATTENTION } ch_counted;

/* Those of the model that `config` describes, by its parameter table. */
ch_status ch_count_parameters(const ch_config *config, ch_counted counted, int64_t *count, ch_error *error);

/* Sets the FFN width (ch_matched_width) of every config so that each has as nearly as possible `target` of the counted parameters, in whole
   multiples of the largest power of two that keeps them close; where a mixture of experts cannot come near, the others
   take the count nearest to the target that it can have. parameters [count] receives what they have. names
   [count] are for messages. Fails when two would differ by more than CH_MATCH_TOLERANCE, saying why. */
ch_status ch_match_parameters(ch_config *configs, const char *const *names, int count, ch_counted counted,
                              int64_t target, int64_t *parameters, ch_error *error);

/* The width that matching adjusts: the FFN's, or that of the experts where the model has them. */
int64_t ch_matched_width(const ch_config *config);

#endif
