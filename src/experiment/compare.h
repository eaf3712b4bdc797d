/* Training mechanisms side by side: all with the same text and tokenizer (or images), seed, batches, budget and
 * number of parameters. */
#ifndef CH_EXPERIMENT_COMPARE_H
#define CH_EXPERIMENT_COMPARE_H

#include "experiment/results.h"
#include "experiment/settings.h"

/* Called whenever results.json was written; the report can follow. */
typedef ch_status (*ch_comparison_written)(const ch_compare_settings *settings,
                                           const ch_comparison *comparison, ch_error *error);

/* Runs the comparison, or continues one that was stopped. If `out` holds work of the same settings, it is kept; work
   of other settings is an error that names the difference. `written` may be NULL. *comparison receives what is done, also
   on failure; release its arena. Errors: CH_ERROR_INTERRUPTED (all work is saved) and those of the parts. */
ch_status ch_compare(const ch_compare_settings *settings, ch_comparison_written written,
                     ch_comparison *comparison, ch_error *error);

/* Writes results.json, and lets `written` (NULL: nobody) follow. */
ch_status ch_compare_write(const ch_compare_settings *settings, ch_comparison_written written,
                           const ch_comparison *comparison, ch_error *error);

#endif
