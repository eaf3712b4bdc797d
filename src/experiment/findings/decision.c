/* Chooses a mechanism for every size of cache from means and their intervals, and computes the risk of the choice.
 * verdict.c writes the sentences. */
#include "experiment/findings/decision.h"

#include <math.h>

#include "experiment/lineup/comparison_plan.h"
#include "experiment/findings/summary.h"

static bool on_images(const ch_group *group) {
  return group->runs[0]->images;
}

double ch_group_cost(const ch_group *group) {
  const ch_model_result *run = group->runs[0];
  return run->images ? (double)run->parameters_attention : ch_model_result_cache_bytes(run);
}

double ch_group_seconds(const ch_group *group) {
  double sum = 0;
  for (int i = 0; i < group->count; i++) sum += ch_model_result_seconds(group->runs[i]);
  return group->count ? sum / group->count : 0;
}

double ch_group_behind(const ch_group *group, const ch_group *of) {
  return on_images(group) ? of->quality - group->quality : group->quality - of->quality;
}

/* --- by the means ------------------------------------------------------------------------------------------------ */

/* Returns the cheapest group whose mean is within the limit of the best. Among equal costs the better group
 * wins. */
static int pick_by_means(const ch_summary *summary, double limit) {
  int pick = 0;
  for (int i = 1; i < summary->compared; i++)
    if (ch_group_behind(&summary->groups[i], &summary->groups[0]) <= limit &&
        ch_group_cost(&summary->groups[i]) < ch_group_cost(&summary->groups[pick]))
      pick = i;
  return pick;
}

/* Returns the best group that costs less than `cost`, or at most `cost` if inclusive; -1 if none does. */
static int best_below(const ch_summary *summary, double cost, bool inclusive) {
  for (int i = 0; i < summary->compared; i++) {
    double own = ch_group_cost(&summary->groups[i]);
    if (own < cost || (inclusive && own <= cost)) return i;
  }
  return -1;
}

/* --- choices ----------------------------------------------------------------------------------------------------- */

/* Lists the choices: the larger caches whose models are better than the pick beyond the noise, the pick, and the best
 * group at each smaller size. With `alone` the pick is the only choice. */
static void list_choices(ch_summary *summary, bool alone) {
  ch_decision *d = &summary->decision;
  double cost = ch_group_cost(&summary->groups[d->pick]), last = INFINITY;
  for (int i = 0; !alone && i < d->pick; i++) {
    double own = ch_group_cost(&summary->groups[i]);
    if (own <= cost || own >= last || !ch_difference_of(summary, i, d->pick)->beyond_noise) continue;
    last = own;
    d->choices[d->choice_count++] = i;
  }
  for (int i = d->pick; i >= 0;
       i = alone ? -1 : best_below(summary, ch_group_cost(&summary->groups[i]), false))
    d->choices[d->choice_count++] = i;
}

/* --- by the intervals -------------------------------------------------------------------------------------------- */

static bool is_worse(const ch_summary *summary, int group, int other) {
  return ch_difference_of(summary, group, other)->beyond_noise &&
         ch_group_behind(&summary->groups[group], &summary->groups[other]) > 0;
}

/* Returns true if the rule cannot choose a group within the limits of chance: the group diverged or is not within the
 * tolerance, another group that costs no more is better, or another group that costs less is within the tolerance. */
static bool is_excluded(const ch_summary *summary, int group) {
  const ch_decision *d = &summary->decision;
  double cost = ch_group_cost(&summary->groups[group]);
  if (d->standings[group].low > d->limit) return true;
  for (int i = 0; i < summary->count; i++) {
    double other = ch_group_cost(&summary->groups[i]);
    if (i != group && other <= cost && is_worse(summary, group, i)) return true;
    if (other < cost && d->standings[i].high <= d->limit) return true;
  }
  return group >= summary->compared;
}

/* Marks the candidates. If the budget excludes the rule's choice, the candidates are the groups that fit and are not
 * worse than the best group that fits. */
static void find_candidates(ch_summary *summary, double budget, bool rule) {
  ch_decision *d = &summary->decision;
  for (int i = 0; i < summary->count; i++) {
    bool fits = ch_group_cost(&summary->groups[i]) <= budget;
    bool may = rule ? !is_excluded(summary, i) : !is_worse(summary, i, d->pick);
    d->standings[i].candidate = i == d->pick || (fits && may);
    d->candidates += d->standings[i].candidate;
  }
}

