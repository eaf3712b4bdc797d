/* Intervals of distances from the best.
 *
 * Let b be the group that is truly the best. With probability 1 - error, the observed lead of every other group over
 * b exceeds its true lead by at most `margin`: Dunnett's one-sided test of all others against b. If that holds, b is
 * among the groups whose mean is within the margin of every other, and the largest distance from one of those, plus
 * the margin, bounds the distance from b. So all upper bounds are right together, whichever group is the best. Lower
 * bounds are right one by one: a group that is surely worse than another is behind the best by at least as much. */
#include "laws/best.h"

#include <math.h>

#include "laws/dunnett.h"
#include "laws/statistics.h"

/* Returns the factor that widens standard errors. Few groups say little about how unequal their noise is: the moderated
 * variance of a group that is noisier than all others is too small, by less with more blocks. So widened, simulated
 * statements (bench/coverage.c) about five groups, one of them three times as noisy, have at least 94 % confidence, and
 * more elsewhere. Two groups have one difference, for which Student's t is exact. */
static double widening(const ch_block_means *fit) {
  static const double always = 1.02, of_few = 0.15;
  static const int few = 5, many = 9;
  if (fit->groups <= 2) return 1;
  double blocks_less_one = fit->degrees / (fit->groups - 1);
  double fewness = fmin(fmax((double)(many - fit->groups) / (many - few), 0), 1);
  return always + of_few * fewness * fmin(2 / blocks_less_one, 1);
}

static ch_status find_margins(const ch_block_means *fit, double error, ch_arena *arena, ch_best *best,
                              ch_error *failure) {
  int n = fit->groups;
  double wider = widening(fit);
  ch_dunnett *dunnett = ch_arena_alloc(arena, sizeof *dunnett);
  if (!dunnett) return ch_no_memory(failure);
  if (n > 1) ch_dunnett_prepare(n - 1, dunnett);
  for (int a = 0; a < n; a++)
    for (int b = 0; b < a; b++) {
      int at = a * n + b, mirrored = b * n + a;
      double of = wider * fit->errors[at], degrees = fit->freedom[at], margin = INFINITY, tie = INFINITY;
      if (of == 0) margin = tie = 0;
      if (of > 0 && isfinite(of)) {
        /* An interval with two ends also needs Student's t. */
        margin = of * fmax(ch_dunnett_value(dunnett, false, error, degrees), ch_student_t(error, degrees));
        tie = of * ch_dunnett_value(dunnett, true, error, degrees);
      }
      best->margin[at] = best->margin[mirrored] = margin;
      best->tie[at] = best->tie[mirrored] = fmax(tie, margin);
    }
  return CH_OK;
}

bool ch_best_tied(const ch_block_means *fit, const ch_best *best, int a, int b) {
  return fabs(fit->means[a] - fit->means[b]) <= best->tie[a * fit->groups + b];
}

static bool may_be_best(const ch_block_means *fit, const ch_best *best, int group) {
  for (int i = 0; i < fit->groups; i++)
    if (fit->means[group] - fit->means[i] > best->margin[group * fit->groups + i]) return false;
  return true;
}

ch_status ch_best_compare(const ch_block_means *fit, double error, ch_arena *arena, ch_best *best,
                          ch_error *failure) {
  size_t n = (size_t)fit->groups;
  double *room = ch_arena_alloc(arena, (2 * n * n + 2 * n + 1) * sizeof *room);
  if (!room) return ch_no_memory(failure);
  *best = (ch_best){.groups = fit->groups,
                    .low = room,
                    .high = room + n,
                    .tie = room + 2 * n,
                    .margin = room + 2 * n + n * n};
  CH_TRY(find_margins(fit, error, arena, best, failure));
  for (int b = 0; b < fit->groups; b++) {
    bool may = may_be_best(fit, best, b);
    for (int i = 0; i < fit->groups; i++) {
      double distance = fit->means[i] - fit->means[b], margin = best->margin[i * fit->groups + b];
      if (i == b) continue;
      if (may) best->high[i] = fmax(best->high[i], distance + margin);
      if (distance > 0 && !ch_best_tied(fit, best, i, b))
        best->low[i] = fmax(best->low[i], distance - margin);
    }
  }
  return CH_OK;
}
