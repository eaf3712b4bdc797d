/* Training mechanisms at several learning rates: which rates are stable, and how the losses go on. Runs are those
 * of a comparison, each with its own rate. Several run at once, each on threads of its own. */
#ifndef CH_EXPERIMENT_SWEEP_H
#define CH_EXPERIMENT_SWEEP_H

#include "experiment/lineup/sweep_rates.h"
#include "experiment/findings/sweep_results.h"

/* Checks ranges and that nothing is missing. Sentences name settings as the command line does. */
ch_status ch_sweep_settings_check(const ch_sweep_settings *settings, ch_error *error);

/* Called whenever results.json was written; the report can follow. */
typedef ch_status (*ch_sweep_written)(const ch_sweep_settings *settings, const ch_sweep *sweep,
                                      ch_error *error);

/* Runs the sweep, or continues one that was stopped: finished runs are reused, and more rates and seeds may be added.
   `written` may be NULL. *sweep receives what is done, also on failure; release its about.arena. */
ch_status ch_sweep_make(const ch_sweep_settings *settings, ch_sweep_written written, ch_sweep *sweep,
                        ch_error *error);

#endif
