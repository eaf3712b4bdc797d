/* Fitting every curve of a file. */
#include "experiment/fit.h"

#include "base/error.h"
#include "experiment/curve_file.h"
#include "experiment/results_json.h"
#include "experiment/sweep_results.h"

void ch_fit_defaults(ch_fit_settings *settings) {
  *settings = (ch_fit_settings){.skip = -1};
}

/* All points of a table are used; of a run's log, those after the first tenth, as in a sweep. */
static int first_point(const ch_fit_settings *settings, const ch_read_curve *curve, bool table) {
  double skip = settings->skip >= 0      ? (double)settings->skip
                : table || !curve->count ? 0
                                         : curve->tokens[curve->count - 1] / 10;
  int first = 0;
  while (first < curve->count && curve->tokens[first] <= skip) first++;
  return first;
}

static ch_status fit_one(const ch_fit_settings *settings, const ch_read_curve *curve,
                         const ch_read_curve *training, bool table, ch_arena *arena, ch_fitted *fitted,
                         ch_error *error) {
  int first = first_point(settings, curve, table);
  ch_error why = {0};
  *fitted = (ch_fitted){.name = curve->name, .points = curve->count};
  ch_stability_judge(training->losses, training->count, &fitted->stability);
  fitted->has_law = ch_scaling_law_fit(curve->tokens + first, curve->losses + first, curve->count - first,
                                       (double)settings->budget, &fitted->law, &why) == CH_OK;
  fitted->no_law = ch_arena_strdup(arena, fitted->has_law ? "" : why.message);
  return fitted->no_law ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory to fit %s", curve->name);
}

ch_status ch_fit_curves(const char *path, const ch_fit_settings *settings, ch_fits *fits, ch_error *error) {
  ch_read_curve *curves, *training;
  int count, others;
  bool table;
  *fits = (ch_fits){0};
  CH_TRY(ch_read_curves(path, !settings->training, &fits->arena, &curves, &count, &table, error));
  CH_TRY(ch_read_curves(path, false, &fits->arena, &training, &others, NULL,
                        error)); /* spikes are found in step losses only */
  if (count == 0) return ch_fail(error, CH_ERROR_FORMAT, "%s holds no curve", path);
  fits->file = ch_arena_strdup(&fits->arena, path);
  fits->curves = ch_arena_alloc(&fits->arena, (size_t)count * sizeof *fits->curves);
  if (!fits->file || !fits->curves) return ch_fail(error, CH_ERROR_MEMORY, "no memory to fit %s", path);
  for (int i = 0; i < count; i++, fits->count++)
    CH_TRY(fit_one(settings, &curves[i], i < others ? &training[i] : &curves[i], table, &fits->arena,
                   &fits->curves[i], error));
  return CH_OK;
}

static json_t *to_json(const ch_fitted *f) {
  json_t *object = json_pack("{ss, si, so, so}", "name", f->name, "points", f->points, "stability",
                             ch_stability_to_json(&f->stability), "law",
                             f->has_law ? ch_scaling_law_to_json(&f->law) : json_null());
  if (object && !f->has_law) json_object_set_new(object, "no_law", json_string(f->no_law));
  return object;
}

json_t *ch_fits_to_json(const ch_fits *fits) {
  json_t *list = json_array();
  for (int32_t i = 0; i < fits->count; i++) json_array_append_new(list, to_json(&fits->curves[i]));
  return json_pack("{ss, so}", "file", fits->file, "curves", list);
}

/* --- size and tokens --------------------------------------------------------------------------------------------- */

static ch_status fit_models(const char *path, const ch_fit_settings *settings, ch_arena *arena,
                            ch_size_law *law, ch_error *error) {
  ch_read_models models;
  CH_TRY(ch_read_sized_models(path, !settings->training, arena, &models, error));
  ch_error why = {0};
  ch_status status = ch_size_law_fit(models.sizes, models.tokens, models.losses, models.count,
                                     (double)settings->parameters, (double)settings->budget, law, &why);
  if (status == CH_ERROR_ARGUMENT) status = CH_ERROR_FORMAT; /* the file is at fault */
  return status == CH_OK ? CH_OK : ch_fail(error, status, "%s: %s", path, why.message);
}

ch_status ch_fit_models(const char *path, const ch_fit_settings *settings, ch_size_law *law,
                        ch_error *error) {
  ch_arena arena = {0};
  ch_status status = fit_models(path, settings, &arena, law, error);
  ch_arena_free(&arena);
  return status;
}

json_t *ch_size_law_to_json(const char *file, const ch_size_law *law) {
  json_t *object =
      json_pack("{ss, so, so, so, so, sf, si, si, si, si, sb}", "file", file, "alpha_N",
                ch_estimate_to_json(&law->alpha_size), "N_c", ch_estimate_to_json(&law->size), "alpha_D",
                ch_estimate_to_json(&law->alpha_tokens), "D_c", ch_estimate_to_json(&law->tokens), "noise",
                law->noise, "models", law->points, "sizes", law->sizes, "lengths", law->lengths, "outliers",
                law->outliers, "says_nothing", law->says_nothing);
  if (object && law->at_size > 0)
    json_object_update_new(object, json_pack("{sf, sf, so}", "parameters", law->at_size, "budget",
                                             law->at_tokens, "loss", ch_estimate_to_json(&law->at)));
  return object;
}
