/* Finding the learning rate of a mechanism: a few rates in steps of two around the usual one, and the vertex of a
 * parabola in their logarithm. */
#ifndef CH_EXPERIMENT_TRIAL_RATE_SEARCH_H
#define CH_EXPERIMENT_TRIAL_RATE_SEARCH_H

#include <crosshead/compare.h>

/* The most rates that are tried of a mechanism. */
enum { CH_TUNE_LEAST = 3, CH_TUNE_MOST = 9 };

/* Rates within which the parabola is at most this share of the loss above its lowest point are as good as the best. */
extern const double ch_tune_flat;

typedef struct ch_tune {
  ch_tried_rate tried[CH_TUNE_MOST]; /* in the order of trying; the first is the usual rate */
  int count, most;
} ch_tune;

typedef struct ch_tune_result {
  double lr;        /* the best: the vertex, or the best rate tried if that is at the edge */
  double low, high; /* rates as good, by the same parabola; 0 where there is none */
  /* share of the loss that the usual rate costs relative to the best rate tried; never negative */
  double usual_cost;
  bool at_edge; /* no rate beyond the best was tried */
} ch_tune_result;

/* Returns the next rate to try; 0 when the best rate has a tried one on both sides, or `most` are tried. */
double ch_tune_next(const ch_tune *tune, double usual);
/* Needs one rate that was trained to its end. */
ch_tune_result ch_tune_conclude(const ch_tune *tune);
/* Returns true if a run is clearly worse than the best of those before it, by their validation losses after equal
 * numbers of tokens: in the second half of a run, more than a stated share above. */
bool ch_tune_is_hopeless(const ch_model_result *best, int64_t tokens, int64_t tokens_of_run, double loss);

#endif
