/* Runs one comparison at several sizes and fits the laws of its losses. */
#ifndef CH_EXPERIMENT_LADDER_H
#define CH_EXPERIMENT_LADDER_H

#include <crosshead/ladder.h>

#include "experiment/compare.h"
#include "experiment/findings/ladder_results.h"

/* Directory of a rung below `out`, by its number of parameters. The comparison itself has none. */
#define CH_LADDER_DIRECTORY "rungs/%lld"

/* Runs the comparisons of settings with a ladder: the comparison itself, then one in rungs/SIZE for each other size.
 * Fits the laws and adds them to results.json and the report. *comparison receives the comparison itself, also on
 * failure. Release comparison->ladder with ch_ladder_release, and the comparison's arena. Errors: those of ch_compare;
 * CH_ERROR_NUMERIC if every mechanism diverged. */
ch_status ch_ladder_compare(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                            ch_comparison *comparison, ch_error *error);

#endif
