/* crosshead fit CURVE: fits a law to a loss curve, or to models of several sizes, and counts spikes. */
#include <string.h>

#include <crosshead/fit.h>

#include "cli/command.h"
#include "cli/parse.h"
#include "cli/results.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *on, *law;
  int64_t budget, skip, parameters;
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

/* Fails for a file whose only curve is too short. */
static ch_status check_length(const char *path, const ch_fits *fits, ch_error *error) {
  const ch_curve_fit *first = ch_fits_curve(fits, 0);
  if (ch_fits_count(fits) > 1 || first->has_law || first->points >= CH_SCALING_LEAST_POINTS) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT, "%s: %s", path, first->no_law);
}

static ch_status run_size(const arguments *a, const ch_fit_settings *settings, ch_error *error) {
  char *text;
  CH_TRY(ch_size_law_fit_file(a->positional[0], settings, NULL, a->json ? &text : NULL,
                              a->json ? NULL : &text, error));
  return a->json ? ch_results_print_json(text, error) : ch_results_print_table(text, NULL, error);
}

/* Fails for options of another law. */
static ch_status check(const arguments *a, bool size, ch_error *error) {
  if (size && ch_option_given(a, "skip"))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--skip is for curves; --law %s uses one loss per model",
                   a->law);
  if (!size && a->parameters)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--params needs --law size or chinchilla; a curve belongs to one model");
  if (size && (a->parameters > 0) != (a->budget > 0))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--law %s predicts from --params and --budget together; give both", a->law);
  return CH_OK;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  const char *path = a->positional[0];
  bool sum = strcmp(a->law, "chinchilla") == 0, size = sum || strcmp(a->law, "size") == 0;
  ch_fit_settings settings;
  ch_fits *fits;
  CH_TRY(check(a, size, error));
  ch_fit_defaults(&settings);
  settings.training = strcmp(a->on, "training") == 0;
  settings.budget = a->budget;
  settings.parameters = a->parameters;
  settings.form = sum ? CH_SIZE_FORM_SUM : CH_SIZE_FORM_RATIO;
  if (size) return run_size(a, &settings, error);
  if (ch_option_given(a, "skip")) settings.skip = a->skip;
  CH_TRY(ch_fit_file(path, &settings, &fits, error));
  ch_status status = a->json ? CH_OK : check_length(path, fits, error);
  if (status == CH_OK) status = print(a, fits, error);
  ch_fits_free(fits);
  return status;
}

static const char *const choices[] = {"validation", "training", NULL};
static const char *const laws[] = {"tokens", "size", "chinchilla", NULL};

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    CH_CHOICE_OPTION("law", AT(law), "LAW", laws,
                     "tokens: L(D) of each curve. size, chinchilla: L(N, D) of models of several sizes, with "
                     "their last losses.",
                     .default_value = "tokens"),
    CH_COUNT_OPTION("budget", AT(budget), "TOKENS", 1, 0,
                    "Also print the loss that the law predicts after TOKENS tokens."),
    CH_COUNT_OPTION("params", AT(parameters), "N", 1, 0,
                    "With --law size or chinchilla and --budget: also print the loss of a model with N "
                    "parameters, embeddings not counted.",
                    .setting = "parameters"),
    CH_COUNT_OPTION("skip", AT(skip), "TOKENS", 0, 0,
                    "Leave out the points up to TOKENS tokens (default: 0 for tables, the first tenth for "
                    "logs and results)."),
    CH_CHOICE_OPTION("on", AT(on), "LOSSES", choices, "Which losses of a log or of results are fitted.",
                     .default_value = "validation"),
    CH_JSON_OPTION(AT(json)),
    {0}};

const ch_command ch_cmd_fit = {
    .name = "fit",
    .positional = "CURVE",
    .summary = "Fit a scaling law to a loss curve and count its spikes, or fit one to several sizes.",
    .description =
        "CURVE is a table of tokens and losses (CSV, or columns separated by spaces), the "
        "log.jsonl of a run, or the results.json of `compare` or `sweep`. In results, every "
        "run is fitted. The law is L(D) = (D_c/D)^alpha + L_0.\n\nWith --law size or chinchilla, CURVE is a "
        "table of parameters, tokens and losses, the results.json of `compare`, or what "
        "`crosshead runs --json` prints, with eight models or more. The law is L(N, D) = "
        "((N_c/N)^(alpha_N/alpha_D) + D_c/D)^alpha_D, or with chinchilla E + A/N^alpha + B/D^beta, where E "
        "is the loss that remains.\n\nFits are robust against spikes and "
        "outliers. Each quantity has a 95 % confidence interval; \"-\" marks a bound that the losses do not "
        "determine. A warning says when the law does not fit.",
    .examples = "crosshead fit losses.csv --budget 10G\n"
                "crosshead fit model/log.jsonl --on training\n"
                "crosshead fit models.csv --law size --params 1G --budget 20G\n"
                "crosshead fit models.csv --law chinchilla --params 70G --budget 1.4T\n"
                "crosshead fit sweep/results.json --budget 1G --json",
    CH_RUNS(options, arguments, run),
};
