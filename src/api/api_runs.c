/* The public functions that record a run from its directory or its figures, and that show a run as JSON. */
#include <crosshead/runs.h>

#include <string.h>

#include "api/adapters.h"
#include "api/runs_private.h"
#include "runs/collect_run.h"
#include "runs/run_of_evaluation.h"

static const ch_run_labels none = {0};

ch_status ch_runs_record(ch_runs *runs, const char *directory, const ch_run_labels *labels, int64_t *id,
                         ch_error *error) {
  ch_arena arena = {0};
  ch_run_record run;
  if (!runs || !directory) return ch_refuse_null(error, runs ? "the directory's name" : "the file of runs");
  ch_status status = ch_collect_run(directory, labels ? labels : &none, &arena, &run, error);
  if (status == CH_OK) status = ch_runs_put(runs, &run, id, error);
  ch_arena_free(&arena);
  return status;
}

ch_status ch_runs_record_evaluation(ch_runs *runs, const ch_model *model, const char *json,
                                    const ch_run_labels *labels, int64_t *id, ch_error *error) {
  ch_arena arena = {0};
  ch_run_record run;
  json_t *results = NULL;
  if (!runs || !model || !json)
    return ch_refuse_null(error, !runs ? "the file of runs" : model ? "the figures" : "the model");
  CH_TRY(ch_json_parse(json, strlen(json), "the figures", &results, error));
  ch_status status = ch_run_of_evaluation(model, results, labels ? labels : &none, &arena, &run, error);
  if (status == CH_OK) status = ch_runs_put(runs, &run, id, error);
  json_decref(results);
  ch_arena_free(&arena);
  return status;
}

ch_status ch_run_record_json(const ch_run_record *run, bool curves, char **json, ch_error *error) {
  if (!run) return ch_refuse_null(error, "the run");
  return ch_api_json(ch_run_record_to_json(run, curves), json, error);
}
