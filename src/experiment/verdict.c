/* Sentences about a decision. The cost that decides between models of equal quality is the cache of models of text, and
   the parameters of attention of models of images. */
#include "experiment/verdict.h"

#include <math.h>

#include "experiment/plan.h"

static bool on_images(const ch_group *group) {
  return group->runs[0]->images;
}

/* "4 times", "1.5 times" */
static void put_times(double ratio, ch_text *text) {
  double rounded = round(ratio);
  if (fabs(ratio - rounded) < 0.05)
    ch_text_printf(text, "%.0f times", rounded);
  else
    ch_text_printf(text, "%.1f times", ratio);
}

/* "0.4 %" of a loss, "1 point" of an accuracy. */
static void put_tolerance(const ch_comparison *comparison, ch_text *text) {
  double tolerance = 100 * comparison->tolerance;
  if (comparison->data.images)
    ch_text_printf(text, "%.3g point%s", tolerance, tolerance == 1 ? "" : "s");
  else
    ch_text_printf(text, "%.3g %%", tolerance);
}

/* "3.4012", "61.20 %" */
static void put_quality(const ch_group *group, ch_text *text) {
  if (on_images(group))
    ch_text_printf(text, "%.2f %%", 100 * group->quality);
  else
    ch_text_printf(text, "%.4f", group->quality);
}

/* --- the sentence ------------------------------------------------------------------------------------------------ */

static void put_seeds(int seeds, ch_text *text) {
  ch_text_printf(text, "%d %s", seeds, ch_plural(seeds, "seed", "seeds"));
}

const char *ch_verdict_kind_name(ch_verdict_kind kind) {
  static const char *const names[] = {"take", "not_distinguishable", "undecided"};
  return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "undecided";
}

/* The groups that a decision is about, or those that more seeds would leave; the choice by the means comes first. */
static int list_groups(const ch_summary *summary, bool left, int *groups) {
  const ch_decision *d = &summary->decision;
  int count = 0;
  for (int n = -1; n < summary->count; n++) {
    int i = n < 0 ? d->pick : n;
    bool listed = left ? d->standings[i].would_stay : i == d->pick || d->standings[i].candidate;
    if (listed && (n < 0 || i != d->pick)) groups[count++] = i;
  }
  return count;
}

int ch_verdict_names(const ch_summary *summary, const char **names) {
  int groups[CH_COMPARE_MOST], count = summary->count ? list_groups(summary, false, groups) : 0;
  for (int n = 0; n < count; n++) names[n] = summary->groups[groups[n]].runs[0]->name;
  return count;
}

int ch_verdict_left(const ch_summary *summary, const char **names) {
  int groups[CH_COMPARE_MOST], count = summary->count ? list_groups(summary, true, groups) : 0;
  for (int n = 0; n < count; n++) names[n] = summary->groups[groups[n]].runs[0]->name;
  return count;
}

/* "gqa:2, mla or mha" */
static void put_groups(const ch_summary *summary, bool left, ch_text *text) {
  int groups[CH_COMPARE_MOST], count = list_groups(summary, left, groups);
  for (int n = 0; n < count; n++)
    ch_text_printf(text, "%s%s",
                   n == 0           ? ""
                   : n == count - 1 ? " or "
                                    : ", ",
                   summary->groups[groups[n]].name);
}

static bool is_cheapest(const ch_summary *summary, int group) {
  for (int i = 0; i < summary->count; i++)
    if (ch_group_cost(&summary->groups[i]) < ch_group_cost(&summary->groups[group])) return false;
  return true;
}

/* Why the rule takes the pick: what follows "Take gqa:2: " or "for now gqa:2: ". `sure`: the intervals say so, else the
   means do. */
static void put_reason(const ch_summary *summary, const ch_comparison *comparison, bool sure, ch_text *text) {
  const ch_decision *d = &summary->decision;
  const ch_group *best = &summary->groups[d->best], *pick = &summary->groups[d->pick];
  bool images = comparison->data.images, lowest = sure ? d->surely_best : best == pick;
  ch_text_printf(text, "its %s%s, ", summary->seeds > 1 ? "mean " : "",
                 images ? "top-1 accuracy" : "validation loss");
  put_quality(pick, text);
  if (lowest) {
    ch_text_printf(text, ", is the %s, and ", images ? "highest" : "lowest");
    if (is_cheapest(summary, d->pick)) {
      ch_text_puts(text, images ? "none has fewer parameters in its attention" : "none has a smaller cache");
    } else {
      ch_text_puts(text, "none within ");
      put_tolerance(comparison, text);
      ch_text_puts(text,
                   images ? " of it has fewer parameters in its attention" : " of it has a smaller cache");
    }
    return;
  }
  ch_text_puts(text, ", is within ");
  put_tolerance(comparison, text);
  ch_text_printf(text, " of the %s", images ? "highest" : "lowest");
  if (best != pick) {
    ch_text_printf(text, " (%s, ", best->name);
    put_quality(best, text);
    ch_text_puts(text, ")");
  }
  if (ch_group_cost(pick) < ch_group_cost(best)) {
    ch_text_printf(text, ", and its %s ", images ? "attention has" : "cache is");
    put_times(ch_group_cost(best) / ch_group_cost(pick), text);
    ch_text_puts(text, images ? " fewer parameters" : " smaller");
  } else {
    ch_text_puts(text, images ? ", and no other such model has fewer parameters in its attention"
                              : ", and no other such model has a smaller cache");
  }
}

