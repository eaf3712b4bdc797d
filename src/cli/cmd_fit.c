/* crosshead fit CURVE: the law of a loss curve, and its spikes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "report/sweep_text.h"
#include "train/curve_file.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *on;
  int64_t budget, skip;
  bool json;
} arguments;

/* What is said of one curve. */
typedef struct fitted {
  const ch_read_curve *curve;
  ch_stability stability;
  bool has_law;
  ch_scaling_law law;
  ch_error why; /* there is none */
} fitted;

/* Of a table all points count; of a run of ours, as in a sweep, those behind the first tenth. */
static int first_point(const arguments *a, const ch_read_curve *curve, bool table) {
  double skip = ch_option_given(a, "skip") ? (double)a->skip
                : table || !curve->count   ? 0
                                           : curve->tokens[curve->count - 1] / 10;
  int first = 0;
  while (first < curve->count && curve->tokens[first] <= skip) first++;
  return first;
}

static void fit_one(const arguments *a, const ch_read_curve *curve, const ch_read_curve *training, bool table,
                    fitted *f) {
  ch_stability_watch watch;
  int first = first_point(a, curve, table), steps = 0;
  *f = (fitted){.curve = curve};
  ch_stability_begin(&watch, training->count);
  while (steps < training->count && isfinite(training->losses[steps]))
    ch_stability_loss(&watch, training->losses[steps++]);
  f->stability = ch_stability_end(&watch, steps == training->count);
  f->has_law = ch_scaling_law_fit(curve->tokens + first, curve->losses + first, curve->count - first,
                                  (double)a->budget, &f->law, &f->why) == CH_OK;
}

/* --- output ------------------------------------------------------------------------------------------------------ */

static void put_estimate(const char *name, const ch_estimate *e, ch_text *text) {
  ch_text_printf(text, "  %-22s ", name);
  ch_estimate_text(e, text);
  ch_text_puts(text, "\n");
}

static void put_spikes(const ch_stability *s, ch_text *text) {
  ch_text_printf(text, "  %-22s %lld", "spikes", (long long)s->spikes);
  for (int i = 0; i < s->kept && i < 5; i++)
    ch_text_printf(text, "%s points %lld to %lld, %.3g high%s", i ? ";" : ":", (long long)s->list[i].first,
                   (long long)s->list[i].last, s->list[i].height,
                   s->list[i].recovered ? "" : ", not recovered");
  ch_text_printf(text, "%s\n  %-22s %s\n", s->spikes > 5 ? "; ..." : "", "verdict",
                 ch_stability_name(s->verdict));
}

static void put_text(const fitted *f, ch_text *text) {
  const ch_scaling_law *law = &f->law;
  char first[32], last[32], budget[32], name[64];
  ch_text_printf(text, "%s: ", f->curve->name);
  if (f->has_law) {
    ch_text_printf(text, "L(D) = (D_c/D)^alpha + L_0, fitted to %d points from %s to %s\n", law->points,
                   ch_format_count(law->first, first, sizeof first),
                   ch_format_count(law->last, last, sizeof last));
    put_estimate("alpha", &law->alpha, text);
    put_estimate("D_c", &law->tokens, text);
    put_estimate("L_0", &law->floor, text);
    if (law->budget > 0) {
      snprintf(name, sizeof name, "loss at %s", ch_format_count(law->budget, budget, sizeof budget));
      put_estimate(name, &law->at, text);
    }
    ch_text_printf(text, "  %-22s %.3g", "noise", law->noise);
    if (law->noise_power > 0) ch_text_printf(text, " (grows with loss^%g)", law->noise_power);
    ch_text_printf(text, ", correlation %.2f, %d outlier%s\n", law->correlation, law->outliers,
                   law->outliers == 1 ? "" : "s");
  } else {
    ch_text_printf(text, "no law: %s\n", f->why.message);
  }
  put_spikes(&f->stability, text);
}

static json_t *to_json(const fitted *f) {
  json_t *object = json_pack("{ss, si, so, so}", "name", f->curve->name, "points", f->curve->count,
                             "stability", ch_stability_to_json(&f->stability), "law",
                             f->has_law ? ch_scaling_law_to_json(&f->law) : json_null());
  if (object && !f->has_law) json_object_set_new(object, "no_law", json_string(f->why.message));
  return object;
}

/* --- the command ------------------------------------------------------------------------------------------------- */

static ch_status fit_all(const arguments *a, ch_arena *arena, ch_text *text, json_t *list, ch_error *error) {
  const char *path = a->positional[0];
  bool validation = strcmp(a->on, "training") != 0, table;
  ch_read_curve *curves, *training;
  int count, others;
  fitted f;
  CH_TRY(ch_read_curves(path, validation, arena, &curves, &count, &table, error));
  CH_TRY(ch_read_curves(path, false, arena, &training, &others, NULL, error)); /* spikes are of steps */
  if (count == 0) return ch_fail(error, CH_ERROR_FORMAT, "%s holds no curve", path);
  for (int i = 0; i < count; i++) {
    fit_one(a, &curves[i], i < others ? &training[i] : &curves[i], table, &f);
    if (count == 1 && !f.has_law && !a->json && curves[i].count < CH_SCALING_LEAST_POINTS)
      return ch_fail(error, CH_ERROR_FORMAT, "%s: %s", path, f.why.message);
    put_text(&f, text);
    json_array_append_new(list, to_json(&f));
  }
  return CH_OK;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_arena arena = {0};
  ch_text text = {0};
  json_t *list = json_array();
  ch_status status = fit_all(a, &arena, &text, list, error);
  if (status == CH_OK && a->json)
    status = ch_print_json(json_pack("{ss, sO}", "file", a->positional[0], "curves", list),
                           JSON_INDENT(1) | JSON_REAL_PRECISION(9), error);
  else if (status == CH_OK)
    status = ch_print_text(&text, error);
  if (a->json || status != CH_OK) ch_text_free(&text);
  json_decref(list);
  ch_arena_free(&arena);
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
     .help = "Also the loss that the law says for so many tokens."},
    {.name = "skip",
     .type = CH_OPTION_COUNT,
     AT(skip),
     .metavar = "TOKENS",
     .min = 0,
     .max = 0,
     .help = "Leave out points up to so many tokens (none of a table; of logs and results the first tenth)."},
    {.name = "on",
     .type = CH_OPTION_CHOICE,
     AT(on),
     .metavar = "LOSSES",
     .choices = choices,
     .default_value = "validation",
     .help = "Which losses of a log or of results."},
    {.name = "json", .type = CH_OPTION_FLAG, AT(json), .help = "Print one JSON object."},
    {0}};

const ch_command ch_cmd_fit = {
    .name = "fit",
    .positional = "CURVE",
    .summary = "Fit the law L(D) = (D_c/D)^alpha + L_0 to a loss curve, and count its spikes.",
    .description = "CURVE is a table (CSV, or columns with spaces between) of tokens and losses, a run's "
                   "log.jsonl, or the "
                   "results.json of `compare` or `sweep`, of which every run is fitted. The fit is robust: "
                   "spikes and stray "
                   "points do not move it. Each quantity has a 95 % confidence interval; \"-\" is a bound "
                   "that the curve does "
                   "not give.",
    .examples = "crosshead fit losses.csv --budget 10G\n"
                "crosshead fit model/log.jsonl --on training\n"
                "crosshead fit sweep/results.json --budget 1G --json",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
