/* An evaluation as a run that is kept. */
#ifndef CH_RUNS_EVALUATED_H
#define CH_RUNS_EVALUATED_H

#include <jansson.h>

#include "infer/model.h"
#include "runs/collect.h"

typedef struct ch_evaluated {
  const ch_model *model;
  double loss;           /* NaN: there is none */
  double seconds;        /* from beginning to end, which is now */
  const json_t *results; /* an object */
} ch_evaluated;

/* Texts go into the arena. labels->kind and labels->status need not be given. */
ch_status ch_run_of_evaluation(const ch_evaluated *evaluated, const ch_run_labels *labels, ch_arena *arena,
                               ch_kept_run *run, ch_error *error);

#endif
