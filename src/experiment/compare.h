/* Training mechanisms side by side: all with the same text and tokenizer (or images), seed, batches, budget and
 * number of parameters. */
#ifndef CH_EXPERIMENT_COMPARE_H
#define CH_EXPERIMENT_COMPARE_H

#include "experiment/findings/comparison_results.h"
#include "experiment/trial/settings.h"
#include "experiment/trial/task_evaluation.h"

/* Called whenever results.json was written; the report can follow. */
typedef ch_status (*ch_comparison_written)(const ch_compare_settings *settings,
                                           const ch_comparison *comparison, ch_error *error);

/* Functions of the layers above that a comparison calls. */
typedef struct ch_compare_hooks {
  ch_comparison_written written; /* or NULL */
  ch_task_asker ask;             /* for settings->tasks */
  ch_task_checker check;         /* checks whether the tasks can be evaluated; or NULL */
} ch_compare_hooks;

/* Runs the comparison, or continues one that was stopped. If `out` holds work of the same settings, it is reused; work
   of other settings is an error that names the difference. *comparison receives what is done, also
   on failure; release its arena. Errors: CH_ERROR_INTERRUPTED (all work is saved) and those of the parts. */
ch_status ch_compare(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                     ch_comparison *comparison, ch_error *error);

/* Writes results.json, and lets outside->written follow. */
ch_status ch_compare_write(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                           const ch_comparison *comparison, ch_error *error);

#endif
