/* crosshead absorb MODEL --out DIR: folds knocking heads, head mixing and shared matrices into plain weights. */
#include <stdio.h>
#include <string.h>

#include <crosshead/compress.h>

#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "cli/work.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *out, *dtype;
  int64_t threads;
  bool keep_cache, json, force;
} arguments;

/* Writes a list of letters as "q, k, v"; "" if it is empty. */
static const char *states(const json_t *letters, char buffer[16]) {
  size_t i;
  json_t *letter;
  buffer[0] = 0;
  json_array_foreach(letters, i, letter) {
    size_t length = strlen(buffer);
    snprintf(buffer + length, 16 - length, "%s%s", i ? ", " : "", json_string_value(letter));
  }
  return buffer;
}

static void put_folded(const json_t *report, ch_text *text) {
  char buffer[16];
  long long shared = ch_report_count(report, "shared_projections_written"),
            residuals = ch_report_count(report, "residuals_added"),
            mixed = ch_report_count(report, "mixed_layers_folded");
  const char *knocked = states(json_object_get(report, "knocking_folded"), buffer);
  if (shared)
    ch_text_printf(text, "gave every layer its own copy of %lld shared %s\n", shared,
                   ch_plural(shared, "projection", "projections"));
  if (residuals)
    ch_text_printf(text, "added the low-rank residuals of %lld %s to them\n", residuals,
                   ch_plural(residuals, "matrix", "matrices"));
  if (*knocked) ch_text_printf(text, "folded linear knocking of %s into the projections\n", knocked);
  if (mixed)
    ch_text_printf(text, "folded the head mixing of %lld %s into the projections\n", mixed,
                   ch_plural(mixed, "layer", "layers"));
}

static void put_left(const json_t *report, bool nonlinear, ch_text *text) {
  char buffer[16];
  long long mixes = ch_report_count(report, "mixed_layers_left");
  const char *knocks = states(json_object_get(report, "knocking_left"), buffer);
  if (*knocks)
    ch_text_printf(text, "left the knocking of %s: %s\n", knocks,
                   nonlinear ? "it is not linear"
                   : mixes   ? "every head has a map of its own, and heads are mixed from cached components"
                             : "the projection is also used without knocking");
  if (mixes)
    ch_text_printf(text, "left the head mixing of %lld %s: folding it would enlarge the cache\n", mixes,
                   ch_plural(mixes, "layer", "layers"));
}

/* The context of put_page. `nonlinear` is true if knocking remains because it is not linear. */
typedef struct absorb_output {
  const arguments *arguments;
  bool nonlinear;
} absorb_output;

static void put_page(const void *context, const json_t *report, ch_text *text) {
  const absorb_output *done = context;
  const arguments *a = done->arguments;
  ch_text left = {0};
  long long before = ch_report_count(report, "cache_elements_per_token_before"),
            after = ch_report_count(report, "cache_elements_per_token");
  put_folded(report, text);
  put_left(report, done->nonlinear, &left);
  bool any_folded = text->size > 0, any_left = left.size > 0;
  if (!any_folded) ch_text_puts(text, any_left ? "nothing could be folded\n" : "there is nothing to fold\n");
  if (any_left) ch_text_put(text, left.data, left.size);
  text->failed = text->failed || left.failed;
  ch_text_free(&left);
  if (after != before)
    ch_text_printf(text, "cache per token: %lld elements, before %lld%s\n", after, before,
                   a->keep_cache ? "" : " (--keep-cache does not fold such mixing)");
  const char *type = ch_json_text_at(report, "model_type");
  ch_text_printf(text, "%s: %s %s model%s\n", a->out, ch_article(type), type,
                 any_folded || any_left ? "" : ", a copy");
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  absorb_output done = {.arguments = a};
  ch_work work;
  ch_absorb_settings settings;
  ch_absorb_defaults(&settings);
  settings.keep_cache = a->keep_cache;
  settings.type = ch_precision_of(a->dtype);
  settings.nonlinear_left = &done.nonlinear;
  settings.progress = ch_work_progress;
  settings.user = &work;
  char *json = NULL;
  ch_work_begin(&work, "folding");
  ch_status status = ch_absorb_model(a->positional[0], ch_output_path(a, "out"), &settings, &json, error);
  CH_TRY(ch_work_end(&work, status, error));
  return ch_report_print(json, a->json, put_page, &done, error);
}

static const ch_option options[] = {
    CH_PATH_OPTION("out", offsetof(arguments, out), "DIR", "Directory for the plain model.", .required = true,
                   .writes = CH_WRITES_DIRECTORY),
    CH_FLAG_OPTION("keep-cache", offsetof(arguments, keep_cache),
                   "Leave head mixing alone where folding it would enlarge the cache."),
    CH_CHOICE_OPTION("dtype", offsetof(arguments, dtype), "TYPE", ch_element_type_names,
                     "Element type to write (default: f32 if something is folded, else the model's own).",
                     .setting = "type"),
    CH_JSON_OPTION(offsetof(arguments, json)),
    CH_THREADS_OPTION(offsetof(arguments, threads)),
    CH_FORCE_OPTION(offsetof(arguments, force)),
    {0}};

const ch_command ch_cmd_absorb = {
    .name = "absorb",
    .positional = "MODEL",
    .meant = "out",
    .summary = "Fold knocking heads, head mixing and shared matrices into a plain checkpoint.",
    .description =
        "Linear knocking and head mixing are linear maps that follow a projection. absorb multiplies them "
        "into the projection's matrix, gives every layer its own copy of shared matrices, and multiplies out "
        "factored ones. The result computes the same with plainer weights. If only plain attention is left, "
        "it is a llama, qwen2, qwen3 or qwen3_moe directory that other programs load.",
    .examples = "crosshead absorb runs/kha-linear --out plain",
    CH_RUNS(options, arguments, run),
};
