/* Groups the runs of a comparison by mechanism, and computes means and spreads over seeds and differences with their
 * confidence. laws/best.c and laws/block_means.c have the statistics; decision.c chooses. */
#include "experiment/findings/summary.h"

#include <float.h>
#include <math.h>
#include <string.h>

double ch_model_result_quality(const ch_model_result *run) {
  return run->images ? run->top1 : run->validation_loss;
}

static ch_group *find_group(ch_summary *summary, const char *name) {
  for (int i = 0; i < summary->count; i++)
    if (strcmp(summary->groups[i].name, name) == 0) return &summary->groups[i];
  return NULL;
}

/* Returns true if the loss of a run is infinite or, on text, above 1.05 times the loss of guessing, which is the
 * logarithm of the vocabulary size. */
static bool has_diverged(const ch_group *group, const ch_comparison_data *data) {
  static const double beyond_guessing = 1.05;
  const double most =
      data->vocab_size > 1 && !data->images ? beyond_guessing * log((double)data->vocab_size) : DBL_MAX;
  for (int i = 0; i < group->count; i++)
    if (!(group->runs[i]->validation_loss <= most)) return true;
  return false;
}

static bool is_better(const ch_group *a, const ch_group *b) {
  if (a->diverged != b->diverged) return b->diverged;
  return a->runs[0]->images ? a->quality > b->quality : a->quality < b->quality;
}

/* Sorts the groups, the best first. Equal groups keep their order. */
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

static const ch_model_result *run_of_seed(const ch_group *group, uint64_t seed) {
  for (int i = 0; i < group->count; i++)
    if (group->runs[i]->seed == seed) return group->runs[i];
  return NULL;
}

static int common_seeds(const ch_group *a, const ch_group *b) {
  int count = 0;
  for (int i = 0; i < a->count; i++) count += run_of_seed(b, a->runs[i]->seed) != NULL;
  return count;
}

/* Fits the runs, with mechanisms as groups and seeds as blocks. Less is better in a fit, so accuracies are negated. */
static ch_status fit_runs(ch_summary *summary, ch_block_means *fit, ch_error *error) {
  int count = 0, blocks = 0;
  for (int g = 0; g < summary->compared; g++) count += summary->groups[g].count;
  ch_block_value *values = ch_arena_alloc(&summary->arena, ((size_t)count + 1) * sizeof *values);
  uint64_t *seeds = ch_arena_alloc(&summary->arena, ((size_t)count + 1) * sizeof *seeds);
  if (!values || !seeds) return ch_no_memory(error);
  count = 0;
  for (int g = 0; g < summary->compared; g++)
    for (int i = 0; i < summary->groups[g].count; i++) {
      const ch_model_result *run = summary->groups[g].runs[i];
      int block = 0;
      while (block < blocks && seeds[block] != run->seed) block++;
      if (block == blocks) seeds[blocks++] = run->seed;
      double quality = ch_model_result_quality(run);
      values[count++] = (ch_block_value){g, block, run->images ? -quality : quality};
    }
  return ch_fit_block_means(values, count, summary->compared, blocks, &summary->arena, fit, error);
}

/* Returns the error level of the intervals. If seeds are added until the risk is small, every number of seeds is a
 * look, and the errors of all looks sum to 5 %. */
static double error_of(const ch_comparison *comparison, int seeds) {
  if (!comparison->until_decided) return 0.05;
  double first = fmax(2, (double)comparison->training.seeds), now = fmax(first, seeds);
  return 0.05 * (first - 1) / (now * (now - 1));
}

static void fill_differences(ch_summary *summary, const ch_block_means *fit, const ch_best *best) {
  int count = summary->count;
  for (int a = 0; a < count; a++)
    for (int b = 0; b < count; b++) {
      bool both = a < summary->compared && b < summary->compared;
      double chance = both ? best->tie[a * summary->compared + b] : INFINITY;
      ch_difference *d = &summary->differences[a * count + b];
      d->mean = summary->groups[a].quality - summary->groups[b].quality;
      d->low = both ? d->mean - chance : -INFINITY;
      d->high = both ? d->mean + chance : INFINITY;
      d->pairs = common_seeds(&summary->groups[a], &summary->groups[b]);
      d->beyond_noise = !both || !ch_best_tied(fit, best, a, b);
    }
}

