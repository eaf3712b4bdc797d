/* What several seeds say together: means, spreads, and which differences are larger than the noise between seeds. */
#ifndef CH_TRAIN_COMPARE_SUMMARY_H
#define CH_TRAIN_COMPARE_SUMMARY_H

#include "train/compare_results.h"

/* The runs of one name, one a seed, in the order of the comparison. */
typedef struct ch_group {
  const char *name;
  const ch_compared **runs; /* [count] */
  int count;
  double quality; /* mean of ch_compared_quality */
} ch_group;

typedef struct ch_summary {
  ch_group *groups; /* the best first */
  int count;
  int seeds; /* of the name that has most */
  ch_arena arena;
} ch_summary;

/* Validation loss or, on images, top-1 accuracy. */
double ch_compared_quality(const ch_compared *run);
/* The comparison's runs by name; they are pointed to. Release with ch_arena_free(&summary->arena). */
ch_status ch_summarise(const ch_comparison *comparison, ch_summary *summary, ch_error *error);

typedef double ch_compared_value(const ch_compared *run);
typedef struct ch_spread {
  double mean, deviation; /* deviation: of the sample (n - 1); 0 with one run */
  int count;
} ch_spread;
ch_spread ch_group_spread(const ch_group *group, ch_compared_value *value);

/* a - b over the seeds that both have: the mean of the differences and its 95 % interval, by Student's t with one degree
   of freedom less than there are pairs. */
typedef struct ch_difference {
  double mean, low, high;
  int pairs;
  bool beyond_noise; /* two pairs or more, and 0 lies outside the interval */
} ch_difference;
ch_difference ch_group_difference(const ch_group *a, const ch_group *b, ch_compared_value *value);

/* Student's t: the quantile that a two-sided 95 % interval takes. */
double ch_student_t(double degrees);

/* A list with one object a name, and one with an object a pair. NULL when memory is out. */
json_t *ch_summary_to_json(const ch_summary *summary, const ch_compared_training *training);
json_t *ch_differences_to_json(const ch_summary *summary);

#endif
