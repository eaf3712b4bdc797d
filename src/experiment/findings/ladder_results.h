/* The results of a ladder: the losses of each mechanism at all sizes, and their laws. */
#ifndef CH_EXPERIMENT_FINDINGS_LADDER_RESULTS_H
#define CH_EXPERIMENT_FINDINGS_LADDER_RESULTS_H

#include <crosshead/ladder.h>

#include "experiment/findings/comparison_results.h"

/* The models of one mechanism. Arrays have one element per rung unless a shape is given. */
typedef struct ch_ladder_mechanism {
  const char *name;
  double *flops;      /* FLOPs of training a model, including attention at the trained length */
  double *losses;     /* mean validation losses over seeds, in nats */
  double *parameters; /* parameters of the models, about the rung's size */
  double *earlier; /* [shares, rungs] mean losses at earlier shares of the tokens; NaN: not evaluated there */
  /* speed of training at the largest rung, and its spread, in tokens per second */
  double tokens_per_second, spread;
  double seconds_per_flop; /* seconds of training per FLOP at the largest rung */
  double target_flops, target_parameters;
  bool diverged; /* true if a run at any rung diverged */
} ch_ladder_mechanism;

struct ch_ladder {
  int rungs;
  int64_t *sizes, *tokens;         /* [rungs] requested parameters, in rising order, and tokens of each run */
  const char **directories;        /* [rungs] directories below `out`; "" for the comparison itself */
  ch_ladder_mechanism *mechanisms; /* [count + diverged] diverged mechanisms come last and have no law */
  int count, diverged;
  int64_t target, target_tokens; /* parameters and tokens of the target; 0: no target */
  ch_ladder_laws *laws;          /* freed by ch_ladder_release; all else is in the comparison's arena */
};

/* Frees the laws; NULL is fine. */
void ch_ladder_release(const ch_ladder *ladder);

/* Returns the number of parameters of a model of this mechanism that is trained with `flops` FLOPs, interpolated
 * between the rungs and extrapolated beyond them. */
double ch_ladder_parameters(const ch_ladder *ladder, int mechanism, double flops);

/* Returns {"laws": [...], "multipliers": [...], "ladder": {...}} for results.json, or NULL when out of
 * memory. The caller releases it with json_decref. */
json_t *ch_ladder_to_json(const ch_ladder *ladder);

#endif
