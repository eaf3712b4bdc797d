/* The cheapest model whose quality is as good as the best, within a stated tolerance: by the cache where models decode, by
 * the parameters of attention where they see images. */
#include "report/verdict.h"

#include <math.h>

enum { MOST_PAIRS_NAMED = 12 };

static bool on_images(const ch_group *group) {
  return group->runs[0]->images;
}

/* What a model costs that is as good as another. */
static int64_t cost_of(const ch_group *group) {
  const ch_compared *run = group->runs[0];
  return run->images ? run->parameters_attention : run->cache_elements_per_token;
}

/* Losses compare by their ratio, accuracies by their difference. */
static bool is_close(const ch_group *group, const ch_group *best, double tolerance) {
  if (on_images(group)) return group->quality >= best->quality - tolerance;
  return group->quality <= best->quality * (1 + tolerance);
}

ch_verdict ch_verdict_of(const ch_summary *summary, double tolerance) {
  const ch_group *groups = summary->groups;
  ch_verdict verdict = {summary->count ? 0 : -1, summary->count ? 0 : -1};
  for (int i = 1; i < summary->count; i++) /* the best first: of equal costs the earlier one stays */
    if (is_close(&groups[i], &groups[0], tolerance) && cost_of(&groups[i]) < cost_of(&groups[verdict.take]))
      verdict.take = i;
  return verdict;
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

void ch_verdict_sentence(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  ch_verdict verdict = ch_verdict_of(summary, comparison->tolerance);
  bool images = comparison->data.images, means = summary->seeds > 1;
  if (verdict.best < 0) {
    ch_text_puts(text, "No model is trained yet.");
    return;
  }
  const ch_group *best = &summary->groups[verdict.best], *take = &summary->groups[verdict.take];
  const char *quality = images ? "top-1 accuracy" : "validation loss", *mean = means ? "mean " : "";
  if (summary->count == 1) {
    ch_text_printf(text, "%s reached a %s%s of ", best->name, mean, quality);
    put_quality(best, text);
    ch_text_puts(text, "; there is nothing to compare it with.");
    return;
  }
  if (best == take) {
    ch_text_printf(text, "Take %s: it has the %s %s%s, ", best->name, images ? "highest" : "lowest", mean,
                   quality);
    put_quality(best, text);
    ch_text_puts(text, ", and none within ");
    put_tolerance(comparison, text);
    ch_text_puts(text,
                 images ? " of it has fewer parameters in its attention." : " of it has a smaller cache.");
    return;
  }
  ch_text_printf(text, "Take %s: its %s%s, ", take->name, mean, quality);
  put_quality(take, text);
  ch_text_puts(text, ", is within ");
  put_tolerance(comparison, text);
  ch_text_printf(text, " of the best (%s, ", best->name);
  put_quality(best, text);
  ch_text_printf(text, "), and its %s ", images ? "attention has" : "cache is");
  put_times((double)cost_of(best) / (double)cost_of(take), text);
  ch_text_puts(text, images ? " fewer parameters." : " smaller.");
}

void ch_verdict_rule(const ch_comparison *comparison, ch_text *text) {
  bool images = comparison->data.images;
  ch_text_printf(text, "The rule: of the %s at most ", images ? "top-1 accuracies" : "losses");
  put_tolerance(comparison, text);
  ch_text_puts(text, images ? " below the highest, the fewest parameters of attention."
                            : " above the lowest, the smallest cache.");
}

/* --- noise ------------------------------------------------------------------------------------------------------- */

static bool beyond(const ch_summary *summary, int worse, int better) {
  return ch_group_difference(&summary->groups[worse], &summary->groups[better], ch_compared_quality)
      .beyond_noise;
}

/* Pairs that differ (or that do not), the better one first; returns their number, and names them if there is a text. */
static int pairs(const ch_summary *summary, bool differing, ch_text *text) {
  int count = 0;
  for (int i = 0; i < summary->count; i++)
    for (int k = i + 1; k < summary->count; k++) {
      if (beyond(summary, k, i) != differing) continue;
      if (text)
        ch_text_printf(text, "%s%s %s %s", count ? ", " : "", summary->groups[i].name,
                       differing ? "before" : "and", summary->groups[k].name);
      count++;
    }
  return count;
}

static void put_named(const ch_summary *summary, ch_text *text) {
  int apart = pairs(summary, true, NULL), alike = pairs(summary, false, NULL);
  ch_text_puts(text, "Beyond it: ");
  if (!apart) ch_text_puts(text, "none");
  pairs(summary, true, text);
  ch_text_puts(text, ". Not told apart: ");
  if (!alike) ch_text_puts(text, "none");
  pairs(summary, false, text);
  ch_text_puts(text, ".");
}

/* Of many mechanisms: how many pairs, and which are not told from the best. */
static void put_counts(const ch_summary *summary, ch_text *text) {
  int apart = pairs(summary, true, NULL), alike = pairs(summary, false, NULL), named = 0;
  ch_text_printf(text, "%d of %d pairs differ beyond it. Not told apart from the best, %s: ", apart,
                 apart + alike, summary->groups[0].name);
  for (int i = 1; i < summary->count; i++)
    if (!beyond(summary, i, 0)) ch_text_printf(text, "%s%s", named++ ? ", " : "", summary->groups[i].name);
  ch_text_puts(text, named ? "." : "none.");
}

void ch_verdict_noise(const ch_summary *summary, ch_text *text) {
  if (summary->count < 2) return;
  if (summary->seeds < 2) {
    ch_text_puts(text,
                 "One run of each: nothing is known about the noise between seeds (--seeds 3 shows it).");
    return;
  }
  ch_text_printf(
      text,
      "Noise: the differences between two mechanisms, paired by seed, of %d seeds; beyond the noise is what "
      "the 95 %% interval of their mean (Student's t) keeps away from 0, for each pair on its own. ",
      summary->seeds);
  if (summary->count * (summary->count - 1) / 2 <= MOST_PAIRS_NAMED)
    put_named(summary, text);
  else
    put_counts(summary, text);
}
