/* Trains mechanisms at several learning rates to find the stable rates and the laws of the losses. Runs are like those
 * of a comparison, each with its own rate. Several train at once, each on its own threads. */
#ifndef CH_EXPERIMENT_SWEEP_H
#define CH_EXPERIMENT_SWEEP_H

#include "experiment/lineup/sweep_rates.h"
#include "experiment/findings/sweep_results.h"

/* Checks that all settings are given and in range. Messages name settings in braces, such as {lr}. */
ch_status ch_sweep_settings_check(const ch_sweep_settings *settings, ch_error *error);

/* Called after every write of results.json, to write the report. */
typedef ch_status (*ch_sweep_written)(const ch_sweep_settings *settings, const ch_sweep *sweep,
                                      ch_error *error);

/* Runs the sweep, or continues one that was stopped: finished runs are reused, and more rates and seeds may be added.
   `written` may be NULL. *sweep receives the finished runs, also on failure; release its about.arena. Errors:
   CH_ERROR_INTERRUPTED (all work is saved), and those of preparation and training. */
ch_status ch_sweep_make(const ch_sweep_settings *settings, ch_sweep_written written, ch_sweep *sweep,
                        ch_error *error);

#endif
