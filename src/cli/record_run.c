/* Records the runs of a command in the file of runs. A run that cannot be recorded is only reported, because its own
 * files have everything. */
#include "cli/record_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/command.h"

static const char nothing[] = "none";

/* Returns --runs, or else CROSSHEAD_RUNS, or NULL. */
static const char *wish(const char *requested) {
  if (requested) return requested;
  const char *said = getenv("CROSSHEAD_RUNS");
  return said && *said ? said : NULL;
}

const char *ch_runs_file(const char *requested) {
  const char *said = wish(requested);
  return said ? said : CH_RUNS_FILE;
}

ch_status ch_run_recorder_begin(ch_run_recorder *keeper, const char *requested, const char *output,
                                ch_error *error) {
  const char *said = wish(requested);
  ch_runs *runs = NULL;
  keeper->path = NULL;
  if (said ? strcmp(said, nothing) == 0 : !output) return CH_OK;
  keeper->path = said ? strdup(said) : ch_runs_beside(output);
  if (!keeper->path) return ch_no_memory(error);
  /* the file is created with the first run */
  if (!ch_is_file(keeper->path) && !ch_is_directory(keeper->path)) return CH_OK;
  ch_status status = ch_runs_open(keeper->path, CH_RUNS_CREATE, &runs, error);
  ch_runs_close(runs);
  if (status != CH_OK) ch_run_recorder_end(keeper);
  return status;
}

void ch_run_recorder_end(ch_run_recorder *keeper) {
  free(keeper->path);
  keeper->path = NULL;
}

/* Records the figures of an evaluation of `model`, or the training run in `directory` if `model` is NULL. */
static ch_status keep(const ch_run_recorder *keeper, const char *directory, const ch_model *model,
                      const char *json, const char *name, ch_error *error) {
  ch_runs *runs = NULL;
  ch_run_labels labels = keeper->labels;
  labels.name = name;
  labels.commit = ch_build_commit;
  CH_TRY(ch_runs_open(keeper->path, CH_RUNS_CREATE, &runs, error));
  ch_status status = model ? ch_runs_record_evaluation(runs, model, json, &labels, NULL, error)
                           : ch_runs_record(runs, directory, &labels, NULL, error);
  ch_runs_close(runs);
  return status;
}

static void keep_or_say(const ch_run_recorder *keeper, const char *directory, const ch_model *model,
                        const char *json, const char *name, ch_progress_line *line) {
  char message[CH_MESSAGE_SIZE];
  ch_error error = {0};
  if (!keeper->path || keep(keeper, directory, model, json, name, &error) == CH_OK) return;
  ch_progress_print(line, "not saved in the file of runs: %s", ch_message_of(&error, message));
}

void ch_run_recorder_record(const ch_run_recorder *keeper, const char *directory, const char *name,
                            ch_progress_line *line) {
  keep_or_say(keeper, directory, NULL, NULL, name, line);
}

void ch_run_recorder_record_evaluation(const ch_run_recorder *keeper, const ch_model *model, const char *json,
                                       const char *name, ch_progress_line *line) {
  keep_or_say(keeper, NULL, model, json, name, line);
}
