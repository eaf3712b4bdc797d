/* Measuring how fast the models of a comparison decode or classify images: each alone after its training, and all
 * in turns after the last training, because the speed of a machine varies. */
#ifndef CH_EXPERIMENT_TRIAL_TIMING_ROUNDS_H
#define CH_EXPERIMENT_TRIAL_TIMING_ROUNDS_H

#include "experiment/trial/setup.h"

/* Measures the model in `directory` once: fills in its rate and, for text, its rates at depths. */
ch_status ch_compare_time_alone(ch_compare_setup *setup, const char *directory, ch_model_result *model,
                                ch_error *error);

/* The weights of a finished model may have been deleted. */
bool ch_compare_has_weights(const ch_compare_setup *setup, const ch_model_result *model);
/* Writes the file of a finished run anew, and reports CH_COMPARE_EVENT_TIMED. */
ch_status ch_compare_keep_run(ch_compare_setup *setup, const ch_model_result *model, ch_error *error);

/* Returns true if a model was not yet timed in turns with the others, or is to be timed again (settings.remeasure), and still has
   its weights. */
bool ch_compare_lacks_timing(const ch_compare_setup *setup);
/* Measures every model that has its weights CH_COMPARE_TURNS times, the models in turns. What is not steady then is
   measured again in a second round, if training took two seconds at least, and the steadier round counts. Where training was not steady, or
   settings.remeasure asks for it, steps of training are timed too. Each model gets medians and spreads, also in its file. An
   interruption changes nothing. */
ch_status ch_compare_time_in_rounds(ch_compare_setup *setup, ch_error *error);

#endif
