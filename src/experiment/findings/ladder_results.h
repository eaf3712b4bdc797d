/* The results of a ladder: the losses of each mechanism at all sizes, and their laws. */
#ifndef CH_EXPERIMENT_FINDINGS_LADDER_RESULTS_H
#define CH_EXPERIMENT_FINDINGS_LADDER_RESULTS_H

#include <crosshead/ladder.h>

#include "experiment/findings/comparison_results.h"

/* The models of one mechanism. Arrays: [rungs of the ladder]. */
typedef struct ch_ladder_mechanism {
  const char *name;
  double *flops;                    /* of all training, attention at the trained length included */
  double *losses;                   /* means over seeds */
  double *parameters;               /* as planned, so about the rung's */
  double *earlier;                  /* [shares * rungs]; NULL where a run has no such evaluations */
  double tokens_per_second, spread; /* of training, at the largest rung */
  double seconds_per_flop;
  double target_flops, target_parameters;
  bool diverged; /* at one of the rungs */
} ch_ladder_mechanism;

struct ch_ladder {
  int rungs;
  int64_t *sizes, *tokens;         /* [rungs], rising: requested parameters, and tokens of each run */
  const char **directories;        /* [rungs] below --out; "" for that of the comparison itself */
  ch_ladder_mechanism *mechanisms; /* [count + diverged]; those that diverged come last and have no law */
  int count, diverged;
  int64_t target, target_tokens; /* 0: none */
  ch_ladder_laws *laws;          /* ch_ladder_release frees it; the rest is in the comparison's arena */
};

/* Frees the laws; NULL is fine. */
void ch_ladder_release(const ch_ladder *ladder);

/* Returns how many parameters a model of this mechanism has when it is trained with so many FLOPs, by the
 * rungs. */
double ch_ladder_parameters(const ch_ladder *ladder, int mechanism, double flops);

/* Returns {"laws": [...], "multipliers": [...], "ladder": {...}} for results.json; NULL when out of
 * memory. */
json_t *ch_ladder_to_json(const ch_ladder *ladder);

#endif
