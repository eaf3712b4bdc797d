/* Multiple comparisons with the best (Hsu 1984): how far each group may be behind the best one, whichever that is.
 * Less is better. */
#ifndef CH_LAWS_BEST_H
#define CH_LAWS_BEST_H

#include "laws/block_means.h"

typedef struct ch_best {
  int groups;
  /* [groups]: ends of the interval of a group's distance behind the best. `high` is INFINITY where nothing is known;
   * `low` is 0 unless the group is surely worse than another. */
  double *low, *high;
  /* [groups * groups]: largest differences of two means that chance explains. Groups whose means are no further apart
   * than `tie` are tied. `margin`, never larger, is for the interval of one group behind the best. */
  double *tie, *margin;
} ch_best;

/* Compares groups with the best. error: the probability that an interval is wrong, such as 0.05. The arrays
 * are allocated in `arena`. */
ch_status ch_best_compare(const ch_block_means *fit, double error, ch_arena *arena, ch_best *best,
                          ch_error *failure);

/* Returns true if the means of a and b differ by no more than chance may explain. */
bool ch_best_tied(const ch_block_means *fit, const ch_best *best, int a, int b);

#endif
