/* Turns the results of a comparison into figures: series, axes and labels as JSON for the page to draw. A
 * group's colour is its rank, the same in all figures. */
#include "report/compare_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/findings/group_law.h"
#include "laws/scaling_law.h"

static bool on_images(const ch_summary *summary) {
  return summary->count && summary->groups[0].runs[0]->images;
}

/* Returns the quality that a figure shows: the top-1 accuracy in percent for images, else the validation loss. */
static double shown_quality(const ch_model_result *run) {
  return run->images ? 100 * run->top1 : run->validation_loss;
}

CH_FIGURE_OF_RUN(cost, run->images ? (double)run->parameters_attention : ch_model_result_cache_bytes(run))
CH_FIGURE_OF_RUN(training_rate, run->train_tokens_per_second)
CH_FIGURE_OF_RUN(second_rate, run->decode_tokens_per_second)
CH_FIGURE_OF_RUN(training_spread, run->train_spread)
CH_FIGURE_OF_RUN(second_spread, run->decode_spread)

static bool training_unsteady(const ch_model_result *run) {
  return run->train_unsteady;
}

static bool second_unsteady(const ch_model_result *run) {
  return run->decode_unsteady;
}

static json_t *axis(const char *title, const char *word, bool log, int base) {
  return json_pack("{s:s, s:s, s:b, s:i}", "title", title, "word", word, "log", log, "base", base);
}

/* Returns a logarithmic axis of bytes, with ticks at powers of two, written as B, KiB, MiB. */
static json_t *byte_axis(const char *title, const char *word) {
  return json_pack("{s:s, s:s, s:b, s:i, s:s}", "title", title, "word", word, "log", true, "base", 2, "unit",
                   "bytes");
}

static void put_member(json_t *object, const char *key, json_t *value) {
  json_object_set_new(object, key, value);
}

/* --- quality ----------------------------------------------------------------------------------------------------- */

static json_t *quality_points(const ch_summary *summary) {
  json_t *list = json_array();
  for (int i = 0; i < summary->compared; i++) { /* a model that diverged would press the others together */
    const ch_group *group = &summary->groups[i];
    ch_spread spread = ch_group_spread(group, shown_quality);
    bool chosen = false;
    for (int k = 0; k < summary->decision.choice_count; k++) chosen |= summary->decision.choices[k] == i;
    json_t *point = json_pack("{s:s, s:i, s:f, s:f, s:b}", "name", group->name, "colour", i, "x",
                              cost(group->runs[0]), "y", spread.mean, "chosen", chosen);
    if (spread.count > 1) {
      put_member(point, "low", json_real(spread.mean - spread.deviation));
      put_member(point, "high", json_real(spread.mean + spread.deviation));
    }
    json_array_append_new(list, point);
  }
  return list;
}

/* Returns the points of the choices, the cheapest first. */
static json_t *front(const ch_summary *summary) {
  json_t *list = json_array();
  for (int i = summary->decision.choice_count; i-- > 0;) {
    const ch_group *group = &summary->groups[summary->decision.choices[i]];
    json_array_append_new(
        list, json_pack("[f, f]", cost(group->runs[0]), ch_group_spread(group, shown_quality).mean));
  }
  return list;
}

static json_t *limit(const ch_summary *summary, const ch_comparison *comparison) {
  double best = ch_group_spread(&summary->groups[0], shown_quality).mean,
         percent = 100 * comparison->tolerance;
  char name[80];
  bool images = on_images(summary);
  snprintf(name, sizeof name, images ? "within %.3g points of the highest" : "within %.3g %% of the lowest",
           percent);
  return json_pack("{s:f, s:s, s:s}", "y", images ? best - percent : best * (1 + comparison->tolerance),
                   "name", name, "better", images ? "high" : "low");
}

