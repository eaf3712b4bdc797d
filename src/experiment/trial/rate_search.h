/* Finds the learning rate of a mechanism: it tries a few rates around the usual one, each twice its neighbour, and
 * takes the vertex of a parabola over the logarithm of the rate. */
#ifndef CH_EXPERIMENT_TRIAL_RATE_SEARCH_H
#define CH_EXPERIMENT_TRIAL_RATE_SEARCH_H

#include <crosshead/compare.h>

/* Bounds of the number of rates that may be tried for a mechanism. */
enum { CH_TUNE_LEAST = 3, CH_TUNE_MOST = 9 };

/* A rate is as good as the best one if the parabola there is at most this share of the loss above its vertex. */
extern const double ch_tune_flat;

typedef struct ch_tune {
  ch_tried_rate tried[CH_TUNE_MOST]; /* [count] rates in the order of their trials, the usual one first */
  int count, most;                   /* number of tried rates, and maximum number of rates to try */
} ch_tune;

typedef struct ch_tune_result {
  double lr;        /* the vertex of the parabola or, if there is none, the best rate tried */
  double low, high; /* ends of the range of rates that are as good as `lr`; 0: there is no parabola */
  /* share by which the loss at the usual rate exceeds that at the best rate tried; 0 if the usual rate was not trained
     to its end */
  double usual_cost;
  bool at_edge; /* true if the best rate is the lowest or highest that was tried */
} ch_tune_result;

/* Returns the next rate to try; 0 if the best rate has a tried one on both sides, or `most` rates are tried. */
double ch_tune_next(const ch_tune *tune, double usual);
/* Chooses the best rate. At least one rate must have been trained to its end. */
ch_tune_result ch_tune_conclude(const ch_tune *tune);
/* Returns true if a run is clearly worse than the best run before it: in the second half, its validation loss is more
 * than 8 % above that of `best` after equally many tokens. */
bool ch_tune_is_hopeless(const ch_model_result *best, int64_t tokens, int64_t tokens_of_run, double loss);

#endif
