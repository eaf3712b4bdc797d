/* From a run's directory to the file of runs. */
#include "cli/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static const char nothing[] = "none";

/* What the user said: --runs before the environment; NULL: nothing. */
static const char *wish(const char *asked) {
  if (asked) return asked;
  const char *said = getenv("CROSSHEAD_RUNS");
  return said && *said ? said : NULL;
}

const char *ch_runs_file(const char *asked) {
  const char *said = wish(asked);
  return said ? said : CH_RUNS_FILE;
}

ch_status ch_keeper_begin(ch_keeper *keeper, const char *asked, const char *output, ch_error *error) {
  const char *said = wish(asked);
  ch_runs *runs = NULL;
  keeper->path = NULL;
  if (said ? strcmp(said, nothing) == 0 : !output) return CH_OK;
  keeper->path = said ? strdup(said) : ch_runs_beside(output);
  if (!keeper->path) return ch_fail(error, CH_ERROR_MEMORY, "no memory to keep runs");
  if (!ch_is_file(keeper->path) && !ch_is_directory(keeper->path))
    return CH_OK; /* made when there is a run */
  ch_status status = ch_runs_open(keeper->path, true, &runs, error);
  ch_runs_close(runs);
  if (status != CH_OK) ch_keeper_end(keeper);
  return status;
}

void ch_keeper_end(ch_keeper *keeper) {
  free(keeper->path);
  keeper->path = NULL;
}

/* The training run of a directory, or what was evaluated. */
static ch_status keep(const ch_keeper *keeper, const char *directory, const ch_evaluated *evaluated,
                      const char *name, ch_error *error) {
  ch_runs *runs = NULL;
  ch_arena arena = {0};
  ch_kept_run run;
  ch_run_labels labels = keeper->labels;
  ch_status status;
  labels.name = name;
  labels.commit = ch_build_commit;
  if (evaluated)
    CH_TRY_GOTO(ch_run_of_evaluation(evaluated, &labels, &arena, &run, error));
  else
    CH_TRY_GOTO(ch_run_collect(directory, &labels, &arena, &run, error));
  CH_TRY_GOTO(ch_runs_open(keeper->path, true, &runs, error));
  status = ch_runs_put(runs, &run, NULL, error);
done:
  ch_runs_close(runs);
  ch_arena_free(&arena);
  return status;
}

static void keep_or_say(const ch_keeper *keeper, const char *directory, const ch_evaluated *evaluated,
                        const char *name, ch_progress_line *line) {
  ch_error error = {0};
  if (!keeper->path || keep(keeper, directory, evaluated, name, &error) == CH_OK) return;
  ch_progress_print(line, "not kept among the runs: %s", error.message);
}

void ch_keeper_keep(const ch_keeper *keeper, const char *directory, const char *name,
                    ch_progress_line *line) {
  keep_or_say(keeper, directory, NULL, name, line);
}

void ch_keeper_keep_evaluation(const ch_keeper *keeper, const ch_evaluated *evaluated, const char *name,
                               ch_progress_line *line) {
  keep_or_say(keeper, NULL, evaluated, name, line);
}
