/* Finds the FFN widths with which models have equally many parameters or FLOPs. */
#ifndef CH_EXPERIMENT_LINEUP_MATCH_SIZE_H
#define CH_EXPERIMENT_LINEUP_MATCH_SIZE_H

#include <crosshead/compare.h>

#include "config/config.h"

/* Largest difference between the parameter counts of compared models, as a share of the smallest. */
#define CH_MATCH_TOLERANCE 0.005

/* Names of the quantities: "parameters", "active", ... */
enum { CH_MATCHES = CH_MATCH_NONE + 1 };
extern const char *const ch_match_names[CH_MATCHES];

/* Counts the parameters of the model that `config` describes, as in model/accounting.h. */
ch_status ch_count_parameters(const ch_config *config, ch_count_kind counted, int64_t *count,
                              ch_error *error);

/* Sets the FFN width (ch_matched_width) of each of configs [count] so that the model has as nearly as possible `target`
   of the counted parameters. Widths are multiples of the largest power of two, up to 64, that keeps the counts close.
   If a mixture of experts cannot come near the target, the target becomes the nearest count that it can have.
   parameters [count] receives the counts; names [count] are for messages. Errors: CH_ERROR_ARGUMENT if counts differ
   from each other or from the target by more than CH_MATCH_TOLERANCE. */
ch_status ch_match_parameters(ch_config *configs, const char *const *names, int count, ch_count_kind counted,
                              int64_t target, int64_t *parameters, ch_error *error);

/* Counts the FLOPs of a forward pass for one token (or image) with `depth` tokens of context. */
ch_status ch_count_flops(const ch_config *config, int64_t depth, int64_t *flops, ch_error *error);
/* Works like ch_match_parameters, for `target` FLOPs of a forward pass with `depth` tokens of context. */
ch_status ch_match_flops(ch_config *configs, const char *const *names, int count, int64_t depth,
                         int64_t target, ch_error *error);

/* Returns the width that matching changes: that of an expert if the model has experts, else that of the FFN. */
int64_t ch_matched_width(const ch_config *config);
/* Sets the width that ch_matched_width returns. */
void ch_set_matched_width(ch_config *config, int64_t width);

#endif
