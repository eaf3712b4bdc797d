/* Statistics over several seeds: means, spreads, which differences are larger than the noise between seeds, and what
   follows for the choice of a mechanism. */
#ifndef CH_EXPERIMENT_FINDINGS_SUMMARY_H
#define CH_EXPERIMENT_FINDINGS_SUMMARY_H

#include "experiment/findings/decision.h"
#include "experiment/findings/comparison_results.h"
#include "laws/statistics.h"

/* The runs of one name, one per seed, in the order of the comparison. */
struct ch_group {
  const char *name;
  const ch_model_result **runs; /* [count] */
  int count;
  double quality; /* mean of ch_model_result_quality; adjusted for seeds where some are missing */
  bool diverged;  /* a run of it ended worse than guessing */
};

/* The quality of one group minus that of another. */
typedef struct ch_difference {
  /* over the seeds that both have or, if seeds are missing, adjusted for seeds (laws/block_means.h) */
  double mean;
  double low,
      high;  /* how far it may be from that by chance; infinite if that is not known, or one diverged */
  int pairs; /* seeds that both have */
  bool beyond_noise; /* the two are not tied: 0 is outside */
} ch_difference;

struct ch_summary {
  ch_group *groups; /* the best first, those that diverged last */
  int count;
  int compared;      /* the first groups, those that did not diverge; if all did, those with finite losses */
  int seeds, fewest; /* the most and the fewest runs of any name */
  ch_difference *differences; /* [count * count], of row minus column */
  double deviation,
      degrees;  /* of the noise between seeds: of a run, and its degrees of freedom; 0 with one seed */
  double error; /* probability that a statement is wrong */
  ch_decision decision;
  ch_arena arena;
};

/* Returns the validation loss or, on images, the top-1 accuracy. */
double ch_model_result_quality(const ch_model_result *run);
/* Groups the comparison's runs by name, and decides; the groups point to the runs. Only runs with the first
 * `most_seeds` seeds count; 0: all. Release with ch_arena_free(&summary->arena). */
ch_status ch_summarise_first(const ch_comparison *comparison, int most_seeds, ch_summary *summary,
                             ch_error *error);
ch_status ch_summarise(const ch_comparison *comparison, ch_summary *summary, ch_error *error);

typedef double ch_model_result_value(const ch_model_result *run);
/* Defines one, for tables of figures. */
#define CH_FIGURE_OF_RUN(name, figure)                                                                       \
  static double name(const ch_model_result *run) {                                                           \
    return figure;                                                                                           \
  }
ch_spread ch_group_spread(const ch_group *group, ch_model_result_value *value);
/* Returns true if `holds` is true of a run of the group. */
bool ch_group_any(const ch_group *group, bool (*holds)(const ch_model_result *run));

/* Returns the difference of groups a and b. */
static inline const ch_difference *ch_difference_of(const ch_summary *summary, int a, int b) {
  return &summary->differences[a * summary->count + b];
}

#endif
