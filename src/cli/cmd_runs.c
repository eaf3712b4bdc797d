/* crosshead runs: what was trained, with which settings, and what came of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/keep.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/runs_text.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *runs, *sort;
  int64_t limit;
  bool json, curves, dry_run;
} arguments;

/* Runs that were found, and the open file. */
typedef struct selection {
  ch_runs *file;
  ch_arena arena;
  ch_kept_run *runs;
  int64_t count;
} selection;

static ch_status find(const arguments *a, const char *const *terms, bool curves, selection *s,
                      ch_error *error) {
  ch_runs_query query = {.terms = terms, .sort = a->sort, .limit = a->limit, .curves = curves};
  while (query.count < CH_POSITIONAL_MAX && terms[query.count]) query.count++;
  *s = (selection){0};
  CH_TRY(ch_runs_open(ch_runs_file(a->runs), false, &s->file, error));
  ch_status status = ch_runs_find(s->file, &query, &s->arena, &s->runs, &s->count, error);
  return status;
}

static void release(selection *s) {
  ch_runs_close(s->file);
  ch_arena_free(&s->arena);
}

static ch_status print_runs_json(const selection *s, bool curves, ch_error *error) {
  json_t *list = json_array();
  for (int64_t i = 0; i < s->count; i++)
    json_array_append_new(list, ch_kept_run_to_json(&s->runs[i], curves));
  return ch_print_json(json_pack("{so}", "runs", list), JSON_INDENT(1) | JSON_REAL_PRECISION(9), error);
}

/* --- list -------------------------------------------------------------------------------------------------------- */

static ch_status list(const void *given, ch_error *error) {
  const arguments *a = given;
  const char *const *terms = a->positional;
  selection s;
  if (terms[0] && strcmp(terms[0], "list") == 0) terms++;
  ch_status status = find(a, terms, a->curves, &s, error);
  if (status == CH_OK && a->json) {
    status = print_runs_json(&s, a->curves, error);
  } else if (status == CH_OK) {
    ch_text text = {0};
    if (s.count)
      ch_runs_table(s.runs, s.count, &text);
    else
      ch_text_puts(&text, "No runs.\n");
    status = ch_print_text(&text, error);
  }
  release(&s);
  return status;
}

#define AT(member) .offset = offsetof(arguments, member)
#define RUNS_FILE                                                                                            \
  {                                                                                                          \
    .name = "runs", .type = CH_OPTION_PATH, AT(runs), .metavar = "FILE",                                     \
    .help = "The file of runs (runs.sqlite here, or what CROSSHEAD_RUNS says)."                              \
  }
#define JSON_FLAG                                                                                            \
  { .name = "json", .type = CH_OPTION_FLAG, AT(json), .help = "Print one JSON object." }
#define SORT                                                                                                 \
  {                                                                                                          \
    .name = "sort", .type = CH_OPTION_TEXT, AT(sort), .metavar = "KEY",                                      \
    .help = "Order by a key, the lowest first; -KEY: the highest first (--sort=-KEY)."                       \
  }
#define LIMIT                                                                                                \
  {                                                                                                          \
    .name = "limit", .type = CH_OPTION_COUNT, AT(limit), .metavar = "N", .min = 1, .max = 1e15,              \
    .help = "The first N of them."                                                                           \
  }

static const char terms_text[] =
    "A FILTER is the number of a run, or KEY=VALUE with one of = != < <= > >= ~ (contains); all must hold. A "
    "KEY is seed, lr, name, mechanism, dataset, kind, status, tokens, parameters, loss, validation_loss, "
    "directory, started, ... or a member of what is kept as JSON: config.hidden_size, options.batch, "
    "results.verdict, machine.cores. Quote < and > for the shell.";

static const ch_option list_options[] = {
    RUNS_FILE,
    SORT,
    LIMIT,
    JSON_FLAG,
    {.name = "curves", .type = CH_OPTION_FLAG, AT(curves), .help = "With --json: the loss curves too."},
    {0}};

const ch_command ch_cmd_runs = {
    .name = "runs",
    .positional = "[FILTER]...",
    .summary = "List what was trained and evaluated, all or what FILTERs find.",
    .description = terms_text,
    .examples = "crosshead runs\n"
                "crosshead runs mechanism=gqa 'validation_loss<3' --sort validation_loss\n"
                "crosshead runs show 3\n"
                "crosshead runs compare 3 4",
    .options = list_options,
    .arguments_size = sizeof(arguments),
    .run = list,
};

/* --- show -------------------------------------------------------------------------------------------------------- */

static ch_status show(const void *given, ch_error *error) {
  const arguments *a = given;
  selection s;
  ch_status status = find(a, a->positional, true, &s, error);
  if (status == CH_OK && a->json) {
    status = print_runs_json(&s, true, error);
  } else if (status == CH_OK) {
    ch_text text = {0};
    for (int64_t i = 0; i < s.count; i++) {
      if (i) ch_text_puts(&text, "\n");
      ch_runs_page(&s.runs[i], &text);
    }
    if (!s.count) ch_text_puts(&text, "No runs.\n");
    status = ch_print_text(&text, error);
  }
  release(&s);
  return status;
}

