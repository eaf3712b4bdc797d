/* The cheapest model whose quality is as good as the best, within a stated tolerance: by the cache where models decode, by
 * the parameters of attention where they see images. */
#include "report/verdict.h"

#include <math.h>

/* What a model costs that is as good as another. */
static int64_t cost_of(const ch_compared *model) {
  return model->images ? model->parameters_attention : model->cache_elements_per_token;
}

/* Losses compare by their ratio, accuracies by their difference. */
static bool is_close(const ch_compared *model, const ch_compared *best, double tolerance) {
  if (model->images) return model->top1 >= best->top1 - tolerance;
  return model->validation_loss <= best->validation_loss * (1 + tolerance);
}

ch_verdict ch_verdict_of(const ch_comparison *comparison) {
  const ch_compared *models = comparison->models;
  ch_verdict verdict = {-1, -1};
  for (int i = 0; i < comparison->count; i++)
    if (verdict.best < 0 || ch_compared_is_better(&models[i], &models[verdict.best])) verdict.best = i;
  verdict.take = verdict.best;
  for (int i = 0; i < comparison->count; i++) {
    const ch_compared *model = &models[i], *take = &models[verdict.take];
    if (!is_close(model, &models[verdict.best], comparison->tolerance)) continue;
    if (cost_of(model) > cost_of(take)) continue;
    if (cost_of(model) == cost_of(take) && !ch_compared_is_better(model, take)) continue;
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

/* "0.4 %" of a loss, "1 point" of an accuracy. */
static void put_tolerance(const ch_comparison *comparison, ch_text *text) {
  double tolerance = 100 * comparison->tolerance;
  if (comparison->data.images)
    ch_text_printf(text, "%.3g point%s", tolerance, tolerance == 1 ? "" : "s");
  else
    ch_text_printf(text, "%.3g %%", tolerance);
}

/* "3.4012", "61.20 %" */
static void put_quality(const ch_compared *model, ch_text *text) {
  if (model->images)
    ch_text_printf(text, "%.2f %%", 100 * model->top1);
  else
    ch_text_printf(text, "%.4f", model->validation_loss);
}

void ch_verdict_sentence(const ch_comparison *comparison, ch_text *text) {
  ch_verdict verdict = ch_verdict_of(comparison);
  bool images = comparison->data.images;
  if (verdict.best < 0) {
    ch_text_puts(text, "No model is trained yet.");
    return;
  }
  const ch_compared *best = &comparison->models[verdict.best], *take = &comparison->models[verdict.take];
  if (comparison->count == 1) {
    ch_text_printf(text, "%s reached a %s of ", best->name, images ? "top-1 accuracy" : "validation loss");
    put_quality(best, text);
    ch_text_puts(text, "; there is nothing to compare it with.");
    return;
  }
  if (best == take) {
    ch_text_printf(text, "Take %s: it has the %s, ", best->name,
                   images ? "highest top-1 accuracy" : "lowest validation loss");
    put_quality(best, text);
    ch_text_puts(text, ", and none within ");
    put_tolerance(comparison, text);
    ch_text_puts(text,
                 images ? " of it has fewer parameters in its attention." : " of it has a smaller cache.");
    return;
  }
  ch_text_printf(text, "Take %s: its %s, ", take->name, images ? "top-1 accuracy" : "validation loss");
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
