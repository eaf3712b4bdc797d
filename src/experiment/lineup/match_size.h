/* Equal parameter counts, or FLOPs: the FFN width that makes each model as large as the others. */
#ifndef CH_EXPERIMENT_LINEUP_MATCH_SIZE_H
#define CH_EXPERIMENT_LINEUP_MATCH_SIZE_H

#include <crosshead/compare.h>

#include "config/config.h"

/* Largest difference between the parameter counts of compared models, as a share of the smallest. */
#define CH_MATCH_TOLERANCE 0.005

/* "parameters", "active", ...: as --match spells it. */
enum { CH_MATCHES = CH_MATCH_NONE + 1 };
extern const char *const ch_match_names[CH_MATCHES];

/* Counts the parameters (as in model/accounting.h) of the model that `config` describes. */
ch_status ch_count_parameters(const ch_config *config, ch_count_kind counted, int64_t *count,
                              ch_error *error);

/* Sets the FFN width (ch_matched_width) of every config so that each model has as nearly as possible `target` of
   the counted parameters. Widths are multiples of the largest power of two that keeps the counts close. If a
   mixture of experts cannot come near the target, the other models get the nearest count that it can have.
   parameters [count] receives the counts. names [count] are for messages. Fails, saying why, when two models would
   differ by more than CH_MATCH_TOLERANCE. */
ch_status ch_match_parameters(ch_config *configs, const char *const *names, int count, ch_count_kind counted,
                              int64_t target, int64_t *parameters, ch_error *error);

/* Counts the FLOPs of a forward pass for one token (or image) with `depth` tokens of context. */
ch_status ch_count_flops(const ch_config *config, int64_t depth, int64_t *flops, ch_error *error);
/* Sets the FFN widths in the same way, so that each model has as nearly as possible `target` of these FLOPs. */
ch_status ch_match_flops(ch_config *configs, const char *const *names, int count, int64_t depth,
                         int64_t target, ch_error *error);

/* Returns the width that matching changes: that of the experts if the model has any, else of the FFN. */
int64_t ch_matched_width(const ch_config *config);
/* Sets that width. */
void ch_set_matched_width(ch_config *config, int64_t width);

#endif