json_t *ch_figure_quality(const ch_summary *summary, const ch_comparison *comparison) {
  bool images = on_images(summary);
  int choices = summary->decision.choice_count;
  char note[200];
  snprintf(note, sizeof note, "%s%s",
           images ? "Up and to the left is better: a higher accuracy with fewer parameters."
                  : "Down and to the left is better: a lower loss with a smaller cache.",
           choices > 1    ? " Rings mark the choices, and a line joins them."
           : choices == 1 ? " A ring marks the choice."
                          : "");
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "id", "quality", "kind", "points",
                   "title", images ? "Accuracy against parameters of attention" : "Quality against cache",
                   "note", note, "x",
                   images ? axis("parameters of attention", "parameters", true, 10)
                          : byte_axis("KV cache per token at 16 bits", "cache"),
                   "y",
                   images ? axis("top-1 accuracy, %", "accuracy", false, 10)
                          : axis("validation loss, nats per token", "loss", false, 10),
                   "points", quality_points(summary), "front", front(summary), "limit",
                   summary->compared > 0 ? limit(summary, comparison) : json_null());
}

/* --- losses ------------------------------------------------------------------------------------------------------ */

typedef struct curve {
  const ch_curve_point *points;
  int count;
} curve;

static curve training_of(const ch_model_result *run) {
  return (curve){run->curve, run->curve_points};
}

static curve validation_of(const ch_model_result *run) {
  return (curve){run->validation_curve, run->validation_points};
}

static int shortest(const ch_group *group, curve (*of)(const ch_model_result *run)) {
  int count = of(group->runs[0]).count;
  for (int i = 1; i < group->count; i++)
    if (of(group->runs[i]).count < count) count = of(group->runs[i]).count;
  return count;
}

/* Returns the mean over seeds as a line, and the range of the seeds as its band. */
static json_t *mean_series(const ch_group *group, int colour, curve (*of)(const ch_model_result *run),
                           const char *kind, const char *style) {
  json_t *points = json_array(), *band = json_array();
  for (int p = 0, count = shortest(group, of); p < count; p++) {
    double mean = 0, low = INFINITY, high = -INFINITY;
    double tokens = (double)of(group->runs[0]).points[p].tokens;
    for (int i = 0; i < group->count; i++) {
      double loss = of(group->runs[i]).points[p].loss;
      mean += loss / group->count;
      low = fmin(low, loss);
      high = fmax(high, loss);
    }
    json_array_append_new(points, json_pack("[f, f]", tokens, mean));
    if (group->count > 1) json_array_append_new(band, json_pack("[f, f, f]", tokens, low, high));
  }
  return json_pack("{s:s, s:i, s:s, s:s, s:o, s:o}", "name", group->name, "colour", colour, "group", kind,
                   "style", style, "points", points, "band", band);
}

/* Returns the fitted law over the range of tokens that it was fitted to; NULL if there is none. */
static json_t *law_series(const ch_group *group, int colour, const ch_comparison_training *training) {
  ch_scaling_law law;
  if (!ch_group_law(group, training, &law)) return NULL;
  json_t *points = json_array();
  for (int i = 0; i < group->runs[0]->curve_points; i++) {
    double tokens = (double)group->runs[0]->curve[i].tokens;
    if (tokens >= law.first)
      json_array_append_new(points, json_pack("[f, f]", tokens, ch_predict_loss(&law, tokens)));
  }
  return json_pack("{s:s, s:i, s:s, s:s, s:o}", "name", group->name, "colour", colour, "group", "fitted law",
                   "style", "dashed", "points", points);
}

