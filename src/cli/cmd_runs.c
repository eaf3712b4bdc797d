/* crosshead runs: lists, shows, compares, adds and deletes recorded runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/record_run.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/runs_cells.h"
#include "cli/runs_text.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *runs, *sort;
  int64_t limit;
  bool json, curves, dry_run;
} arguments;

/* The open file, and the runs found in it. */
typedef struct selection {
  ch_runs *file;
  ch_run_list *found;
  int64_t count;
} selection;

static ch_status open_file(const arguments *a, unsigned flags, ch_runs **file, ch_error *error) {
  return ch_runs_open(ch_runs_file(a->runs), flags, file, error);
}

static ch_status find(const arguments *a, const char *const *terms, bool curves, selection *s,
                      ch_error *error) {
  ch_runs_query query = {.terms = terms, .sort = a->sort, .limit = a->limit, .curves = curves};
  while (query.count < CH_POSITIONAL_MAX && terms[query.count]) query.count++;
  *s = (selection){0};
  CH_TRY(open_file(a, 0, &s->file, error));
  CH_TRY(ch_runs_find(s->file, &query, &s->found, error));
  s->count = ch_run_list_count(s->found);
  return CH_OK;
}

static void release(selection *s) {
  ch_runs_close(s->file);
  ch_run_list_free(s->found);
}

static ch_status print_runs_json(const selection *s, bool curves, ch_error *error) {
  json_t *list = json_array();
  for (int64_t i = 0; i < s->count; i++)
    json_array_append_new(list, ch_run_object(ch_run_list_at(s->found, i), curves));
  return ch_print_json(json_pack("{so}", "runs", list), JSON_INDENT(1) | JSON_REAL_PRECISION(9), error);
}

/* --- list --------------------------------------------------------------------------------------------------- */

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
      ch_runs_table(s.found, &text);
    else
      ch_text_puts(&text, "No runs found.\n");
    status = ch_print_text(&text, error);
  }
  release(&s);
  return status;
}

#define AT(member) offsetof(arguments, member)
#define RUNS_FILE                                                                                            \
  CH_PATH_OPTION("runs", AT(runs), "FILE",                                                                   \
                 "The file of runs (default: CROSSHEAD_RUNS, else runs.sqlite in the current directory).")
#define SORT                                                                                                 \
  CH_TEXT_OPTION("sort", AT(sort), "KEY", "Sort by KEY, lowest first. --sort=-KEY sorts highest first.")
#define LIMIT CH_COUNT_OPTION("limit", AT(limit), "N", 1, 1e15, "Use only the first N runs.")

static const char terms_text[] =
    "A FILTER is the number of a run, or KEY=VALUE with one of = != < <= > >= ~ "
    "(contains). A run is found if it meets every KEY=VALUE and, if there are numbers, "
    "has one of them. KEY is a heading of the list (kind, name, mechanism, seed, lr, "
    "parameters, tokens, loss, status), another column (dataset, directory, "
    "validation_loss, training_loss, started, finished, ...), or a member of the recorded JSON: "
    "config.hidden_size, options.batch, results.stability.verdict, machine.cores. "
    "mechanism=gqa finds gqa:4 too. loss is the validation loss, or the training loss if "
    "there is no other. Quote < and > for the shell.";

static const ch_option list_options[] = {
    RUNS_FILE,
    SORT,
    LIMIT,
    CH_JSON_OPTION(AT(json)),
    CH_FLAG_OPTION("curves", AT(curves), "With --json: print the loss curves too."),
    {0}};

const ch_command ch_cmd_runs = {
    .name = "runs",
    .positional = "[FILTER]...",
    .summary = "List what was trained and evaluated.",
    .description = terms_text,
    .examples = "crosshead runs\n"
                "crosshead runs mechanism=gqa 'validation_loss<3' --sort validation_loss\n"
                "crosshead runs show 3\n"
                "crosshead runs compare 3 4",
    CH_RUNS(list_options, arguments, list),
};

/* --- show --------------------------------------------------------------------------------------------------- */

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
      ch_runs_page(ch_run_list_at(s.found, i), &text);
    }
    if (!s.count) ch_text_puts(&text, "No runs match; `crosshead runs` lists all of them.\n");
    status = ch_print_text(&text, error);
  }
  release(&s);
  return status;
}

static const ch_option show_options[] = {RUNS_FILE, SORT, LIMIT, CH_JSON_OPTION(AT(json)), {0}};