static const ch_option show_options[] = {RUNS_FILE, SORT, LIMIT, JSON_FLAG, {0}};

const ch_command ch_cmd_runs_show = {
    .name = "runs show",
    .positional = "FILTER...",
    .summary = "Everything that is kept of runs: settings, machine, results, with --json curves.",
    .description = terms_text,
    .examples = "crosshead runs show 3\ncrosshead runs show 3 --json",
    .options = show_options,
    .arguments_size = sizeof(arguments),
    .run = show,
};

/* --- compare ----------------------------------------------------------------------------------------------------- */

static ch_status compare(const void *given, ch_error *error) {
  const arguments *a = given;
  selection s;
  ch_status status = find(a, a->positional, false, &s, error);
  if (status == CH_OK && s.count < 2)
    status = ch_fail(error, CH_ERROR_ARGUMENT, "%s to compare; name two or more",
                     s.count ? "one run is not enough" : "no runs are found");
  if (status == CH_OK && a->json) {
    status = ch_print_json(ch_runs_differences_json(s.runs, s.count), JSON_INDENT(1) | JSON_REAL_PRECISION(9),
                           error);
  } else if (status == CH_OK) {
    ch_text text = {0};
    ch_runs_differences(s.runs, s.count, &text);
    status = ch_print_text(&text, error);
  }
  release(&s);
  return status;
}

const ch_command ch_cmd_runs_compare = {
    .name = "runs compare",
    .positional = "FILTER...",
    .summary = "What differs between runs: settings, machines, results.",
    .description = terms_text,
    .examples = "crosshead runs compare 3 4\ncrosshead runs compare kind=sweep name~gqa",
    .options = show_options,
    .arguments_size = sizeof(arguments),
    .run = compare,
};

/* --- delete ------------------------------------------------------------------------------------------------------ */

static ch_status remove_found(const arguments *a, const selection *s, ch_error *error) {
  ch_text text = {0};
  int64_t *ids = calloc((size_t)s->count + 1, sizeof *ids);
  if (!ids) return ch_fail(error, CH_ERROR_MEMORY, "no memory to delete runs");
  for (int64_t i = 0; i < s->count; i++) ids[i] = s->runs[i].id;
  ch_status status = a->dry_run ? CH_OK : ch_runs_delete(s->file, ids, s->count, error);
  free(ids);
  if (status != CH_OK) return status;
  if (s->count) ch_runs_table(s->runs, s->count, &text);
  ch_text_printf(&text, "%lld run%s %s.%s\n", (long long)s->count, s->count == 1 ? "" : "s",
                 a->dry_run ? "would be deleted" : "deleted",
                 a->dry_run || !s->count ? "" : " Models and logs stay where they are.");
  return ch_print_text(&text, error);
}

static ch_status delete_runs(const void *given, ch_error *error) {
  const arguments *a = given;
  selection s;
  ch_status status = find(a, a->positional, false, &s, error);
  if (status == CH_OK) status = remove_found(a, &s, error);
  release(&s);
  return status;
}

static const ch_option delete_options[] = {
    RUNS_FILE,
    {.name = "dry-run", .type = CH_OPTION_FLAG, AT(dry_run), .help = "Only say what would be deleted."},
    {0}};

const ch_command ch_cmd_runs_delete = {
    .name = "runs delete",
    .positional = "FILTER...",
    .summary = "Delete runs from the file of runs; their models and logs stay.",
    .description = terms_text,
    .examples = "crosshead runs delete 3\ncrosshead runs delete status=failed --dry-run",
    .options = delete_options,
    .arguments_size = sizeof(arguments),
    .run = delete_runs,
};

/* --- add --------------------------------------------------------------------------------------------------------- */

static ch_status add_one(ch_runs *file, const char *directory, ch_error *error) {
  ch_arena arena = {0};
  ch_kept_run run;
  int64_t id = 0;
  ch_status status = ch_run_collect(directory, &(ch_run_labels){0}, &arena, &run, error);
  if (status == CH_OK) status = ch_runs_put(file, &run, &id, error);
  if (status == CH_OK) printf("%lld  %s\n", (long long)id, run.directory);
  ch_arena_free(&arena);
  return status;
}

static ch_status add(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_runs *file;
  ch_status status = CH_OK;
  CH_TRY(ch_runs_open(ch_runs_file(a->runs), true, &file, error));
  for (int i = 0; i < CH_POSITIONAL_MAX && a->positional[i] && status == CH_OK; i++)
    status = add_one(file, a->positional[i], error);
  ch_runs_close(file);
  return status;
}

static const ch_option add_options[] = {RUNS_FILE, {0}};

const ch_command ch_cmd_runs_add = {
    .name = "runs add",
    .positional = "DIR...",
    .summary = "Keep training runs that were not kept when they ran, from the logs in their directories.",
    .description = "A run that is kept already is not kept twice.",
    .examples = "crosshead runs add old/model comparison/gqa-4",
    .options = add_options,
    .arguments_size = sizeof(arguments),
    .run = add,
};