json_t *ch_figure_curves(const ch_summary *summary, const ch_comparison *comparison) {
  bool images = on_images(summary);
  json_t *series = json_array();
  const int shown = summary->compared > 0 ? summary->compared : summary->count;
  for (int i = 0; i < shown; i++) { /* models that diverged are left out, unless all did */
    const ch_group *group = &summary->groups[i];
    json_array_append_new(series, mean_series(group, i, validation_of, "validation", "marks"));
    json_t *training = mean_series(group, i, training_of, "training", "thin");
    json_object_del(training, "band"); /* the spread of single batches is mostly noise */
    json_array_append_new(series, training);
    json_t *law = law_series(group, i, &comparison->training);
    if (law) json_array_append_new(series, law);
  }
  json_t *figure =
      json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:[s, s, s]}", "id", "loss", "kind", "lines", "title",
                "Loss while training", "x",
                axis(images ? "training images" : "training tokens", images ? "images" : "tokens", false, 10),
                "y", axis(images ? "loss, nats per image" : "loss, nats per token", "loss", false, 10),
                "series", series, "switches", "second-half", "log-x", "log-y");
  /* These series are hidden until the reader switches them on: training losses are noisier, and laws crowd the
     figure. */
  put_member(figure, "off", json_pack("[s, s]", "training", "fitted law"));
  if (summary->seeds > 1)
    put_member(figure, "note",
               json_string("Lines are means over seeds. Bands show the range of validation losses."));
  return figure;
}

/* --- seeds ------------------------------------------------------------------------------------------------------- */

bool ch_has_tried_rates(const ch_summary *summary) {
  for (int i = 0; i < summary->count; i++)
    if (summary->groups[i].runs[0]->tried_count) return true;
  return false;
}

static int by_rate(const void *a, const void *b) {
  double x = ((const ch_tried_rate *)a)->lr, y = ((const ch_tried_rate *)b)->lr;
  return (x > y) - (x < y);
}

/* Returns the losses of the learning rates whose runs were not stopped early, the lowest rate first. */
static json_t *rate_series(const ch_group *group, int colour) {
  const ch_model_result *run = group->runs[0];
  ch_tried_rate *tried = malloc((size_t)(run->tried_count + 1) * sizeof *tried);
  if (!tried) return NULL;
  memcpy(tried, run->tried, (size_t)run->tried_count * sizeof *tried);
  qsort(tried, (size_t)run->tried_count, sizeof *tried, by_rate);
  json_t *points = json_array();
  for (int i = 0; i < run->tried_count; i++)
    if (!tried[i].stopped) json_array_append_new(points, json_pack("[f, f]", tried[i].lr, tried[i].loss));
  free(tried);
  return json_pack("{s:s, s:i, s:s, s:s, s:o}", "name", group->name, "colour", colour, "group", "tried",
                   "style", "marks", "points", points);
}

json_t *ch_figure_rates(const ch_summary *summary) {
  json_t *series = json_array();
  for (int i = 0; i < summary->count; i++)
    if (summary->groups[i].runs[0]->tried_count)
      json_array_append_new(series, rate_series(&summary->groups[i], i));
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:[s, s], s:[s]}", "id", "rates", "kind", "lines", "title",
      "Loss against learning rate", "note",
      "Runs that found each mechanism's learning rate. Those that were stopped early are left out.", "x",
      axis("learning rate", "rate", true, 10), "y",
      axis("validation loss, nats per token", "loss", false, 10), "series", series, "switches", "log-x",
      "log-y", "on", "log-x");
}

json_t *ch_figure_seeds(const ch_summary *summary) {
  json_t *dots = json_array(), *runs = json_array();
  const ch_group *longest = NULL;
  for (int i = 0; i < summary->compared; i++) {
    const ch_group *group = &summary->groups[i];
    ch_spread spread = ch_group_spread(group, shown_quality);
    json_t *values = json_array();
    if (group->count == summary->seeds) longest = group;
    for (int k = 0; k < group->count; k++)
      json_array_append_new(values, json_real(shown_quality(group->runs[k])));
    json_array_append_new(dots,
                          json_pack("{s:s, s:i, s:o, s:f, s:f}", "name", group->name, "colour", i, "values",
                                    values, "mean", spread.mean, "deviation", spread.deviation));
  }
  for (int k = 0; longest && k < longest->count; k++)
    json_array_append_new(runs, json_sprintf("seed %llu", (unsigned long long)longest->runs[k]->seed));
  bool images = on_images(summary);
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "id", "seeds", "kind", "dots", "title", "Spread between seeds",
      "note",
      "Each symbol is one run, with its own shape for each seed. The line is the mean, the bar is one "
      "standard deviation to each side.",
      "x",
      images ? axis("top-1 accuracy, %", "accuracy", false, 10)
             : axis("validation loss, nats per token", "loss", false, 10),
      "runs", runs, "dots", dots);
}

