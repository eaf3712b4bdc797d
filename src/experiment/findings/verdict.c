/* Writes sentences about a decision. Models of equal quality are compared by their cache or, for images, by the
   parameters of attention. */
#include "experiment/findings/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "experiment/findings/group_law.h"
#include "experiment/lineup/comparison_plan.h"

static bool on_images(const ch_group *group) {
  return group->runs[0]->images;
}

const char *const ch_verdict_kinds[] = {"take", "not_distinguishable", "undecided"};

int ch_verdict_names(const ch_summary *summary, const char **names) {
  const ch_decision *d = &summary->decision;
  int count = 0;
  if (d->pick < 0) return 0;
  names[count++] = summary->groups[d->pick].runs[0]->name;
  for (int i = 0; i < summary->count; i++)
    if (i != d->pick && d->standings[i].candidate) names[count++] = summary->groups[i].runs[0]->name;
  return count;
}

int ch_verdict_ties(const ch_summary *summary, int group, int *ties) {
  int count = 0;
  for (int i = 0; summary->decision.known && i < summary->count; i++)
    if (i != group && !ch_difference_of(summary, group, i)->beyond_noise) ties[count++] = i;
  return count;
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

/* Writes a whole number with commas: "1,024". */
static void put_count(double value, ch_text *text) {
  char digits[32];
  int length = snprintf(digits, sizeof digits, "%.0f", fmin(round(value), 1e18));
  for (int i = 0; i < length; i++)
    ch_text_printf(text, "%s%c", i > 0 && (length - i) % 3 == 0 ? "," : "", digits[i]);
}

/* Writes "256 bytes" or "12,288 parameters of attention". */
static void put_cost(const ch_group *group, ch_text *text) {
  double cost = ch_group_cost(group);
  put_count(cost, text);
  ch_text_puts(text, on_images(group) ? " parameters of attention" : round(cost) == 1 ? " byte" : " bytes");
}

/* Converts a distance to percent of the best loss or, on images, to percentage points. */
static double shown(const ch_summary *summary, double value) {
  const ch_group *best = &summary->groups[0];
  return 100 * (on_images(best) ? value : value / best->quality);
}

/* Writes a number with one decimal, or with two below 0.095; less than 0.005 becomes "0". */
static void format_share(double percent, char share[32]) {
  snprintf(share, 32, percent < 0.005 ? "%.0f" : percent < 0.095 ? "%.2f" : "%.1f", percent);
}

static void put_share(double percent, ch_text *text) {
  char share[32];
  format_share(percent, share);
  ch_text_puts(text, share);
}

/* Writes an interval as "0.2 to 2.7 %" of the best loss or "0 to 1.2 points" of accuracy; one number if both
 * ends print alike; "not known" if the noise is unknown. */
static void put_interval(const ch_summary *summary, const ch_standing *standing, ch_text *text) {
  const char *unit = on_images(&summary->groups[0]) ? "points" : "%";
  double low = shown(summary, standing->low), high = shown(summary, standing->high);
  if (!isfinite(high)) {
    ch_text_puts(text, "not known");
    return;
  }
  char first[32], last[32];
  format_share(low, first);
  format_share(high, last);
  if (strcmp(first, last) != 0) ch_text_printf(text, "%s to ", first);
  ch_text_printf(text, "%s %s", last, unit);
}

/* --- the answer -------------------------------------------------------------------------------------------------- */

/* Writes "at most 1.2 % behind the best of 9", "0.2 to 2.7 % behind the best of 9" or "the best of 9". */
static void put_behind(const ch_summary *summary, ch_text *text) {
  const ch_decision *d = &summary->decision;
  const ch_standing *s = &d->standings[d->pick];
  if (shown(summary, s->high) >= 0.005) {
    if (s->low > 0)
      put_interval(summary, s, text);
    else {
      ch_text_puts(text, "at most ");
      put_share(shown(summary, s->high), text);
      ch_text_puts(text, on_images(&summary->groups[0]) ? " points" : " %");
    }
    ch_text_puts(text, " behind ");
  }
  ch_text_printf(text, "the best of %d", summary->compared);
}

/* Writes the rest of the sentence if the noise is unknown: there is one seed, or not every model has two. */
static void put_unknown(const ch_summary *summary, ch_text *text) {
  const ch_group *pick = &summary->groups[summary->decision.pick];
  double behind = shown(summary, ch_group_behind(pick, &summary->groups[0]));
  const char *what = on_images(pick) ? "highest accuracy" : "lowest loss";
  if (behind > 0) {
    put_share(behind, text);
    ch_text_printf(text, " %s behind the %s of %d", on_images(pick) ? "points" : "%", what,
                   summary->compared);
  } else {
    ch_text_printf(text, "the %s of %d", what, summary->compared);
  }
  if (summary->seeds == 1)
    ch_text_puts(text, ". The risk is unknown with one seed; three would bound it.");
  else
    ch_text_puts(text, ". The risk is unknown until every model has two seeds.");
}

static void put_take(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  const ch_decision *d = &summary->decision;
  const ch_group *pick = &summary->groups[d->pick];
  ch_text_printf(text, "Take %s%s: ", pick->name, d->known || summary->compared == 1 ? "" : " for now");
  if (summary->compared == 1) {
    ch_text_printf(text, "it is the only model%s, with a %s%s of ",
                   summary->count > 1 ? " that did not diverge" : "", summary->seeds > 1 ? "mean " : "",
                   on_images(pick) ? "top-1 accuracy" : "validation loss");
    /* Writes "3.4012" or "61.20 %". */
    if (on_images(pick))
      ch_text_printf(text, "%.2f %%", 100 * pick->quality);
    else
      ch_text_printf(text, "%.4f", pick->quality);
    ch_text_puts(text, ".");
    return;
  }
  put_cost(pick, text);
  if (!on_images(pick)) ch_text_puts(text, " of cache per token");
  if (comparison->cache_budget > 0) {
    ch_text_puts(text, " (budget ");
    put_count(floor(comparison->cache_budget), text);
    ch_text_puts(text, ")");
  }
  ch_text_puts(text, ", ");
  if (!d->known) {
    put_unknown(summary, text);
    return;
  }
  put_behind(summary, text);
  ch_text_printf(text, " (%d %s, 95 %% confidence).", summary->seeds,
                 ch_plural(summary->seeds, "seed", "seeds"));
}

/* Writes the separator before item i of count, as in "a, b and c". */
static void put_separator(int i, int count, ch_text *text) {
  ch_text_puts(text, i == 0 ? "" : i + 1 == count ? " and " : ", ");
}

/* Names the models that have the pick's cost and are tied with it. */
static void put_equals(const ch_summary *summary, ch_text *text) {
  const ch_decision *d = &summary->decision;
  const ch_group *pick = &summary->groups[d->pick];
  int ties[CH_COMPARE_MOST], count = 0, all = ch_verdict_ties(summary, d->pick, ties);
  for (int i = 0; i < all; i++)
    if (ch_group_cost(&summary->groups[ties[i]]) == ch_group_cost(pick)) ties[count++] = ties[i];
  if (!count) return;
  ch_text_printf(text, "\n%s", pick->name);
  for (int i = 0; i < count; i++) {
    put_separator(i + 1, count + 1, text);
    ch_text_puts(text, summary->groups[ties[i]].name);
  }
  ch_text_puts(text, " are tied at ");
  put_cost(pick, text);
  if (summary->groups[ties[0]].quality != pick->quality)
    ch_text_printf(text, "; %s has the %s mean", pick->name, on_images(pick) ? "highest" : "lowest");
  ch_text_puts(text, ".");
}

static void put_choice(const ch_summary *summary, int group, ch_text *text) {
  const ch_group *g = &summary->groups[group];
  ch_text_printf(text, "%s at ", g->name);
  put_cost(g, text);
  ch_text_puts(text, " (");
  if (summary->decision.known && summary->decision.standings[group].high <= 0) {
    ch_text_puts(text, "the best)");
    return;
  }
  if (summary->decision.known) {
    put_interval(summary, &summary->decision.standings[group], text);
  } else {
    put_share(shown(summary, ch_group_behind(g, &summary->groups[0])), text);
    ch_text_puts(text, on_images(g) ? " points" : " %");
  }
  ch_text_puts(text, " behind)");
}

/* Writes the choices that cost more than the pick or, if `larger` is false, the choices that cost less. */
static void put_choices(const ch_summary *summary, bool larger, ch_text *text) {
  const ch_decision *d = &summary->decision;
  bool images = on_images(&summary->groups[0]);
  int at = 0, count;
  while (d->choices[at] != d->pick) at++;
  count = larger ? at : d->choice_count - at - 1;
  if (!count) return;
  ch_text_puts(text, larger ? (images ? "\nMore parameters: " : "\nLarger caches: ")
                            : (images ? "\nFewer parameters: " : "\nSmaller caches: "));
  for (int i = 0; i < count; i++) {
    ch_text_puts(text, i ? ", " : "");
    put_choice(summary, d->choices[larger ? i : at + 1 + i], text);
  }
  ch_text_puts(text, ".");
}

/* Writes groups by cost: "mfa and gqa (128 bytes) and mha (512 bytes)". */
static void put_by_cost(const ch_summary *summary, const int *groups, int count, ch_text *text) {
  int costs[CH_COMPARE_MOST], different = 0; /* [different] one group of each cost, the smallest cost first */
  for (int i = 0; i < count; i++) {
    double cost = ch_group_cost(&summary->groups[groups[i]]);
    int at = 0;
    while (at < different && ch_group_cost(&summary->groups[costs[at]]) < cost) at++;
    if (at < different && ch_group_cost(&summary->groups[costs[at]]) == cost) continue;
    memmove(costs + at + 1, costs + at, (size_t)(different++ - at) * sizeof *costs);
    costs[at] = groups[i];
  }
  for (int k = 0; k < different; k++) {
    const ch_group *first = &summary->groups[costs[k]];
    int alike = 0, put = 0;
    for (int i = 0; i < count; i++)
      alike += ch_group_cost(&summary->groups[groups[i]]) == ch_group_cost(first);
    put_separator(k, different, text);
    for (int i = 0; i < count; i++) {
      if (ch_group_cost(&summary->groups[groups[i]]) != ch_group_cost(first)) continue;
      put_separator(put++, alike, text);
      ch_text_puts(text, summary->groups[groups[i]].name);
    }
    ch_text_puts(text, " (");
    put_cost(first, text);
    ch_text_puts(text, ")");
  }
}

/* Writes the larger choices or, if there are none, a sentence about the larger caches. */
static void put_larger(const ch_summary *summary, ch_text *text) {
  const ch_decision *d = &summary->decision;
  const ch_group *pick = &summary->groups[d->pick];
  const char *nothing =
      on_images(pick) ? "\nMore parameters of attention buy nothing" : "\nLarger caches buy nothing";
  int ties[CH_COMPARE_MOST], count = 0, larger = 0, all = ch_verdict_ties(summary, d->pick, ties);
  if (d->choices[0] != d->pick) {
    put_choices(summary, true, text);
    return;
  }
  for (int i = 0; i < summary->compared; i++)
    larger += ch_group_cost(&summary->groups[i]) > ch_group_cost(pick);
  for (int i = 0; i < all; i++)
    if (ch_group_cost(&summary->groups[ties[i]]) > ch_group_cost(pick)) ties[count++] = ties[i];
  if (!larger || !d->known) return;
  if (!count) {
    ch_text_printf(text, "%s: all that are larger are worse.", nothing);
    return;
  }
  ch_text_printf(text, "%s measurable: ", nothing);
  if (count > 1) {
    put_by_cost(summary, ties, count, text);
    ch_text_printf(text, " are tied with %s.", pick->name);
    return;
  }
  ch_text_printf(text, "%s, ", summary->groups[ties[0]].name);
  put_cost(&summary->groups[ties[0]], text);
  ch_text_printf(text, ", is tied with %s.", pick->name);
}

static void put_nothing_fits(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  int least = 0;
  for (int i = 1; i < summary->count; i++)
    if (ch_group_cost(&summary->groups[i]) < ch_group_cost(&summary->groups[least])) least = i;
  ch_text_puts(text, "No model fits ");
  put_count(floor(comparison->cache_budget), text);
  ch_text_puts(text, floor(comparison->cache_budget) == 1 ? " byte" : " bytes");
  ch_text_printf(text, " of cache per token: the smallest, %s, needs ", summary->groups[least].name);
  put_count(ceil(ch_group_cost(&summary->groups[least])), text);
  ch_text_puts(text, ".");
}

void ch_verdict_sentence(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  if (summary->count == 0) {
    ch_text_puts(text, "No model is trained yet.");
    return;
  }
  if (summary->compared == 0) {
    ch_text_printf(text, "There is nothing to choose: %s diverged.",
                   summary->count > 1 ? "all models" : "the model");
    return;
  }
  if (summary->decision.pick < 0) {
    put_nothing_fits(summary, comparison, text);
    return;
  }
  put_take(summary, comparison, text);
  if (summary->compared == 1) return;
  put_equals(summary, text);
  if (comparison->cache_budget > 0) return;
  put_choices(summary, false, text);
  put_larger(summary, text);
}

void ch_verdict_rule(const ch_comparison *comparison, ch_text *text) {
  bool images = comparison->data.images;
  double tolerance = 100 * comparison->tolerance;
  ch_text_printf(
      text,
      images ? "The rule: of the models with a top-1 accuracy at most %.3g %s below the highest, take the "
               "one with the fewest parameters of attention."
             : "The rule: of the models with a loss at most %.3g %s above the lowest, take the one with the "
               "smallest cache; at each smaller cache, the lowest loss.",
      tolerance,
      !images          ? "%"
      : tolerance == 1 ? "point"
                       : "points");
}

/* --- noise ------------------------------------------------------------------------------------------------------- */

void ch_verdict_noise(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  bool images = comparison->data.images;
  if (summary->count < 2 || !summary->decision.known) return;
  ch_text_printf(
      text,
      "Each statement has 95 %% confidence%s (Hsu's comparison with the best, paired by seed). Chance moves "
      "the %s of a run by about %.*f%s",
      comparison->until_decided ? ", over all looks at the seeds" : "", images ? "accuracy" : "loss",
      images ? 2 : 4, images ? 100 * summary->deviation : summary->deviation, images ? " points" : "");
  ch_text_printf(text, " (standard deviation, %.0f %s of freedom).", summary->degrees,
                 ch_plural((int64_t)summary->degrees, "degree", "degrees"));
}

void ch_verdict_standings(const ch_summary *summary, ch_text *text) {
  if (summary->count < 2 || !summary->decision.known) return;
  ch_text_puts(text, on_images(&summary->groups[0]) ? "Points of accuracy below the best, 95 % interval: "
                                                    : "Loss above the best, 95 % interval: ");
  for (int i = 0; i < summary->count; i++) {
    ch_text_printf(text, "%s%s ", i ? ", " : "", summary->groups[i].name);
    if (i < summary->compared)
      put_interval(summary, &summary->decision.standings[i], text);
    else
      ch_text_puts(text, "diverged");
  }
  ch_text_puts(text, ".");
}

void ch_verdict_tokens(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  const ch_decision *d = &summary->decision;
  int closed = 0, open[CH_COMPARE_MOST], count = 0;
  for (int i = 0; d->known && !comparison->data.images && i < d->choice_count; i++) {
    const ch_group *group = &summary->groups[d->choices[i]];
    double share = ch_group_more_tokens(group, &comparison->training, d->standings[d->choices[i]].high);
    if (isinf(share)) open[count++] = d->choices[i];
    if (!(share > 0) || isinf(share)) continue; /* no law, no gap, or a gap that stays open */
    ch_text_puts(text, closed ? ", " : "More training closes these gaps: ");
    if (share < 0.005)
      ch_text_puts(text, "less than 1 %");
    else if (share < 10)
      ch_text_printf(text, "at most %.0f %%", 100 * share);
    else
      ch_text_puts(text, "more than 1,000 %");
    ch_text_printf(text, "%s for %s", closed++ ? "" : " more tokens", group->name);
  }
  if (closed) ch_text_puts(text, ".");
  if (!count) return;
  ch_text_printf(text, "%sJudging by %s, more training may never close the gap of ", closed ? " " : "",
                 count == 1 ? "its curve" : "their curves");
  for (int i = 0; i < count; i++) {
    put_separator(i, count, text);
    ch_text_puts(text, summary->groups[open[i]].name);
  }
  ch_text_puts(text, ".");
}
