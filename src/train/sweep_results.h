/* What a sweep over learning rates found: the contents of results.json, and what follows from the runs. */
#ifndef CH_TRAIN_SWEEP_RESULTS_H
#define CH_TRAIN_SWEEP_RESULTS_H

#include "train/compare_results.h"
#include "train/scaling_law.h"
#include "train/stability.h"

/* One run: a mechanism at a rate with a seed. Strings and arrays belong to the sweep's arena. */
typedef struct ch_swept {
  const char *name, *directory, *mechanism;
  double lr;
  int64_t seed, parameters, cache_bytes_per_token, tokens_trained, threads;
  double validation_loss, training_loss, train_tokens_per_second; /* NaN: none */
  ch_stability stability;
  bool stopped; /* left before its last step, as hopeless */
  ch_curve_point *curve, *validation_curve;
  int curve_points, validation_points;
  /* What follows: */
  ch_stability_verdict verdict; /* that of `stability`, or CH_STUCK */
  bool has_law;
  ch_scaling_law
      law;          /* of the validation curve behind the warm-up and the first tenth; only of stable runs */
  char no_law[160]; /* why there is none */
} ch_swept;

/* What a mechanism's runs say. Rates are 0 where there is none. */
typedef struct ch_sweep_choice {
  const char *name;
  double chosen;                   /* the largest rate at which every run is stable */
  double lowest;                   /* the rate with the lowest mean validation loss of its stable runs */
  double chosen_loss, lowest_loss; /* mean validation losses there; NaN where there are none */
  int64_t spikes;                  /* of all its runs */
  bool whole;                      /* all its runs are done */
} ch_sweep_choice;

typedef struct ch_sweep {
  ch_comparison about; /* command, version, data, training, machine; no models. Its arena holds everything */
  double budget;       /* tokens that losses are extrapolated to */
  int64_t skip;        /* tokens before the first point that laws are fitted to */
  int64_t jobs, threads;
  ch_swept *runs; /* [count], in the order of mechanisms, rates, seeds */
  int count, planned;
  ch_sweep_choice *choices; /* [mechanisms] */
  int mechanisms;
} ch_sweep;

/* Fits laws, tells which runs are stuck, and chooses rates; choices [mechanisms] have their names. */
void ch_sweep_judge(ch_sweep *sweep);

/* JSON both ways. result.json of a run holds what training it gave; what follows is worked out again. */
json_t *ch_swept_to_json(const ch_swept *run, bool judged);
ch_status ch_swept_from_json(const json_t *object, const char *where, ch_arena *arena, ch_swept *run,
                             ch_error *error);
json_t *ch_sweep_to_json(const ch_sweep *sweep);
/* Of a law and of stability alone, as results have them. */
json_t *ch_scaling_law_to_json(const ch_scaling_law *law);
json_t *ch_stability_to_json(const ch_stability *stability);

#endif
