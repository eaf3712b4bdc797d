/* Measures how fast the models of a comparison decode or classify images: each alone after its training, and all in
 * turns after the last training, because the speed of a machine varies. */
#ifndef CH_EXPERIMENT_TRIAL_TIMING_ROUNDS_H
#define CH_EXPERIMENT_TRIAL_TIMING_ROUNDS_H

#include "experiment/trial/setup.h"

/* Fills in the model's speed and, for text, its speeds at depths. The speeds are copied from an earlier run of its name
 * or, for the first run, measured once with the weights in `directory`. */
ch_status ch_compare_time_alone(ch_compare_setup *setup, const char *directory, ch_model_result *model,
                                ch_error *error);

/* Returns true if a finished model's weights exist. The user may have deleted them. */
bool ch_compare_has_weights(const ch_compare_setup *setup, const ch_model_result *model);
/* Rewrites the result file of a finished run, and sends CH_COMPARE_EVENT_TIMED. */
ch_status ch_compare_keep_run(ch_compare_setup *setup, const ch_model_result *model, ch_error *error);

/* Times one model of each name, the first that has its weights, CH_COMPARE_TURNS times, the models in turns. Nothing is
 * timed if a run of each name was timed in turns before, unless settings.verdict.remeasure is set.
 *
 * Models whose speeds are not steady are timed in a second round if they trained for at least two seconds or
 * `remeasure` is set. The steadier round counts. Steps of training are timed too if they were not steady for any seed,
 * or with `remeasure`. All runs of a name get the medians and spreads, also in their files, because seeds do not change
 * the speed. An interruption leaves all results unchanged. *changed becomes true if a run's speed changed. */
ch_status ch_compare_time_in_rounds(ch_compare_setup *setup, bool *changed, ch_error *error);

#endif