static void put_more(const ch_summary *summary, ch_text *text) {
  const ch_decision *d = &summary->decision;
  char time[32];
  if (d->more_seeds < 0) {
    ch_text_printf(text, "even %d seeds would hardly tell", CH_COMPARE_MOST_SEEDS);
    return;
  }
  ch_text_printf(text, "about %d more %s", d->more_seeds, ch_plural(d->more_seeds, "seed", "seeds"));
  if (d->more_seconds > 0)
    ch_text_printf(text, " (%s)", ch_format_duration(d->more_seconds, time, sizeof time));
  if (d->would_stay == 1) {
    ch_text_puts(text, " would tell");
    return;
  }
  ch_text_puts(text, " would leave ");
  put_groups(summary, true, text);
  ch_text_printf(text, ", which even %d would hardly tell apart", CH_COMPARE_MOST_SEEDS);
}

static void put_undecided(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  if (summary->seeds == 1)
    ch_text_puts(text, "One seed: undecided.");
  else if (summary->fewest < 2)
    ch_text_puts(text, "Undecided: not every model has two seeds yet.");
  else
    ch_text_puts(text, "Undecided: the seeds contradict each other.");
  ch_text_printf(text, " For now %s: ", summary->groups[summary->decision.pick].name);
  put_reason(summary, comparison, false, text);
  ch_text_puts(text, summary->seeds == 1 ? "; three seeds would tell whether that is chance." : ".");
}

void ch_verdict_sentence(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  const ch_decision *d = &summary->decision;
  if (d->pick < 0) {
    ch_text_puts(text, "No model is trained yet.");
    return;
  }
  if (summary->count == 1) {
    ch_text_printf(text, "%s%s reached a %s%s of ", summary->seeds == 1 ? "One seed: " : "",
                   summary->groups[0].name, summary->seeds > 1 ? "mean " : "",
                   comparison->data.images ? "top-1 accuracy" : "validation loss");
    put_quality(&summary->groups[0], text);
    ch_text_puts(text, "; there is nothing to compare it with.");
    return;
  }
  switch (d->kind) {
  case CH_VERDICT_TAKE:
    ch_text_printf(text, "Take %s: ", summary->groups[d->pick].name);
    put_reason(summary, comparison, true, text);
    ch_text_puts(text, " (");
    put_seeds(summary->seeds, text);
    ch_text_puts(text, ", 95 % confidence).");
    break;
  case CH_VERDICT_NOT_DISTINGUISHABLE:
    put_groups(summary, false, text);
    ch_text_puts(text, ": not distinguishable with ");
    put_seeds(summary->seeds, text);
    ch_text_puts(text, "; ");
    put_more(summary, text);
    ch_text_puts(text, ".");
    break;
  case CH_VERDICT_UNDECIDED:
    put_undecided(summary, comparison, text);
    break;
  }
}

void ch_verdict_rule(const ch_comparison *comparison, ch_text *text) {
  bool images = comparison->data.images;
  ch_text_printf(text, "The rule: of the %s at most ", images ? "top-1 accuracies" : "losses");
  put_tolerance(comparison, text);
  ch_text_puts(text, images ? " below the highest, the fewest parameters of attention."
                            : " above the lowest, the smallest cache.");
}

/* --- noise ------------------------------------------------------------------------------------------------------- */

static double shown(const ch_summary *summary, double value) {
  const ch_group *best = &summary->groups[summary->decision.best];
  return 100 * (on_images(best) ? value : value / best->quality);
}

void ch_verdict_interval(const ch_summary *summary, const ch_standing *standing, ch_text *text) {
  const char *unit = on_images(&summary->groups[0]) ? "points" : "%";
  double low = shown(summary, standing->low), high = shown(summary, standing->high);
  if (high < 0.005) /* a distance from the best is never negative */
    ch_text_printf(text, "0 %s", unit);
  else if (low < 0.005)
    ch_text_printf(text, "0 to %.2f %s", high, unit);
  else
    ch_text_printf(text, "%.2f to %.2f %s", low, high, unit);
}

void ch_verdict_noise(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  if (summary->count < 2 || summary->fewest < 2) return;
  int pairs = summary->count * (summary->count - 1) / 2;
  ch_text_printf(text, "Differences are taken seed by seed. With 95 %% confidence %s right",
                 pairs == 1 ? "the interval is" : "all intervals together are");
  if (pairs > 1) ch_text_printf(text, " (Student's t, corrected for %d pairs", pairs);
  if (pairs == 1) ch_text_puts(text, " (Student's t");
  ch_text_puts(text, comparison->until_decided ? " and for looking after every seed)." : ").");
}

void ch_verdict_standings(const ch_summary *summary, ch_text *text) {
  if (summary->count < 2 || summary->fewest < 2) return;
  ch_text_printf(text,
                 "Behind the %s: ", on_images(&summary->groups[0]) ? "highest accuracy" : "lowest loss");
  for (int i = 0; i < summary->count; i++) {
    ch_text_printf(text, "%s%s ", i ? ", " : "", summary->groups[i].name);
    ch_verdict_interval(summary, &summary->decision.standings[i], text);
  }
  ch_text_puts(text, ".");
}
