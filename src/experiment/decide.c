/* From intervals of differences to a decision: multiple comparisons with the best. Losses count as they are and accuracies
   with the other sign, so that less is better. */
#include "experiment/decide.h"

#include <math.h>

#include "experiment/summary.h"

/* The intervals of all pairs, row minus column, [count * count]. */
typedef struct intervals {
  int count;
  double *low, *high;
} intervals;

static bool on_images(const ch_group *group) {
  return group->runs[0]->images;
}

double ch_group_cost(const ch_group *group) {
  const ch_compared *run = group->runs[0];
  return run->images ? (double)run->parameters_attention : ch_compared_cache(run);
}

double ch_group_seconds(const ch_group *group) {
  double sum = 0;
  for (int i = 0; i < group->count; i++) {
    const ch_compared *run = group->runs[i];
    double rate = run->train_tokens_per_second; /* all that files of earlier versions tell */
    sum += run->train_seconds > 0 ? run->train_seconds : rate > 0 ? (double)run->tokens_trained / rate : 0;
  }
  return group->count ? sum / group->count : 0;
}

/* --- by the means ------------------------------------------------------------------------------------------------ */

/* Losses compare by their ratio, accuracies by their difference. */
static double limit_of(const ch_group *best, double tolerance) {
  return on_images(best) ? tolerance : tolerance * best->quality;
}

static double behind(const ch_group *group, const ch_group *best) {
  return on_images(group) ? best->quality - group->quality : group->quality - best->quality;
}

/* The groups are sorted, the best first: of equal costs the earlier one stays. */
static int pick_by_means(const ch_summary *summary, double limit) {
  int pick = 0;
  for (int i = 1; i < summary->count; i++)
    if (behind(&summary->groups[i], &summary->groups[0]) <= limit &&
        ch_group_cost(&summary->groups[i]) < ch_group_cost(&summary->groups[pick]))
      pick = i;
  return pick;
}

/* --- by the intervals -------------------------------------------------------------------------------------------- */

static double low_of(const intervals *all, int a, int b) {
  return all->low[a * all->count + b];
}

static double high_of(const intervals *all, int a, int b) {
  return all->high[a * all->count + b];
}

/* The intervals as they are, or as they would be with `more` seeds of the active groups and the same means and noise;
   to each side narrower by `closer` standard errors of today's means, which may be off by so much. */
static void fill(const ch_comparison *comparison, const ch_summary *summary, int more, double closer,
                 intervals *all) {
  int active = 0;
  for (int i = 0; more && i < summary->count; i++) active += summary->decision.standings[i].active;
  double degrees = summary->degrees + more * fmax(active - 1, 0);
  double error = ch_error_of_interval(comparison, summary->count, summary->seeds + more);
  double t = ch_student_t(error, degrees);
  for (int a = 0; a < summary->count; a++)
    for (int b = 0; b < summary->count; b++) {
      const ch_difference *d = ch_difference_of(summary, a, b);
      double mean = on_images(&summary->groups[a]) ? -d->mean : d->mean, half = INFINITY;
      if (d->pairs > 1)
        half = fmax(0, t * sqrt(d->variance / (d->pairs + more)) - closer * sqrt(d->variance / d->pairs));
      if (a == b) half = 0;
      all->low[a * all->count + b] = mean - half;
      all->high[a * all->count + b] = mean + half;
    }
}

static bool may_be_best(const intervals *all, int group) {
  for (int i = 0; i < all->count; i++)
    if (low_of(all, group, i) > 0) return false;
  return true;
}

/* How far a group is behind the best, whichever of those that may be the best it is. */
static void place(const intervals *all, int group, double limit, ch_standing *standing) {
  bool any = false;
  *standing = (ch_standing){.low = INFINITY};
  for (int best = 0; best < all->count; best++) {
    if (!may_be_best(all, best)) continue;
    any = true;
    standing->low = fmin(standing->low, fmax(0, low_of(all, group, best)));
    standing->high = fmax(standing->high, fmax(0, high_of(all, group, best)));
  }
  if (!any) *standing = (ch_standing){.low = 0, .high = INFINITY}; /* seeds contradict each other */
  standing->place = standing->low > limit ? CH_OUT : standing->high <= limit ? CH_WITHIN : CH_OPEN;
}

/* Whether the rule cannot choose a group: it is excluded; or another is as cheap and better; or another is cheaper and
   within the tolerance, or better than one that is. */
static bool is_excluded(const ch_summary *summary, const intervals *all, const ch_standing *standings,
                        int group) {
  if (standings[group].place == CH_OUT) return true;
  double cost = ch_group_cost(&summary->groups[group]);
  for (int i = 0; i < all->count; i++) {
    double other = ch_group_cost(&summary->groups[i]);
    if (i != group && other <= cost && low_of(all, group, i) > 0) return true;
    if (other < cost && standings[i].place == CH_WITHIN) return true;
  }
  return false;
}

/* Returns the number of candidates. */
static int judge(const ch_summary *summary, const intervals *all, double limit, ch_standing *standings) {
  int candidates = 0;
  for (int i = 0; i < all->count; i++) place(all, i, limit, &standings[i]);
  for (int i = 0; i < all->count; i++)
    for (int k = 0; k < all->count; k++)
      if (standings[k].place == CH_WITHIN && low_of(all, k, i) > 0) standings[i].place = CH_WITHIN;
  for (int i = 0; i < all->count; i++) {
    standings[i].candidate = !is_excluded(summary, all, standings, i);
    candidates += standings[i].candidate;
  }
  return candidates;
}