const ch_command ch_cmd_runs_show = {
    .name = "runs show",
    .positional = "FILTER...",
    .summary =
        "Show everything recorded about a run: settings, machine, results; with --json the curves too.",
    .description = terms_text,
    .examples = "crosshead runs show 3\ncrosshead runs show 3 --json",
    CH_RUNS(show_options, arguments, show),
};

/* --- compare ------------------------------------------------------------------------------------------------ */

static ch_status compare(const void *given, ch_error *error) {
  const arguments *a = given;
  selection s;
  ch_status status = find(a, a->positional, false, &s, error);
  if (status == CH_OK && s.count < 2)
    status = ch_fail(error, CH_ERROR_ARGUMENT, "%s; name two or more to compare",
                     s.count ? "only one run is found" : "no run is found");
  if (status == CH_OK && a->json) {
    status = ch_print_json(ch_runs_differences_json(s.found), JSON_INDENT(1) | JSON_REAL_PRECISION(9), error);
  } else if (status == CH_OK) {
    ch_text text = {0};
    ch_runs_differences(s.found, &text);
    status = ch_print_text(&text, error);
  }
  release(&s);
  return status;
}

const ch_command ch_cmd_runs_compare = {
    .name = "runs compare",
    .positional = "FILTER...",
    .summary = "Show what differs between runs: settings, machines, results.",
    .description = terms_text,
    .examples = "crosshead runs compare 3 4\ncrosshead runs compare kind=sweep name~gqa",
    CH_RUNS(show_options, arguments, compare),
};

/* --- delete ------------------------------------------------------------------------------------------------- */

static ch_status remove_found(const arguments *a, const selection *s, ch_error *error) {
  ch_text text = {0};
  int64_t *ids = calloc((size_t)s->count + 1, sizeof *ids);
  if (!ids) return ch_no_memory(error);
  for (int64_t i = 0; i < s->count; i++) ids[i] = ch_run_list_at(s->found, i)->id;
  ch_status status = a->dry_run ? CH_OK : ch_runs_delete(s->file, ids, s->count, error);
  free(ids);
  if (status != CH_OK) return status;
  if (s->count) ch_runs_table(s->found, &text);
  ch_text_printf(&text, "%lld %s %s.%s\n", (long long)s->count, ch_plural(s->count, "run", "runs"),
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
    CH_FLAG_OPTION("dry-run", AT(dry_run), "Print what would be deleted, and delete nothing."),
    {0}};

const ch_command ch_cmd_runs_delete = {
    .name = "runs delete",
    .positional = "FILTER...",
    .summary = "Delete runs from the file of runs; their models and logs stay.",
    .description = terms_text,
    .examples = "crosshead runs delete 3\ncrosshead runs delete status=failed --dry-run",
    CH_RUNS(delete_options, arguments, delete_runs),
};

/* --- add ---------------------------------------------------------------------------------------------------- */

/* Prints the id of an added run and its recorded directory. */
static ch_status print_added(ch_runs *file, int64_t id, ch_error *error) {
  char term[32];
  const char *terms[] = {term};
  ch_run_list *found;
  snprintf(term, sizeof term, "%lld", (long long)id);
  CH_TRY(ch_runs_find(file, &(ch_runs_query){.terms = terms, .count = 1}, &found, error));
  printf("%s  %s\n", term, ch_run_list_at(found, 0)->directory);
  ch_run_list_free(found);
  return CH_OK;
}

static ch_status add(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_runs *file;
  int64_t id = 0;
  ch_status status = CH_OK;
  CH_TRY(open_file(a, CH_RUNS_CREATE, &file, error));
  for (int i = 0; i < CH_POSITIONAL_MAX && a->positional[i] && status == CH_OK; i++) {
    status = ch_runs_record(file, a->positional[i], NULL, &id, error);
    if (status == CH_OK) status = print_added(file, id, error);
  }
  ch_runs_close(file);
  return status;
}

static const ch_option add_options[] = {RUNS_FILE, {0}};

const ch_command ch_cmd_runs_add = {
    .name = "runs add",
    .positional = "DIR...",
    .summary = "Add training runs to the file of runs, from the logs in their directories.",
    .description = "A run that is in the file already is not added twice.",
    .examples = "crosshead runs add old/model comparison/gqa-4",
    CH_RUNS(add_options, arguments, add),
};