/* Marks the groups that diverged and moves them to the end. Losses of diverged groups are not noise around a mean, so
 * diverged groups have no intervals. If all groups diverged, the groups with finite losses are compared. */
static void set_diverged_aside(const ch_comparison *comparison, ch_summary *summary) {
  for (int g = 0; g < summary->count; g++) {
    ch_group *group = &summary->groups[g];
    group->diverged = has_diverged(group, &comparison->data);
    group->quality = ch_group_spread(group, ch_model_result_quality).mean;
    summary->compared += !group->diverged;
  }
  sort(summary);
  for (int g = 0; g < summary->count && summary->groups[0].diverged; g++)
    summary->compared += isfinite(summary->groups[g].quality);
}

/* Computes means, differences and the decision. The runs are fitted twice: groups are sorted by the means of the first
 * fit, and differences and intervals follow from the second. */
static ch_status analyse(const ch_comparison *comparison, ch_summary *summary, ch_error *error) {
  size_t count = (size_t)summary->count;
  ch_block_means fit = {0};
  ch_best best = {0};
  set_diverged_aside(comparison, summary);
  for (int pass = 0; summary->compared > 0 && pass < 2; pass++) {
    CH_TRY(fit_runs(summary, &fit, error));
    for (int g = 0; g < summary->compared; g++)
      summary->groups[g].quality = summary->groups[g].runs[0]->images ? -fit.means[g] : fit.means[g];
    if (pass == 0) sort(summary);
  }
  summary->deviation = fit.deviation;
  summary->degrees = fmax(0, fit.degrees);
  summary->error = error_of(comparison, summary->seeds);
  if (summary->compared > 0) CH_TRY(ch_best_compare(&fit, summary->error, &summary->arena, &best, error));
  summary->differences = ch_arena_alloc(&summary->arena, (count * count + 1) * sizeof *summary->differences);
  if (!summary->differences) return ch_no_memory(error);
  fill_differences(summary, &fit, &best);
  return ch_decide(comparison, summary, &best, error);
}

/* --- groups ------------------------------------------------------------------------------------------------------ */

static ch_status group_runs(const ch_comparison *comparison, int most_seeds, ch_summary *summary,
                            ch_error *error) {
  size_t count = (size_t)comparison->count + 1;
  summary->groups = ch_arena_alloc(&summary->arena, count * sizeof *summary->groups);
  for (int i = 0; summary->groups && i < comparison->count; i++) {
    const ch_model_result *run = &comparison->models[i];
    if (most_seeds && run->seed - comparison->training.seed >= (uint64_t)most_seeds) continue;
    ch_group *group = find_group(summary, run->name);
    if (!group) {
      group = &summary->groups[summary->count++];
      *group = (ch_group){.name = run->name,
                          .runs = ch_arena_alloc(&summary->arena, count * sizeof(ch_model_result *))};
    }
    if (!group->runs) return ch_no_memory(error);
    group->runs[group->count++] = run;
  }
  return summary->groups ? CH_OK : ch_no_memory(error);
}

ch_status ch_summarise_first(const ch_comparison *comparison, int most_seeds, ch_summary *summary,
                             ch_error *error) {
  *summary = (ch_summary){0};
  CH_TRY(group_runs(comparison, most_seeds, summary, error));
  for (int i = 0; i < summary->count; i++) {
    int seeds = summary->groups[i].count;
    if (seeds > summary->seeds) summary->seeds = seeds;
    if (i == 0 || seeds < summary->fewest) summary->fewest = seeds;
  }
  return analyse(comparison, summary, error);
}

ch_status ch_summarise(const ch_comparison *comparison, ch_summary *summary, ch_error *error) {
  return ch_summarise_first(comparison, 0, summary, error);
}

ch_spread ch_group_spread(const ch_group *group, ch_model_result_value *value) {
  double values[CH_COMPARE_MOST_SEEDS];
  for (int i = 0; i < group->count; i++) values[i] = value(group->runs[i]);
  return ch_spread_of(values, group->count);
}

bool ch_group_any(const ch_group *group, bool (*holds)(const ch_model_result *run)) {
  for (int i = 0; i < group->count; i++)
    if (holds(group->runs[i])) return true;
  return false;
}
