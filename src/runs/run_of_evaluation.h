/* An evaluation as a recorded run. */
#ifndef CH_RUNS_RUN_OF_EVALUATION_H
#define CH_RUNS_RUN_OF_EVALUATION_H

#include <crosshead/runs.h>
#include <jansson.h>

#include "base/arena.h"

/* Describes the run of an evaluation. `results` is the object of figures: its "loss" and "seconds" become the
   run's. The run ends now. Texts are in the arena. */
ch_status ch_run_of_evaluation(const ch_model *model, const json_t *results, const ch_run_labels *labels,
                               ch_arena *arena, ch_run_record *run, ch_error *error);

#endif
