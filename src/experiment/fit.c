/* Fits laws to the curves or models of a file, and writes a law's warnings and JSON. findings/curve_file.c reads the
 * files; src/laws has the numerics. */
#define _GNU_SOURCE
#include "experiment/fit.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "experiment/findings/curve_file.h"
#include "experiment/findings/comparison_json.h"
#include "experiment/findings/sweep_results.h"
#include "laws/loss_spikes.h"
#include "laws/scaling_law.h"
#include "laws/size_law.h"

/* Returns the index of the first point to fit. By default it is the first of a table; in logs and results the first
 * tenth of the tokens is skipped, as in a sweep. */
static int first_point(const ch_fit_settings *settings, const ch_loss_curve *curve, bool table) {
  double skip = settings->skip >= 0      ? (double)settings->skip
                : table || !curve->count ? 0
                                         : curve->tokens[curve->count - 1] / 10;
  int first = 0;
  while (first < curve->count && curve->tokens[first] <= skip) first++;
  return first;
}

static ch_status fit_one(const ch_fit_settings *settings, const ch_loss_curve *curve,
                         const ch_loss_curve *training, bool table, ch_arena *arena, ch_curve_fit *fitted,
                         ch_error *error) {
  int first = first_point(settings, curve, table);
  ch_error why = {0};
  *fitted = (ch_curve_fit){.name = curve->name, .points = curve->count};
  fitted->stability = ch_judge_stability(training->losses, training->count);
  fitted->has_law = ch_fit_scaling_law(curve->tokens + first, curve->losses + first, curve->count - first,
                                       (double)settings->budget, &fitted->law, &why) == CH_OK;
  fitted->no_law = ch_arena_strdup(arena, fitted->has_law ? "" : why.message);
  return fitted->no_law ? CH_OK : ch_no_memory(error);
}

ch_status ch_fit_curves(const char *path, const ch_fit_settings *settings, ch_fits *fits, ch_error *error) {
  ch_loss_curve *curves, *training;
  int count, others;
  bool table;
  *fits = (ch_fits){0};
  CH_TRY(ch_read_curves(path, !settings->training, &fits->arena, &curves, &count, &table, error));
  /* Spikes are found in training losses only. */
  CH_TRY(ch_read_curves(path, false, &fits->arena, &training, &others, NULL, error));
  if (count == 0) return ch_fail(error, CH_ERROR_FORMAT, "%s holds no curve", path);
  fits->file = ch_arena_strdup(&fits->arena, path);
  fits->curves = ch_arena_alloc(&fits->arena, (size_t)count * sizeof *fits->curves);
  if (!fits->file || !fits->curves) return ch_no_memory(error);
  for (int i = 0; i < count; i++, fits->count++)
    CH_TRY(fit_one(settings, &curves[i], i < others ? &training[i] : &curves[i], table, &fits->arena,
                   &fits->curves[i], error));
  return CH_OK;
}

/* Converts a text with one warning per line to a list, and releases the text. */
static json_t *lines_to_json(ch_text *text) {
  json_t *list = json_array();
  char *rest = text->data;
  for (char *line; rest && (line = strsep(&rest, "\n")) != NULL;)
    if (*line) json_array_append_new(list, json_string(line));
  if (text->failed) {
    json_decref(list);
    list = NULL;
  }
  ch_text_free(text);
  return list;
}

void ch_scaling_law_warnings(const ch_scaling_law *law, ch_text *text) {
  if (law->systematic > 0)
    ch_text_printf(text,
                   "The law does not fit: systematic deviations from it are %.3g nats. "
                   "Intervals and predictions are too narrow.\n",
                   law->systematic);
  else if (law->correlation > 0.9)
    ch_text_printf(text,
                   "The law may not fit: neighbouring points deviate from it together (correlation %.2f).\n",
                   law->correlation);
  if (law->outliers * 5 > law->points)
    ch_text_printf(text, "The law does not fit %d of the %d points, which count as outliers.\n",
                   law->outliers, law->points);
  if (!(law->alpha.low > 0) || !(law->alpha.high < INFINITY))
    ch_text_puts(text, "These losses do not bound alpha, so they cannot be extrapolated.\n");
}

static json_t *curve_fit_json(const ch_curve_fit *f) {
  ch_text warnings = {0};
  json_t *object = json_pack("{ss, si, so, so}", "name", f->name, "points", f->points, "stability",
                             ch_stability_to_json(&f->stability), "law",
                             f->has_law ? ch_scaling_law_to_json(&f->law) : json_null());
  if (object && !f->has_law) json_object_set_new(object, "no_law", json_string(f->no_law));
  if (f->has_law) ch_scaling_law_warnings(&f->law, &warnings);
  if (object) json_object_set_new(object, "warnings", lines_to_json(&warnings));
  return object;
}

