/* Measures how often statements about simulated losses are right: test_best.c quickly, bench/coverage.c at
 * length. */
#ifndef TESTS_LAWS_COVERAGE_H
#define TESTS_LAWS_COVERAGE_H

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "laws/best.h"
#include "laws/statistics.h"

enum { COVERAGE_MOST_GROUPS = 9, COVERAGE_MOST_SEEDS = 10 };

typedef enum coverage_noise { NOISE_EQUAL, NOISE_UNEQUAL, NOISE_SKEWED } coverage_noise;

/* The truth of simulated losses: group g has the mean means[g] and noise of deviation 1; the effect of a seed
   has deviation 5. Unequal: one group has three times the noise. Skewed: the noise is exponential. */
typedef struct coverage_truth {
  int groups, seeds;
  coverage_noise noise;
  int noisy; /* index of the noisier group */
  double means[COVERAGE_MOST_GROUPS];
} coverage_truth;

/* Shares of draws in which statements are right, and lengths of intervals. */
typedef struct coverage {
  double statements; /* share of intervals that contain the truth: mean over groups */
  double least;      /* share of intervals that contain the truth: least of all groups */
  double bounds;     /* share of draws in which all upper bounds are right */
  double front; /* share in which all intervals along a front of loss against random cache sizes are right */
  double pairs; /* share of draws in which groups 0 and 1 are tied; meant for groups with equal means */
  double length, earlier; /* mean length of the intervals; earlier: that of Bonferroni's over all pairs */
} coverage;

static inline void coverage_draw(const coverage_truth *t, ch_random *random, ch_block_value *values) {
  for (int s = 0; s < t->seeds; s++) {
    double effect = 5 * ch_random_normal(random);
    for (int g = 0; g < t->groups; g++) {
      double noise =
          t->noise == NOISE_SKEWED ? -log(1 - ch_random_uniform(random)) - 1 : ch_random_normal(random);
      if (t->noise == NOISE_UNEQUAL && g == t->noisy) noise *= 3;
      values[s * t->groups + g] = (ch_block_value){g, s, t->means[g] + effect + noise};
    }
  }
}

/* Returns the mean length of the intervals from Bonferroni's correction over all pairs, with the larger of a
   pair's own and the pooled variance. */
static inline double coverage_earlier(const coverage_truth *t, const ch_block_value *values) {
  int n = t->groups, s = t->seeds;
  double variance[COVERAGE_MOST_GROUPS][COVERAGE_MOST_GROUPS],
      mean[COVERAGE_MOST_GROUPS][COVERAGE_MOST_GROUPS];
  double pooled = 0, length = 0, critical = ch_student_t(0.05 / (n * (n - 1) / 2.0), (n - 1) * (s - 1));
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++) {
      double d[COVERAGE_MOST_SEEDS];
      for (int i = 0; i < s; i++) d[i] = values[i * n + a].value - values[i * n + b].value;
      ch_spread spread = ch_spread_of(d, s);
      mean[a][b] = spread.mean;
      variance[a][b] = spread.deviation * spread.deviation;
      pooled += variance[a][b] / (n * (n - 1));
    }
  for (int i = 0; i < n; i++) {
    double low = INFINITY, high = 0;
    for (int b = 0; b < n; b++) {
      bool may = true;
      for (int k = 0; k < n; k++)
        may = may && (k == b || mean[b][k] <= critical * sqrt(fmax(variance[b][k], pooled) / s));
      double half = i == b ? 0 : critical * sqrt(fmax(variance[i][b], pooled) / s);
      if (may) low = fmin(low, fmax(0, mean[i][b] - half));
      if (may) high = fmax(high, mean[i][b] + half);
    }
    length += (high - fmin(low, high)) / n;
  }
  return length;
}

/* Measures the shares of right statements in `draws` simulated comparisons. Returns false if out of memory. */
static inline bool coverage_measure(const coverage_truth *t, int draws, uint64_t stream, coverage *c) {
  int n = t->groups, right[COVERAGE_MOST_GROUPS] = {0};
  double least = INFINITY;
  for (int g = 0; g < n; g++) least = fmin(least, t->means[g]);
  *c = (coverage){0};
  for (int d = 0; d < draws; d++) {
    ch_block_value values[COVERAGE_MOST_GROUPS * COVERAGE_MOST_SEEDS];
    ch_random random;
    ch_arena arena = {0};
    ch_block_means fit;
    ch_best best;
    ch_error error;
    bool bounds = true, front = true;
    double lowest = INFINITY;
    ch_random_seed(&random, (uint64_t)d, stream);
    coverage_draw(t, &random, values);
    if (ch_fit_block_means(values, n * t->seeds, n, t->seeds, &arena, &fit, &error) != CH_OK ||
        ch_best_compare(&fit, 0.05, &arena, &best, &error) != CH_OK)
      return false;
    uint64_t key = ch_random_u64(&random);
    for (int i = 0; i < n; i++) { /* the smallest cache first */
      int g = (int)ch_random_permute((uint64_t)i, (uint64_t)n, key);
      double behind = t->means[g] - least;
      bool holds = best.low[g] <= behind && behind <= best.high[g];
      right[g] += holds;
      bounds = bounds && behind <= best.high[g];
      if (fit.means[g] >= lowest) continue;
      lowest = fit.means[g];
      front = front && holds;
    }
    c->bounds += (double)bounds / draws;
    c->front += (double)front / draws;
    c->pairs += (double)ch_best_tied(&fit, &best, 0, 1) / draws;
    for (int g = 0; g < n; g++) c->length += (best.high[g] - best.low[g]) / n / draws;
    c->earlier += coverage_earlier(t, values) / draws;
    ch_arena_free(&arena);
  }
  c->least = 1;
  for (int g = 0; g < n; g++) {
    c->statements += (double)right[g] / draws / n;
    c->least = fmin(c->least, (double)right[g] / draws);
  }
  return true;
}

#endif
