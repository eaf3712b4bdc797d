/* crosshead fit CURVE: the law of a loss curve, and its spikes. */
#include <string.h>

#include <crosshead/fit.h>

#include "cli/command.h"
#include "cli/parse.h"
#include "cli/results.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *on;
  int64_t budget, skip;
  bool json;
} arguments;

static ch_status print(const arguments *a, const ch_fits *fits, ch_error *error) {
  char *text;
  if (a->json) {
    CH_TRY(ch_fits_json(fits, &text, error));
    return ch_results_print_json(text, error);
  }
  CH_TRY(ch_fits_text(fits, &text, error));
  return ch_results_print_table(text, NULL, error);
}

/* A file with nothing but a curve that is too short is wrong. */
static ch_status check_length(const char *path, const ch_fits *fits, ch_error *error) {
  const ch_fitted *first = ch_fits_curve(fits, 0);
  if (ch_fits_count(fits) > 1 || first->has_law || first->points >= CH_SCALING_LEAST_POINTS) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT, "%s: %s", path, first->no_law);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  const char *path = a->positional[0];
  ch_fit_settings settings;
  ch_fits *fits;
  ch_fit_defaults(&settings);
  settings.training = strcmp(a->on, "training") == 0;
  settings.budget = a->budget;
  if (ch_option_given(a, "skip")) settings.skip = a->skip;
  CH_TRY(ch_fit_file(path, &settings, &fits, error));
  ch_status status = a->json ? CH_OK : check_length(path, fits, error);
  if (status == CH_OK) status = print(a, fits, error);
  ch_fits_free(fits);
  return status;
}

static const char *const choices[] = {"validation", "training", NULL};

#define AT(member) .offset = offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "budget",
     .type = CH_OPTION_COUNT,
     AT(budget),
     .metavar = "TOKENS",
     .min = 1,
     .max = 0,
     .help = "Also print the loss that the law predicts after TOKENS tokens."},
    {.name = "skip",
     .type = CH_OPTION_COUNT,
     AT(skip),
     .metavar = "TOKENS",
     .min = 0,
     .max = 0,
     .help =
         "Leave out the points up to TOKENS tokens (default: tables 0; logs and results the first tenth)."},
    {.name = "on",
     .type = CH_OPTION_CHOICE,
     AT(on),
     .metavar = "LOSSES",
     .choices = choices,
     .default_value = "validation",
     .help = "Which losses of a log or of results are fitted."},
    CH_JSON_OPTION(offsetof(arguments, json)),
    {0}};

const ch_command ch_cmd_fit = {
    .name = "fit",
    .positional = "CURVE",
    .summary = "Fit the law L(D) = (D_c/D)^alpha + L_0 to a loss curve, and count its spikes.",
    .description = "CURVE is a table of tokens and losses (CSV, or columns separated by spaces), the "
                   "log.jsonl of a run, or the results.json of `compare` or `sweep`. Of results every run is "
                   "fitted. The fit is robust against spikes and outliers. Each quantity has a 95 % "
                   "confidence interval; \"-\" stands for a bound that the curve does not determine.",
    .examples = "crosshead fit losses.csv --budget 10G\n"
                "crosshead fit model/log.jsonl --on training\n"
                "crosshead fit sweep/results.json --budget 1G --json",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
