/* Measuring how fast the models of a comparison decode or classify images: each alone after its training, and all
 * in turns after the last training, because the speed of a machine varies. */
#ifndef CH_EXPERIMENT_TRIAL_TIMING_ROUNDS_H
#define CH_EXPERIMENT_TRIAL_TIMING_ROUNDS_H

#include "experiment/trial/setup.h"

/* Fills in the model's rate and, for text, its rates at depths: those of an earlier run of the same name or, for the
 * first one, measured once, in `directory`. */
ch_status ch_compare_time_alone(ch_compare_setup *setup, const char *directory, ch_model_result *model,
                                ch_error *error);

/* Returns true if a finished model's weights exist; they may have been deleted. */
bool ch_compare_has_weights(const ch_compare_setup *setup, const ch_model_result *model);
/* Writes the file of a finished run anew, and reports CH_COMPARE_EVENT_TIMED. */
ch_status ch_compare_keep_run(ch_compare_setup *setup, const ch_model_result *model, ch_error *error);

/* Measures one model of each name, the first that has its weights, CH_COMPARE_TURNS times, the models in turns;
 * unless each name has a model that was timed so earlier, and settings.remeasure does not ask for it again. What is
 * not steady then is measured again in a second round, if training took two seconds at least, and the steadier round
 * counts. Where the training of any seed was not steady, or settings.remeasure asks for it, steps of training are
 * timed too. All runs of the name get the medians and spreads, also in their files, because seeds do not change the
 * speed. An interruption changes nothing. *changed: a run's speed changed. */
ch_status ch_compare_time_in_rounds(ch_compare_setup *setup, bool *changed, ch_error *error);

#endif
