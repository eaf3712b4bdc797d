/* The record of an evaluation as a run. */
#ifndef CH_RUNS_RUN_OF_EVALUATION_H
#define CH_RUNS_RUN_OF_EVALUATION_H

#include <crosshead/runs.h>
#include <jansson.h>

#include "base/arena.h"

/* Fills *run for an evaluation that ends now. `results` is the object of figures. Its "loss" becomes the run's
   validation loss, its "seconds" the run's duration. Texts are in the arena. */
ch_status ch_run_of_evaluation(const ch_model *model, const json_t *results, const ch_run_labels *labels,
                               ch_arena *arena, ch_run_record *run, ch_error *error);

#endif