/* Candidates need more seeds. If it is open whether one of them is within the tolerance, so do the groups that may be
   the best. */
static void activate(const intervals *all, ch_standing *standings) {
  bool open = false;
  for (int i = 0; i < all->count; i++)
    open = open || (standings[i].candidate && standings[i].place == CH_OPEN);
  for (int i = 0; i < all->count; i++)
    standings[i].active = standings[i].candidate || (open && may_be_best(all, i));
}

/* --- how much more ----------------------------------------------------------------------------------------------- */

static bool would_leave(const ch_comparison *comparison, const ch_summary *summary, int candidates, int more,
                        double closer, intervals *all, ch_standing *scratch) {
  fill(comparison, summary, more, closer, all);
  return judge(summary, all, summary->decision.limit, scratch) <= candidates;
}

/* The fewest further seeds that leave at most so many candidates, or -1. With more seeds the intervals only shrink, and what they
   exclude stays excluded. */
static int seeds_to_leave(const ch_comparison *comparison, const ch_summary *summary, int candidates,
                          double closer, intervals *all, ch_standing *scratch) {
  int few = 0, enough = CH_COMPARE_MOST_SEEDS - summary->seeds;
  if (enough < 1 || !would_leave(comparison, summary, candidates, enough, closer, all, scratch)) return -1;
  while (enough - few > 1) {
    int middle = (few + enough) / 2;
    if (would_leave(comparison, summary, candidates, middle, closer, all, scratch))
      enough = middle;
    else
      few = middle;
  }
  return enough;
}

/* How few candidates the largest possible number of seeds would leave, and how many seeds that takes. */
static void look_ahead(const ch_comparison *comparison, ch_summary *summary, intervals *all,
                       ch_standing *scratch) {
  ch_decision *d = &summary->decision;
  d->would_stay = d->candidates;
  d->more_seeds = -1;
  if (summary->seeds >= CH_COMPARE_MOST_SEEDS) return;
  fill(comparison, summary, CH_COMPARE_MOST_SEEDS - summary->seeds, 0, all);
  int least = judge(summary, all, d->limit, scratch);
  if (least >= d->candidates) return;
  d->more_seeds = seeds_to_leave(comparison, summary, least, 0, all, scratch);
  fill(comparison, summary, d->more_seeds, 0, all);
  d->would_stay = judge(summary, all, d->limit, scratch);
  for (int i = 0; i < summary->count; i++) d->standings[i].would_stay = scratch[i].candidate;
}

static double seconds_of(const ch_summary *summary, int seeds) {
  double seconds = 0;
  for (int i = 0; i < summary->count; i++)
    if (summary->decision.standings[i].active) seconds += ch_group_seconds(&summary->groups[i]);
  return seeds < 0 ? INFINITY : seeds * seconds;
}

static ch_status decide(const ch_comparison *comparison, ch_summary *summary, intervals *all,
                        ch_standing *scratch) {
  ch_decision *d = &summary->decision;
  fill(comparison, summary, 0, 0, all);
  d->candidates = judge(summary, all, d->limit, d->standings);
  if (summary->fewest < 2 && summary->count > 1) {
    for (int i = 0; i < summary->count; i++) d->standings[i].active = true;
    return CH_OK;
  }
  if (d->candidates == 0) return CH_OK;
  d->kind = d->candidates == 1 ? CH_VERDICT_TAKE : CH_VERDICT_NOT_DISTINGUISHABLE;
  if (d->candidates == 1) {
    for (int i = 0; i < summary->count; i++)
      if (d->standings[i].candidate) d->pick = i;
    d->surely_best = true;
    for (int i = 0; i < summary->count; i++)
      if (i != d->pick && may_be_best(all, i)) d->surely_best = false;
    return CH_OK;
  }
  for (int i = summary->count; i-- > 0 && !d->standings[d->pick].candidate;)
    if (d->standings[i].candidate) d->pick = i;
  activate(all, d->standings);
  look_ahead(comparison, summary, all, scratch);
  d->more_seconds = seconds_of(summary, d->more_seeds);
  d->hope_seconds =
      seconds_of(summary, seeds_to_leave(comparison, summary, d->candidates - 1, 1, all, scratch));
  return CH_OK;
}

ch_status ch_decide(const ch_comparison *comparison, ch_summary *summary, ch_error *error) {
  size_t count = (size_t)summary->count, pairs = count * count;
  ch_decision *d = &summary->decision;
  *d = (ch_decision){.kind = CH_VERDICT_UNDECIDED, .best = -1, .pick = -1};
  if (!count) return CH_OK;
  double *ends = ch_arena_alloc(&summary->arena, 2 * pairs * sizeof *ends);
  ch_standing *scratch = ch_arena_alloc(&summary->arena, count * sizeof *scratch);
  d->standings = ch_arena_alloc(&summary->arena, count * sizeof *d->standings);
  if (!ends || !scratch || !d->standings)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory to decide between the mechanisms");
  intervals all = {summary->count, ends, ends + pairs};
  d->best = 0;
  d->limit = limit_of(&summary->groups[0], comparison->tolerance);
  d->pick = pick_by_means(summary, d->limit);
  return decide(comparison, summary, &all, scratch);
}