json_t *ch_fits_to_json(const ch_fits *fits) {
  json_t *list = json_array();
  for (int32_t i = 0; i < fits->count; i++) json_array_append_new(list, curve_fit_json(&fits->curves[i]));
  return json_pack("{ss, so}", "file", fits->file, "curves", list);
}

/* --- size and tokens --------------------------------------------------------------------------------------------- */

static ch_status fit_models(const char *path, const ch_fit_settings *settings, ch_arena *arena,
                            ch_size_law *law, ch_error *error) {
  ch_sized_models models;
  CH_TRY(ch_read_sized_models(path, !settings->training, arena, &models, error));
  ch_error why = {0};
  ch_status status = ch_fit_size_law(settings->form, models.sizes, models.tokens, models.losses, models.count,
                                     (double)settings->parameters, (double)settings->budget, law, &why);
  if (status == CH_ERROR_ARGUMENT) status = CH_ERROR_FORMAT; /* the file is at fault */
  if (status == CH_OK) return CH_OK;
  ch_fail_as(error, status, &why);
  return ch_fail_in(error, path);
}

ch_status ch_fit_models(const char *path, const ch_fit_settings *settings, ch_size_law *law,
                        ch_error *error) {
  ch_arena arena = {0};
  ch_status status = fit_models(path, settings, &arena, law, error);
  ch_arena_free(&arena);
  return status;
}

const char *const *ch_size_law_names(ch_size_form form) {
  static const char *const ratio[] = {"alpha_N", "N_c", "alpha_D", "D_c"}, *const sum[] = {"alpha", "A",
                                                                                           "beta", "B"};
  return form == CH_SIZE_FORM_SUM ? sum : ratio;
}

/* Adds the names of the quantities whose interval is open: it reaches 0 or has no upper end. */
static void put_unbounded(const ch_size_law *law, ch_text *text) {
  const char *const *names = ch_size_law_names(law->form);
  const struct {
    const char *name;
    const ch_estimate *estimate;
  } all[] = {{names[0], &law->alpha_size}, {names[1], &law->size}, {names[2], &law->alpha_tokens},
             {names[3], &law->tokens},     {"E", &law->floor},     {"the predicted loss", &law->at}};
  for (size_t i = 0, found = 0; i < sizeof all / sizeof *all; i++) {
    const ch_estimate *e = all[i].estimate;
    if ((e == &law->floor && law->form != CH_SIZE_FORM_SUM) || isnan(e->value)) continue;
    if (e->low > 0 && e->high < INFINITY) continue;
    ch_text_printf(text, "%s%s", found++ ? ", " : "", all[i].name);
  }
}

void ch_size_law_warnings(const ch_size_law *law, ch_text *text) {
  ch_text open = {0};
  if (law->systematic > 0) {
    ch_text_printf(text,
                   "The law does not fit: systematic deviations from it are %.2g %% of the loss. Intervals "
                   "and predictions are too narrow.",
                   100 * law->systematic);
    if (law->other_noise > 0 && law->other_noise < law->noise / 2)
      ch_text_printf(text, " The law \"%s\" leaves %.2g %%.",
                     law->form == CH_SIZE_FORM_SUM ? "size" : "chinchilla", 100 * law->other_noise);
    ch_text_puts(text, "\n");
  }
  if (law->outliers * 5 > law->points)
    ch_text_printf(text, "The law does not fit %d of the %d models, which count as outliers.\n",
                   law->outliers, law->points);
  put_unbounded(law, &open);
  if (law->says_nothing)
    ch_text_puts(text,
                 "These models do not determine how the loss depends on size or on tokens. Add models.\n");
  else if (open.size > 0)
    ch_text_printf(text, "These models do not bound %s. Add sizes or numbers of tokens.\n", open.data);
  text->failed |= open.failed;
  ch_text_free(&open);
}

json_t *ch_size_law_to_json(const char *file, const ch_size_law *law) {
  const char *const *names = ch_size_law_names(law->form);
  ch_text warnings = {0};
  ch_size_law_warnings(law, &warnings);
  json_t *object =
      json_pack("{ss, so, so, so, so, sf, si, si, si, si, sb, so}", "file", file, names[0],
                ch_estimate_to_json(&law->alpha_size), names[1], ch_estimate_to_json(&law->size), names[2],
                ch_estimate_to_json(&law->alpha_tokens), names[3], ch_estimate_to_json(&law->tokens), "noise",
                law->noise, "models", law->points, "sizes", law->sizes, "lengths", law->lengths, "outliers",
                law->outliers, "says_nothing", law->says_nothing, "warnings", lines_to_json(&warnings));
  if (object && law->form == CH_SIZE_FORM_SUM)
    json_object_set_new(object, "E", ch_estimate_to_json(&law->floor));
  if (object && law->at_size > 0)
    json_object_update_new(object, json_pack("{sf, sf, so}", "parameters", law->at_size, "budget",
                                             law->at_tokens, "loss", ch_estimate_to_json(&law->at)));
  return object;
}
