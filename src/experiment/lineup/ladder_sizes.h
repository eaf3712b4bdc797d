/* The sizes of a ladder, and the settings of the comparison at each. */
#ifndef CH_EXPERIMENT_LINEUP_LADDER_SIZES_H
#define CH_EXPERIMENT_LINEUP_LADDER_SIZES_H

#include <crosshead/compare.h>
#include <crosshead/ladder.h>

#include "base/error.h"

/* Reads and checks the sizes of a ladder. sizes [CH_LADDER_MOST_RUNGS] receives the sizes in rising order,
   including lineup.parameters (`usual` if 0). Errors: CH_ERROR_ARGUMENT. */
ch_status ch_ladder_sizes(const ch_compare_settings *settings, int64_t usual, int64_t *sizes, int *count,
                          ch_error *error);

/* Returns the settings of a rung with the output directory `directory`. base, vocabulary and eval_tokens are those of
 * the comparison itself; 0 leaves the vocabulary or eval_tokens as in the settings. */
ch_compare_settings ch_ladder_rung(const ch_compare_settings *settings, int64_t base, int64_t size,
                                   const char *directory, int64_t vocabulary, int64_t eval_tokens);

/* Returns the number of tokens of each run of a rung: as many per parameter as in the comparison itself. */
int64_t ch_ladder_tokens(const ch_compare_settings *settings, int64_t base, int64_t size);

#endif
