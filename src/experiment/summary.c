/* Means, spreads and paired differences over seeds, with intervals that hold together. */
#include "experiment/summary.h"

#include <math.h>
#include <string.h>

double ch_compared_quality(const ch_compared *run) {
  return run->images ? run->top1 : run->validation_loss;
}

static ch_group *find(ch_summary *summary, const char *name) {
  for (int i = 0; i < summary->count; i++)
    if (strcmp(summary->groups[i].name, name) == 0) return &summary->groups[i];
  return NULL;
}

static bool is_better(const ch_group *a, const ch_group *b) {
  return a->runs[0]->images ? a->quality > b->quality : a->quality < b->quality;
}

/* The best first; equal ones keep their order. */
static void sort(ch_summary *summary) {
  for (int i = 1; i < summary->count; i++) {
    ch_group group = summary->groups[i];
    int at = i;
    for (; at > 0 && is_better(&group, &summary->groups[at - 1]); at--)
      summary->groups[at] = summary->groups[at - 1];
    summary->groups[at] = group;
  }
}

/* --- noise ------------------------------------------------------------------------------------------------------- */

static const ch_compared *run_of_seed(const ch_group *group, uint64_t seed) {
  for (int i = 0; i < group->count; i++)
    if (group->runs[i]->seed == seed) return group->runs[i];
  return NULL;
}

/* The difference over common seeds, with the pair's own variance. */
static ch_difference pair_of(const ch_group *a, const ch_group *b) {
  double values[CH_COMPARE_MOST_SEEDS];
  ch_difference d = {.low = -INFINITY, .high = INFINITY};
  for (int i = 0; i < a->count; i++) {
    const ch_compared *other = run_of_seed(b, a->runs[i]->seed);
    if (other) values[d.pairs++] = ch_compared_quality(a->runs[i]) - ch_compared_quality(other);
  }
  ch_spread spread = ch_spread_of(values, d.pairs);
  d.mean = spread.mean;
  d.variance = spread.deviation * spread.deviation;
  return d;
}

/* The residuals of the runs after the means of mechanisms and of seeds are subtracted. */
static double degrees_of(const ch_summary *summary) {
  int degrees = 1 - summary->count;
  for (int g = 0; g < summary->count; g++)
    for (int i = 0; i < summary->groups[g].count; i++) {
      bool earlier = false;
      for (int before = 0; before < g && !earlier; before++)
        earlier = run_of_seed(&summary->groups[before], summary->groups[g].runs[i]->seed) != NULL;
      degrees += earlier; /* of every seed, all runs but the first */
    }
  return degrees;
}

static double pooled_variance(const ch_summary *summary) {
  double sum = 0, weights = 0;
  for (int a = 0; a < summary->count; a++)
    for (int b = 0; b < a; b++) {
      const ch_difference *d = ch_difference_of(summary, a, b);
      if (d->pairs < 2) continue;
      sum += (d->pairs - 1) * d->variance;
      weights += d->pairs - 1;
    }
  return weights > 0 ? sum / weights : 0;
}

double ch_error_of_interval(const ch_comparison *comparison, int groups, int seeds) {
  double error = 0.05 / fmax(1, groups * (groups - 1) / 2.0);
  if (!comparison->until_decided) return error;
  /* One look for every number of seeds from the first on; the shares of all looks add up to 1. */
  double first = fmax(2, (double)comparison->training.seeds), now = fmax(first, seeds);
  return error * (first - 1) / (now * (now - 1));
}

static ch_status measure_noise(const ch_comparison *comparison, ch_summary *summary, ch_error *error) {
  int count = summary->count;
  summary->differences =
      ch_arena_alloc(&summary->arena, ((size_t)count * (size_t)count + 1) * sizeof *summary->differences);
  if (!summary->differences) return ch_fail(error, CH_ERROR_MEMORY, "no memory to summarise the comparison");
  for (int a = 0; a < count; a++)
    for (int b = 0; b < count; b++)
      summary->differences[a * count + b] = pair_of(&summary->groups[a], &summary->groups[b]);
  double pooled = pooled_variance(summary);
  summary->degrees = degrees_of(summary);
  summary->error = ch_error_of_interval(comparison, count, summary->seeds);
  double t = ch_student_t(summary->error, summary->degrees);
  for (int i = 0; i < count * count; i++) {
    ch_difference *d = &summary->differences[i];
    if (d->pairs < 2 || i / count == i % count) continue;
    d->variance = fmax(d->variance, pooled);
    double half = t * sqrt(d->variance / d->pairs);
    d->low = d->mean - half;
    d->high = d->mean + half;
    d->beyond_noise = d->low > 0 || d->high < 0;
  }
  return CH_OK;
}

const ch_difference *ch_difference_of(const ch_summary *summary, int a, int b) {
  return &summary->differences[a * summary->count + b];
}

/* --- groups ------------------------------------------------------------------------------------------------------ */

static ch_status group_runs(const ch_comparison *comparison, int most_seeds, ch_summary *summary,
                            ch_error *error) {
  size_t count = (size_t)comparison->count + 1;
  summary->groups = ch_arena_alloc(&summary->arena, count * sizeof *summary->groups);
  for (int i = 0; summary->groups && i < comparison->count; i++) {
    const ch_compared *run = &comparison->models[i];
    ch_group *group = find(summary, run->name);
    if (!group) {
      group = &summary->groups[summary->count++];
      *group = (ch_group){.name = run->name,
                          .runs = ch_arena_alloc(&summary->arena, count * sizeof(ch_compared *))};
    }
    if (!group->runs) return ch_fail(error, CH_ERROR_MEMORY, "no memory to summarise the comparison");
    if (most_seeds && group->count == most_seeds) continue;
    group->runs[group->count++] = run;
  }
  return summary->groups ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory to summarise the comparison");
}

ch_status ch_summarise_first(const ch_comparison *comparison, int most_seeds, ch_summary *summary,
                             ch_error *error) {
  *summary = (ch_summary){0};
  CH_TRY(group_runs(comparison, most_seeds, summary, error));
  for (int i = 0; i < summary->count; i++) {
    int seeds = summary->groups[i].count;
    if (seeds > summary->seeds) summary->seeds = seeds;
    if (i == 0 || seeds < summary->fewest) summary->fewest = seeds;
    summary->groups[i].quality = ch_group_spread(&summary->groups[i], ch_compared_quality).mean;
  }
  sort(summary);
  CH_TRY(measure_noise(comparison, summary, error));
  return ch_decide(comparison, summary, error);
}

ch_status ch_summarise(const ch_comparison *comparison, ch_summary *summary, ch_error *error) {
  return ch_summarise_first(comparison, 0, summary, error);
}

ch_spread ch_group_spread(const ch_group *group, ch_compared_value *value) {
  double values[CH_COMPARE_MOST_SEEDS];
  for (int i = 0; i < group->count; i++) values[i] = value(group->runs[i]);
  return ch_spread_of(values, group->count);
}
