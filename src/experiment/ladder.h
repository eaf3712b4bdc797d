/* Runs one comparison at several sizes and fits the laws of its losses. */
#ifndef CH_EXPERIMENT_LADDER_H
#define CH_EXPERIMENT_LADDER_H

#include <crosshead/ladder.h>

#include "experiment/compare.h"
#include "experiment/findings/ladder_results.h"

/* Below --out, of a rung that is not the comparison itself; with its parameters. */
#define CH_LADDER_DIRECTORY "rungs/%lld"

/* Runs ch_compare for settings with a ladder: the comparison itself, then one in rungs/SIZE for each other
 * size. It fits the laws and adds them to results.json and the page. *comparison is the comparison itself.
 * Release comparison->ladder with ch_ladder_release. */
ch_status ch_ladder_compare(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                            ch_comparison *comparison, ch_error *error);

#endif
