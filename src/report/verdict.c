/* The smallest cache whose quality is as good as the best, within a stated tolerance. */
#include "report/verdict.h"

#include <math.h>

ch_verdict ch_verdict_of(const ch_comparison *comparison) {
  const ch_compared *models = comparison->models;
  ch_verdict verdict = {-1, -1};
  for (int i = 0; i < comparison->count; i++)
    if (verdict.best < 0 || models[i].validation_loss < models[verdict.best].validation_loss)
      verdict.best = i;
  verdict.take = verdict.best;
  for (int i = 0; i < comparison->count; i++) {
    const ch_compared *model = &models[i], *take = &models[verdict.take];
    if (model->validation_loss > models[verdict.best].validation_loss * (1 + comparison->tolerance)) continue;
    if (model->cache_elements_per_token > take->cache_elements_per_token) continue;
    if (model->cache_elements_per_token == take->cache_elements_per_token &&
        model->validation_loss >= take->validation_loss)
      continue;
    verdict.take = i;
  }
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

void ch_verdict_sentence(const ch_comparison *comparison, ch_text *text) {
  ch_verdict verdict = ch_verdict_of(comparison);
  if (verdict.best < 0) {
    ch_text_puts(text, "No model is trained yet.");
    return;
  }
  const ch_compared *best = &comparison->models[verdict.best], *take = &comparison->models[verdict.take];
  if (comparison->count == 1) {
    ch_text_printf(text, "%s reached a validation loss of %.4f; there is nothing to compare it with.",
                   best->name, best->validation_loss);
    return;
  }
  if (best == take) {
    ch_text_printf(
        text,
        "Take %s: it has the lowest validation loss, %.4f, and none within %.3g %% of it has a smaller "
        "cache.",
        best->name, best->validation_loss, 100 * comparison->tolerance);
    return;
  }
  ch_text_printf(
      text, "Take %s: its validation loss, %.4f, is within %.3g %% of the best (%s, %.4f), and its cache is ",
      take->name, take->validation_loss, 100 * comparison->tolerance, best->name, best->validation_loss);
  put_times((double)best->cache_elements_per_token / (double)take->cache_elements_per_token, text);
  ch_text_puts(text, " smaller.");
}

void ch_verdict_rule(const ch_comparison *comparison, ch_text *text) {
  ch_text_printf(text, "The rule: of the losses at most %.3g %% above the lowest, the smallest cache.",
                 100 * comparison->tolerance);
}
