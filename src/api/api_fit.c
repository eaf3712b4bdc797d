/* The public functions that fit the curves of a file. */
#include <crosshead/fit.h>

#include <stdlib.h>

#include "api/adapters.h"
#include "base/file.h"
#include "experiment/fit.h"
#include "report/fit_text.h"

ch_status ch_fit_file(const char *path, const ch_fit_settings *settings, ch_fits **fits, ch_error *error) {
  if (!path || !fits) return ch_refuse_null(error, path ? "the result pointer" : "the file's name");
  *fits = NULL;
  ch_fit_settings own;
  ch_fit_defaults(&own);
  if (!settings) settings = &own;
  if (settings->budget < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "budget is %lld; it is a number of tokens, or 0",
                   (long long)settings->budget);
  ch_fits *made = calloc(1, sizeof *made);
  if (!made) return ch_no_memory(error);
  ch_status status = ch_fit_curves(path, settings, made, error);
  if (status == CH_OK)
    *fits = made;
  else
    ch_fits_free(made);
  return status;
}

static ch_status give_law(const char *path, const ch_size_law *law, char **json, char **text,
                          ch_error *error) {
  ch_text lines = {0};
  char *made = NULL;
  if (json) CH_TRY(ch_api_json(ch_size_law_to_json(path, law), &made, error));
  if (text) {
    char stem[128];
    ch_path_stem(path, stem, sizeof stem);
    ch_size_law_write(stem, law, &lines);
    ch_status status = ch_api_text(&lines, text, error);
    if (status != CH_OK) {
      ch_free(made);
      return status;
    }
  }
  if (json) *json = made;
  return CH_OK;
}

ch_status ch_size_law_fit_file(const char *path, const ch_fit_settings *settings, ch_size_law *law,
                               char **json, char **text, ch_error *error) {
  ch_size_law fitted;
  ch_fit_settings own;
  ch_fit_defaults(&own);
  if (!path) return ch_refuse_null(error, "the file's name");
  if (!settings) settings = &own;
  if (settings->skip >= 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "skip is for curves; a law of size and tokens uses one loss per model");
  CH_TRY(ch_fit_models(path, settings, &fitted, error));
  if (law) *law = fitted;
  return give_law(path, &fitted, json, text, error);
}

void ch_fits_free(ch_fits *fits) {
  if (!fits) return;
  ch_arena_free(&fits->arena);
  free(fits);
}

int32_t ch_fits_count(const ch_fits *fits) {
  return fits->count;
}

const ch_curve_fit *ch_fits_curve(const ch_fits *fits, int32_t index) {
  return index >= 0 && index < fits->count ? &fits->curves[index] : NULL;
}

ch_status ch_fits_json(const ch_fits *fits, char **json, ch_error *error) {
  return ch_api_json(ch_fits_to_json(fits), json, error);
}

ch_status ch_fits_text(const ch_fits *fits, char **text, ch_error *error) {
  ch_text lines = {0};
  ch_fits_write(fits, &lines);
  return ch_api_text(&lines, text, error);
}
