/* Statistics over several seeds: means, spreads, which differences are larger than the noise between seeds, and what
   follows for the choice of a mechanism. */
#ifndef CH_EXPERIMENT_SUMMARY_H
#define CH_EXPERIMENT_SUMMARY_H

#include "experiment/decide.h"
#include "experiment/results.h"
#include "experiment/statistics.h"

/* The runs of one name, one per seed, in the order of the comparison. */
struct ch_group {
  const char *name;
  const ch_compared **runs; /* [count] */
  int count;
  double quality; /* mean of ch_compared_quality */
};

/* The quality of one group minus that of another, over the seeds that both have. */
typedef struct ch_difference {
  double mean;
  double
      /* standard deviation of a single seed's difference: the larger of the pair's own and the pooled one */
      variance;
  double low, high;  /* the interval; infinite with fewer than two pairs */
  int pairs;         /* seeds that both have */
  bool beyond_noise; /* 0 lies outside the interval */
} ch_difference;

struct ch_summary {
  ch_group *groups; /* the best first */
  int count;
  int seeds, fewest; /* the most and the fewest runs of any name */
  /* Noise. With 95 % confidence all intervals are right together: Bonferroni over the pairs of mechanisms and, where seeds
     are added until a verdict, over its looks. The pooled variance is the mean of the pairs' variances, which in the layout
     of seeds and mechanisms is twice the residual mean square. */
  ch_difference *differences; /* [count * count], of row minus column */
  double degrees;             /* degrees of freedom of the pooled variance: (mechanisms - 1) (seeds - 1) */
  double error;               /* probability that each interval is wrong */
  ch_decision decision;
  ch_arena arena;
};

/* Validation loss or, on images, top-1 accuracy. */
double ch_compared_quality(const ch_compared *run);
/* Groups the comparison's runs by name, and decides; the groups point to the runs. Only the first `most_seeds` runs of each
   name count; 0: all. Release with ch_arena_free(&summary->arena). */
ch_status ch_summarise_first(const ch_comparison *comparison, int most_seeds, ch_summary *summary,
                             ch_error *error);
ch_status ch_summarise(const ch_comparison *comparison, ch_summary *summary, ch_error *error);

typedef double ch_compared_value(const ch_compared *run);
ch_spread ch_group_spread(const ch_group *group, ch_compared_value *value);

/* The difference of two groups, by their indices. */
const ch_difference *ch_difference_of(const ch_summary *summary, int a, int b);
/* The error probability of each interval when every group has `seeds` seeds. */
double ch_error_of_interval(const ch_comparison *comparison, int groups, int seeds);

#endif