ch_status ch_decide(const ch_comparison *comparison, ch_summary *summary, const ch_best *best,
                    ch_error *error) {
  size_t count = (size_t)summary->count;
  double budget = comparison->cache_budget > 0 ? comparison->cache_budget : INFINITY;
  ch_decision *d = &summary->decision;
  *d = (ch_decision){.kind = CH_VERDICT_UNDECIDED, .pick = -1};
  if (!count) return CH_OK;
  d->standings = ch_arena_alloc(&summary->arena, count * sizeof *d->standings);
  d->choices = ch_arena_alloc(&summary->arena, count * sizeof *d->choices);
  if (!d->standings || !d->choices) return ch_no_memory(error);
  for (size_t i = 0; i < count; i++)
    d->standings[i] = i < (size_t)summary->compared
                          ? (ch_standing){.low = best->low[i], .high = best->high[i]}
                          : (ch_standing){.low = INFINITY, .high = INFINITY};
  if (summary->compared == 0) return CH_OK;
  d->known = summary->degrees > 0;
  d->limit = on_images(&summary->groups[0]) ? comparison->tolerance
                                            : comparison->tolerance * summary->groups[0].quality;
  d->pick = pick_by_means(summary, d->limit);
  bool rule = ch_group_cost(&summary->groups[d->pick]) <= budget;
  if (!rule) d->pick = best_below(summary, budget, true);
  if (d->pick < 0) return CH_OK;
  list_choices(summary, comparison->cache_budget > 0);
  find_candidates(summary, budget, rule);
  if (summary->compared == 1 || (d->known && d->candidates == 1)) d->kind = CH_VERDICT_TAKE;
  if (d->known && d->candidates > 1) d->kind = CH_VERDICT_NOT_DISTINGUISHABLE;
  return CH_OK;
}

/* --- more seeds -------------------------------------------------------------------------------------------------- */

double ch_decision_risk(const ch_summary *summary) {
  const ch_decision *d = &summary->decision;
  return d->pick < 0
             ? INFINITY
             : d->standings[d->pick].high / (on_images(&summary->groups[0]) ? 1 : summary->groups[0].quality);
}

/* Returns how far the pick may be behind a group if both had `more` additional seeds and unchanged means and noise. */
static double reach(const ch_summary *summary, int group, int more) {
  const ch_difference *difference = ch_difference_of(summary, summary->decision.pick, group);
  double chance = difference->high - difference->mean, pairs = fmax(1, difference->pairs);
  return ch_group_behind(&summary->groups[summary->decision.pick], &summary->groups[group]) +
         chance * sqrt(pairs / (pairs + more));
}

int ch_decision_next_seeds(const ch_summary *summary, bool *needs) {
  const ch_decision *d = &summary->decision;
  int count = 0, best = 0;
  double gain = -INFINITY, left = -INFINITY;
  for (int i = 0; i < summary->count; i++) needs[i] = !d->known && i < summary->compared;
  if (!d->known || d->pick < 0) return d->pick < 0 ? 0 : summary->compared;
  /* Orders the groups by how far the pick may be behind them. The pick and the first groups get seeds, as many groups
   * as lower the risk most per second. */
  int order[CH_COMPARE_MOST];
  for (int i = 0; i < summary->compared; i++) {
    int at = count;
    if (i == d->pick) continue;
    for (; at > 0 && reach(summary, i, 0) > reach(summary, order[at - 1], 0); at--) order[at] = order[at - 1];
    order[at] = i;
    count++;
  }
  if (count == 0) return 0;
  double now = reach(summary, order[0], 0), costs = ch_group_seconds(&summary->groups[d->pick]);
  for (int n = 0; n < count; n++) {
    costs += ch_group_seconds(&summary->groups[order[n]]);
    left = fmax(left, reach(summary, order[n], 1));
    double then = fmax(left, n + 1 < count ? reach(summary, order[n + 1], 0) : -INFINITY);
    double rate = (now - then) / (costs > 0 ? costs : n + 2);
    if (rate > gain) gain = rate, best = n + 1;
  }
  needs[d->pick] = true;
  for (int n = 0; n < best; n++) needs[order[n]] = true;
  return best + 1;
}