/* --- speed ------------------------------------------------------------------------------------------------------- */

/* Returns the group's name, with a question mark if its speed is in doubt. */
static json_t *doubted(const ch_group *group, bool doubt) {
  return json_sprintf("%s%s", group->name, doubt ? " ?" : "");
}

/* Returns a figure of bars. `spread` is half the distance between the quartiles of a run's measurements. */
static json_t *bars_of(const ch_summary *summary, const char *id, const char *title, const char *unit,
                       ch_model_result_value *value, ch_model_result_value *spread,
                       bool (*unsteady)(const ch_model_result *run)) {
  json_t *bars = json_array();
  bool ranged = false, doubtful = false;
  for (int i = 0; i < summary->count; i++) {
    const ch_group *group = &summary->groups[i];
    double mean = ch_group_spread(group, value).mean, half = ch_group_spread(group, spread).mean;
    bool doubt = ch_group_any(group, unsteady);
    doubtful |= doubt;
    json_t *bar = json_pack("{s:o, s:i, s:f}", "name", doubted(group, doubt), "colour", i, "value", mean);
    if (half > 0) {
      put_member(bar, "low", json_real(mean - half));
      put_member(bar, "high", json_real(mean + half));
      ranged = true;
    }
    json_array_append_new(bars, bar);
  }
  json_t *figure = json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", id, "kind", "bars", "title", title, "x",
                             axis(unit, "speed", false, 10), "bars", bars);
  if (ranged || doubtful)
    put_member(figure, "note",
               json_sprintf("%s%s%s",
                            ranged ? "Lines show the spread: half of the measurements are within it." : "",
                            ranged && doubtful ? " " : "", doubtful ? "? not steady." : ""));
  return figure;
}

json_t *ch_figure_training_speed(const ch_summary *summary) {
  const char *unit = on_images(summary) ? "images per second" : "tokens per second";
  return bars_of(summary, "training-speed", "Training speed", unit, training_rate, training_spread,
                 training_unsteady);
}

json_t *ch_figure_second_speed(const ch_summary *summary) {
  if (on_images(summary))
    return bars_of(summary, "seeing-speed", "Classifying images", "images per second", second_rate,
                   second_spread, second_unsteady);
  return bars_of(summary, "decoding-speed", "Decoding one sequence", "tokens per second", second_rate,
                 second_spread, second_unsteady);
}

/* --- decoding by depth ------------------------------------------------------------------------------------------- */

static curve depths_of(const ch_model_result *run) {
  return (curve){run->decode_curve, run->decode_points};
}

bool ch_has_depths(const ch_summary *summary) {
  for (int i = 0; i < summary->count; i++)
    if (shortest(&summary->groups[i], depths_of) > 1) return true;
  return false;
}

json_t *ch_figure_depths(const ch_summary *summary) {
  json_t *series = json_array();
  bool doubtful = false;
  for (int i = 0; i < summary->count; i++) {
    const ch_group *group = &summary->groups[i];
    json_t *one = mean_series(group, i, depths_of, "", "marks");
    bool doubt = ch_group_any(group, second_unsteady);
    doubtful |= doubt;
    json_object_del(one, "group");
    put_member(one, "name", doubted(group, doubt));
    json_array_append_new(series, one);
  }
  const char *note = doubtful
                         ? "One sequence in F32. The cache is filled with random states up to the "
                           "depth. ? not steady."
                         : "One sequence in F32. The cache is filled with random states up to the depth.";
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:[s, s], s:[s, s]}", "id", "decoding-depth", "kind",
                   "lines", "title", "Decoding speed against depth", "note", note, "x",
                   axis("tokens in the cache", "depth", true, 2), "y",
                   axis("tokens per second", "speed", true, 10), "series", series, "switches", "log-x",
                   "log-y", "on", "log-x", "log-y");
}

