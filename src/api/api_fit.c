/* The public functions that fit laws to losses, from files or in memory, and judge the stability of training. */
#include <crosshead/fit.h>

#include <math.h>
#include <stdlib.h>

#include "api/adapters.h"
#include "base/file.h"
#include "experiment/fit.h"
#include "laws/loss_spikes.h"
#include "laws/scaling_law.h"
#include "laws/size_law.h"
#include "report/fit_text.h"

void ch_fit_defaults(ch_fit_settings *settings) {
  *settings = (ch_fit_settings){.skip = -1};
}

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

/* --- curves in memory -------------------------------------------------------------------------------------------- */

ch_status ch_scaling_law_fit(const double *tokens, const double *losses, int32_t n, double budget,
                             ch_scaling_law *law, ch_error *error) {
  if (!tokens || !losses || !law)
    return ch_refuse_null(error, !tokens ? "the tokens" : losses ? "the place of the law" : "the losses");
  return ch_fit_scaling_law(tokens, losses, n, budget, law, error);
}

double ch_scaling_law_loss(const ch_scaling_law *law, double tokens) {
  return ch_predict_loss(law, tokens);
}

ch_status ch_size_law_fit(ch_size_form form, const double *sizes, const double *tokens, const double *losses,
                          int32_t n, double at_size, double at_tokens, ch_size_law *law, ch_error *error) {
  if (!sizes || !tokens || !losses || !law)
    return ch_refuse_null(error, !sizes    ? "the sizes"
                                 : !tokens ? "the tokens"
                                 : losses  ? "the place of the law"
                                           : "the losses");
  return ch_fit_size_law(form, sizes, tokens, losses, n, at_size, at_tokens, law, error);
}

void ch_stability_judge(const double *losses, int64_t n, ch_stability *stability) {
  *stability = ch_judge_stability(losses, n);
}

const char *ch_stability_name(ch_stability_verdict verdict) {
  return ch_stability_names[verdict];
}

double ch_size_law_loss(const ch_size_law *law, double size, double tokens) {
  double n = law->alpha_size.value, d = law->alpha_tokens.value;
  if (law->form == CH_SIZE_FORM_SUM)
    return law->floor.value + law->size.value * pow(size, -n) + law->tokens.value * pow(tokens, -d);
  return pow(pow(law->size.value / size, n / d) + law->tokens.value / tokens, d);
}
