/* Trains mechanisms side by side: on the same text and tokenizer (or images), with the same seeds, batches and budget,
 * and at the same size (ch_match). */
#ifndef CH_EXPERIMENT_COMPARE_H
#define CH_EXPERIMENT_COMPARE_H

#include "experiment/findings/comparison_results.h"
#include "experiment/trial/settings.h"
#include "experiment/trial/task_evaluation.h"

/* Called after every write of results.json, to write the report. */
typedef ch_status (*ch_comparison_written)(const ch_compare_settings *settings,
                                           const ch_comparison *comparison, ch_error *error);

/* Functions of the layers above that a comparison calls. */
typedef struct ch_compare_hooks {
  ch_comparison_written written; /* writes the report; NULL: there is none */
  ch_task_asker ask;             /* evaluates a task; needed if settings->verdict.tasks is set */
  ch_task_checker check;         /* checks before training that a task can be evaluated; NULL: no check */
} ch_compare_hooks;

/* Runs the comparison, or continues one that was stopped. Runs in settings->report.out are reused if they have the same
   settings; other settings are an error that names the difference. *comparison receives the finished runs, also on
   failure; release its arena. Errors: CH_ERROR_INTERRUPTED (all work is saved), and those of preparation, training,
   timing and tasks. */
ch_status ch_compare(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                     ch_comparison *comparison, ch_error *error);

/* Writes results.json and calls outside->written. */
ch_status ch_compare_write(const ch_compare_settings *settings, const ch_compare_hooks *outside,
                           const ch_comparison *comparison, ch_error *error);

#endif