/* --- size -------------------------------------------------------------------------------------------------------- */

bool ch_has_account(const ch_summary *summary) {
  for (int i = 0; i < summary->count; i++)
    if (summary->groups[i].runs[0]->flops > 0) return true;
  return false;
}

enum { MOST_PARTS = 5 };

/* Returns a figure of bars that consist of parts. Parts that no model has are left out. */
static json_t *stacked(const ch_summary *summary, const char *id, const char *title, json_t *x,
                       const char *const *names,
                       void (*parts_of)(const ch_model_result *run, double values[MOST_PARTS])) {
  double values[MOST_PARTS];
  bool used[MOST_PARTS] = {false};
  json_t *parts = json_array(), *bars = json_array();
  for (int i = 0; i < summary->count; i++) {
    parts_of(summary->groups[i].runs[0], values);
    for (int p = 0; p < MOST_PARTS; p++) used[p] |= values[p] > 0;
  }
  for (int p = 0; p < MOST_PARTS; p++)
    if (used[p]) json_array_append_new(parts, json_string(names[p]));
  for (int i = 0; i < summary->count; i++) {
    json_t *list = json_array();
    parts_of(summary->groups[i].runs[0], values);
    for (int p = 0; p < MOST_PARTS; p++)
      if (used[p]) json_array_append_new(list, json_real(values[p]));
    json_array_append_new(bars, json_pack("{s:s, s:o}", "name", summary->groups[i].name, "values", list));
  }
  return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "id", id, "kind", "bars", "title", title, "x", x,
                   "parts", parts, "bars", bars);
}

static void parameter_parts(const ch_model_result *run, double values[MOST_PARTS]) {
  int64_t known = run->parameters_attention + run->parameters_feed_forward + run->parameters_embedding +
                  run->parameters_gate_embedding;
  values[0] = (double)run->parameters_attention;
  values[1] = (double)run->parameters_feed_forward;
  values[2] = (double)run->parameters_embedding;
  values[3] = (double)run->parameters_gate_embedding;
  values[4] = (double)(run->parameters > known ? run->parameters - known : 0);
}

json_t *ch_figure_parameters(const ch_summary *summary) {
  static const char *const names[MOST_PARTS] = {"attention", "FFN", "embedding", "gate tables", "norms"};
  return stacked(summary, "parameters", "Parameters", axis("parameters", "parameters", false, 10), names,
                 parameter_parts);
}

static void flop_parts(const ch_model_result *run, double values[MOST_PARTS]) {
  values[0] = run->flops_projections;
  values[1] = run->flops_context;
  values[2] = run->flops_feed_forward;
  values[3] = run->flops_head;
  values[4] = 0;
}

json_t *ch_figure_flops(const ch_summary *summary) {
  static const char *const names[MOST_PARTS] = {"projections", "attention over context", "FFN", "head", ""};
  const ch_model_result *run = summary->groups[0].runs[0];
  char title[80];
  if (run->images)
    snprintf(title, sizeof title, "FLOPs per image");
  else
    snprintf(title, sizeof title, "FLOPs per token at %lld tokens of context", (long long)run->flops_depth);
  json_t *figure = stacked(summary, "flops", title, axis("FLOPs", "FLOPs", false, 10), names, flop_parts);
  put_member(figure, "note", json_string("Forward pass; a multiply-add counts as two."));
  return figure;
}
