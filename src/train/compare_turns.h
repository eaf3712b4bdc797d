/* How fast the models of a comparison decode, or tell images apart: each by itself when it is trained, and all of them in turns
 * when the last one is, since a machine is not equally fast at all times. */
#ifndef CH_TRAIN_COMPARE_TURNS_H
#define CH_TRAIN_COMPARE_TURNS_H

#include "train/compare_setup.h"

/* One measurement of the model in `directory`: fills in its rate, and of text its rates at depths. */
ch_status ch_compare_time_alone(ch_compare_setup *setup, const char *directory, ch_compared *model,
                                ch_error *error);

/* Whether a model of the comparison has not been timed beside the others, and can be: its weights were not deleted. */
bool ch_compare_lacks_turns(const ch_compare_setup *setup);
/* CH_COMPARE_TURNS measurements of every model that has its weights, the models in turns: each gets the medians, also in its file.
   Nothing changes where this is interrupted. */
ch_status ch_compare_take_turns(ch_compare_setup *setup, ch_error *error);

#endif
