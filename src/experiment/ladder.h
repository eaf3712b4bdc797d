/* The same comparison at several sizes, and the laws of what it finds. */
#ifndef CH_EXPERIMENT_LADDER_H
#define CH_EXPERIMENT_LADDER_H

#include <crosshead/ladder.h>

#include "experiment/compare.h"

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
} ch_ladder_mechanism;

struct ch_ladder {
  int rungs;
  int64_t *sizes, *tokens;         /* [rungs], rising: parameters asked for, and tokens of each run */
  const char **directories;        /* [rungs] below --out; "" for that of the comparison itself */
  ch_ladder_mechanism *mechanisms; /* [count] */
  int count;
  int64_t target, target_tokens; /* 0: none */
  ch_ladder_laws *laws;          /* ch_ladder_release frees it; the rest is in the comparison's arena */
};

/* Below --out, of a rung that is not the comparison itself; with its parameters. */
#define CH_LADDER_DIRECTORY "rungs/%lld"

/* Whether settings ask for a ladder that can be; sizes [CH_LADDER_MOST_RUNGS] receives them, rising, with settings->parameters
   (`usual` when 0) among them. Errors: CH_ERROR_ARGUMENT. */
ch_status ch_ladder_sizes(const ch_compare_settings *settings, int64_t usual, int64_t *sizes, int *count,
                          ch_error *error);

/* The settings of a rung: `directory` is its --out. vocabulary, eval_tokens: those of the comparison itself. */
ch_compare_settings ch_ladder_rung(const ch_compare_settings *settings, int64_t base, int64_t size,
                                   const char *directory, int64_t vocabulary, int64_t eval_tokens);

/* ch_compare for settings with a ladder: the comparison itself, then one in rungs/SIZE for each other size, then the laws,
   which results.json and the page get. *comparison is the comparison itself. Release comparison->ladder with
   ch_ladder_release. */
ch_status ch_ladder_compare(const ch_compare_settings *settings, const ch_compare_outside *outside,
                            ch_comparison *comparison, ch_error *error);
/* NULL is fine. */
void ch_ladder_release(const ch_ladder *ladder);

/* How many parameters models have that are trained with so many FLOPs, by the rungs of one mechanism. */
double ch_ladder_parameters(const ch_ladder *ladder, int mechanism, double flops);

#endif
