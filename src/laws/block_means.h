/* Means of groups that were observed in the same blocks, and how well their differences are known.
 *
 * The model is value = mean of the group + effect of the block + noise. Here a group is a mechanism and a block a
 * seed. A seed gives all mechanisms the same batches, so its effect on all of them adds no noise to differences.
 *
 * Groups need not be equally noisy. Their variances are drawn towards each other by empirical Bayes, as limma does
 * for genes (Smyth 2004): sigma_i^2 is scaled inverse chi-square with d0 degrees of freedom around s0^2. Few groups
 * say little about d0 and s0, so the estimates are averaged over both, weighed by how likely they make the residuals.
 * Equal residuals then give the pooled variance with nearly all degrees of freedom, and a group that is noisier than
 * the others keeps most of its own. */
#ifndef CH_LAWS_BLOCK_MEANS_H
#define CH_LAWS_BLOCK_MEANS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

typedef struct ch_block_value {
  int group, block; /* 0 ... groups - 1, 0 ... blocks - 1 */
  double value;
} ch_block_value;

typedef struct ch_block_means {
  int groups;
  /* [groups]: plain means if every group is in every block; else means adjusted to the mean block */
  double *means;
  double deviation, degrees; /* standard deviation of all residuals, and its degrees of freedom */
  /* [groups * groups]: standard errors of the differences of two means, and their degrees of freedom. An error is
   * INFINITY where no blocks connect the two groups or no residual is left. */
  double *errors, *freedom;
} ch_block_means;

/* Fits the means. Each group has at least one value, and at most one in a block. The arrays are allocated in
 * `arena`. */
ch_status ch_fit_block_means(const ch_block_value *values, int count, int groups, int blocks, ch_arena *arena,
                             ch_block_means *fit, ch_error *error);

#endif
