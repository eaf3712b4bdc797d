/* The public function that evaluates a model on a task, or on all tasks of RULER one after another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluate_private.h"
#include "base/error.h"
#include "base/progress.h"
#include "eval/tasks/task.h"
#include "ranks/ranks.h"

static const char SUITE[] = "ruler";

static double number_member(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

static void add_member(json_t *sum, const json_t *report, const char *key) {
  json_object_set_new(sum, key,
                      json_integer((json_int_t)(number_member(sum, key) + number_member(report, key))));
}

/* Adds a report's items and recall to a sum, and combines the standard errors as those of independent tasks. */
static void add_recall(json_t *sum, const json_t *report) {
  add_member(sum, report, "n");
  json_object_set_new(sum, "recall",
                      json_real(number_member(sum, "recall") + number_member(report, "recall")));
  json_object_set_new(
      sum, "recall_stderr",
      json_real(hypot(number_member(sum, "recall_stderr"), number_member(report, "recall_stderr"))));
}

static void divide_recall(json_t *sum, int tasks) {
  json_object_set_new(sum, "recall", json_real(number_member(sum, "recall") / tasks));
  json_object_set_new(sum, "recall_stderr", json_real(number_member(sum, "recall_stderr") / tasks));
}

/* Adds the report of one task: a row to `rows`, and its figures to the sums of its lengths and of all tasks. */
static void add_task(json_t *all, json_t *lengths, json_t *rows, const char *name, const json_t *report) {
  const char *length;
  json_t *group, *row = json_object();
  json_object_foreach(json_object_get(report, "groups"), length, group) {
    if (!json_object_get(lengths, length)) json_object_set_new(lengths, length, json_object());
    add_recall(json_object_get(lengths, length), group);
  }
  add_recall(row, report);
  json_object_set_new(rows, name + strlen(SUITE) + 1, row);
  add_recall(all, report);
  add_member(all, report, "tokens_written");
  add_member(all, report, "tokens");
  add_member(all, report, "tokens_computed");
  json_object_set_new(
      all, "scoring_seconds",
      json_real(number_member(all, "scoring_seconds") + number_member(report, "scoring_seconds")));
  json_object_set(all, "lengths", json_object_get(report, "lengths"));
  json_object_set(all, "seed", json_object_get(report, "seed"));
}

static ch_status ask_one(const ch_model *model, const char *name, const char *length,
                         const ch_evaluate_settings *settings, json_t **report, ch_error *error) {
  ch_text task = {0};
  char *json = NULL;
  ch_text_printf(&task, "%s%s", name, length);
  ch_status status =
      task.failed ? ch_no_memory(error) : ch_evaluate_one_task(model, task.data, settings, &json, error);
  ch_text_free(&task);
  CH_TRY(status);
  *report = json_loads(json, 0, NULL);
  free(json);
  return *report ? CH_OK : ch_no_memory(error);
}

static ch_status check_ruler_settings(const ch_evaluate_settings *settings, ch_error *error) {
  bool holds = false;
  if (!settings) return CH_OK;
  if (settings->sample)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{sample} needs a single task, like ruler:vt; ruler is all of them");
  if (settings->items) CH_TRY(ch_ruler_holds_items(settings->items, &holds, error));
  if (holds)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s holds the items of one task; name that task, like ruler:vt, or give a text",
                   settings->items);
  return CH_OK;
}

static ch_status ask_all(const ch_model *model, const char *length, const ch_evaluate_settings *settings,
                         json_t *all, json_t *lengths, json_t *rows, ch_error *error) {
  const char *name, *text;
  int tasks = 0;
  for (int i = 0; ch_task_builtin(i, &name, &text); i++) {
    json_t *report;
    if (strncmp(name, "ruler:", 6) != 0) continue;
    CH_TRY(ask_one(model, name, length, settings, &report, error));
    add_task(all, lengths, rows, name, report);
    json_decref(report);
    tasks++;
  }
  json_t *sum;
  const char *key;
  json_object_foreach(lengths, key, sum) divide_recall(sum, tasks);
  divide_recall(all, tasks);
  return CH_OK;
}

/* Reports the mean recall of all tasks. "groups" has a row for each task, and for each length if there are several. */
static ch_status ask_suite(const ch_model *model, const char *task, const ch_evaluate_settings *settings,
                           char **json, ch_error *error) {
  double began = ch_clock();
  CH_TRY(ch_agree(settings ? settings->ranks : NULL, check_ruler_settings(settings, error), error));
  json_t *all = json_pack("{s:s, s:i, s:i}", "task", SUITE, "n", 0, "fewshot", 0);
  json_t *lengths = json_object(), *rows = json_object();
  ch_status status = ask_all(model, task + strlen(SUITE), settings, all, lengths, rows, error);
  json_object_update(rows, lengths);
  json_object_set(all, "groups", rows);
  json_object_set_new(all, "seconds", json_real(ch_clock() - began));
  json_decref(lengths);
  json_decref(rows);
  if (status == CH_OK) return ch_api_json(all, json, error);
  json_decref(all);
  return status;
}

ch_status ch_evaluate_task(const ch_model *model, const char *task, const ch_evaluate_settings *settings,
                           char **json, ch_error *error) {
  if (!task) return ch_refuse_null(error, "the task's name");
  return (ch_task_is_ruler_suite(task) ? ask_suite : ch_evaluate_one_task)(model, task, settings, json,
                                                                           error);
}
