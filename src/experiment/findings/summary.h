/* Statistics over seeds: means, spreads, differences that are larger than the noise between seeds, and the resulting
   choice of a mechanism. */
#ifndef CH_EXPERIMENT_FINDINGS_SUMMARY_H
#define CH_EXPERIMENT_FINDINGS_SUMMARY_H

#include "experiment/findings/decision.h"
#include "experiment/findings/comparison_results.h"
#include "laws/statistics.h"

/* The runs of one mechanism, one per seed, in the order of the comparison. */
struct ch_group {
  const char *name;
  const ch_model_result **runs; /* [count] */
  int count;
  double quality; /* mean of ch_model_result_quality, adjusted for seeds if some are missing */
  bool diverged;  /* true if one of its runs ended worse than guessing */
};

/* The quality of one group minus that of another. */
typedef struct ch_difference {
  double mean; /* difference of the groups' `quality`; if seeds are missing, adjusted (laws/block_means.h) */
  double low, high; /* ends of the interval of `mean`; infinite if the noise is unknown or a group diverged */
  int pairs;        /* seeds that both groups have */
  bool beyond_noise; /* true if the groups are not tied, or one diverged */
} ch_difference;

struct ch_summary {
  ch_group *groups; /* [count] the best group first, diverged groups last */
  int count;
  int compared; /* number of groups that did not diverge; if all did, number of groups with finite losses */
  int seeds, fewest;          /* largest and smallest number of runs of a group */
  ch_difference *differences; /* [count, count] row minus column */
  double deviation, degrees;  /* standard deviation of a run, and its degrees of freedom; 0 with one seed */
  double error;               /* probability that a statement is wrong */
  ch_decision decision;
  ch_arena arena;
};

/* Returns the validation loss or, on images, the top-1 accuracy. */
double ch_model_result_quality(const ch_model_result *run);
/* Groups the comparison's runs by name, computes the statistics and decides. Only runs of the first `most_seeds` seeds
 * count; 0: all. The groups point to the comparison's runs. Release with ch_arena_free(&summary->arena), also on
 * failure. */
ch_status ch_summarise_first(const ch_comparison *comparison, int most_seeds, ch_summary *summary,
                             ch_error *error);
ch_status ch_summarise(const ch_comparison *comparison, ch_summary *summary, ch_error *error);

/* A figure of a run. */
typedef double ch_model_result_value(const ch_model_result *run);
/* Defines a function that returns a figure of `run`. */
#define CH_FIGURE_OF_RUN(name, figure)                                                                       \
  static double name(const ch_model_result *run) {                                                           \
    return figure;                                                                                           \
  }
/* Returns the mean and spread of a figure over the group's runs. */
ch_spread ch_group_spread(const ch_group *group, ch_model_result_value *value);
/* Returns true if `holds` is true for at least one run of the group. */
bool ch_group_any(const ch_group *group, bool (*holds)(const ch_model_result *run));

/* Returns the difference of groups a and b. */
static inline const ch_difference *ch_difference_of(const ch_summary *summary, int a, int b) {
  return &summary->differences[a * summary->count + b];
}

#endif
