/* Evaluates the models of a comparison on tasks, and checks the tasks before training. */
#include "api/compare_tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <crosshead/evaluate.h>

#include "eval/tasks/ask_task.h"

/* The context of a task's progress callback. */
typedef struct task_progress {
  const ch_compare_settings *settings;
  const ch_model_result *model;
  const ch_listed_task *task;
} task_progress;

static bool report_task_progress(int64_t done, int64_t total, void *user) {
  const task_progress *a = user;
  const ch_compare_settings *s = a->settings;
  const ch_compare_event event = {.kind = CH_COMPARE_EVENT_ASKING,
                                  .as.asking = {a->model, a->task->spelling, done, total}};
  bool goes_on = !s->event || s->event(&event, s->user);
  return goes_on && !(s->stop && s->stop(s->user));
}

/* Reads the first figure of a report that has a standard error. Returns false if there is none, or if out of
   memory. */
static bool read_figure(json_t *report, ch_arena *arena, ch_task_result *answer) {
  const char *key;
  json_t *value;
  json_object_foreach(report, key, value) {
    char beside[80];
    snprintf(beside, sizeof beside, "%.60s_stderr", key);
    const json_t *error = json_object_get(report, beside);
    if (!error || !json_is_number(value)) continue;
    answer->metric = ch_arena_strdup(arena, key);
    answer->value = json_number_value(value);
    answer->error = json_number_value(error);
    answer->items = json_integer_value(json_object_get(report, "n"));
    return answer->metric != NULL;
  }
  return false;
}

enum { LENGTH_SIZE = 32 };

/* Returns true if the task generates its items and names no length. The items then get the length of training
 * sequences. */
static bool takes_usual_length(const ch_listed_task *task) {
  return strncmp(task->name, "ruler", 5) == 0 && !strchr(task->name, '@');
}

static ch_evaluate_settings settings_of(const ch_compare_settings *s, const ch_listed_task *task,
                                        char length[LENGTH_SIZE]) {
  ch_evaluate_settings settings;
  snprintf(length, LENGTH_SIZE, "%lld", (long long)s->lineup.sequence);
  ch_evaluate_defaults(&settings);
  settings.items = task->items;
  settings.limit = s->verdict.task_items;
  settings.threads = s->workers.threads;
  if (takes_usual_length(task)) settings.lengths = length;
  return settings;
}

static ch_status ask(task_progress *a, const ch_model *model, ch_arena *arena, ch_task_result *answer,
                     ch_error *error) {
  char length[LENGTH_SIZE], *text = NULL;
  ch_evaluate_settings settings = settings_of(a->settings, a->task, length);
  settings.progress = report_task_progress;
  settings.user = a;
  CH_TRY(ch_evaluate_task(model, a->task->name, &settings, &text, error));
  json_t *report = json_loads(text, 0, NULL);
  ch_free(text);
  bool found = report && read_figure(report, arena, answer);
  json_decref(report);
  return found ? CH_OK : ch_fail(error, CH_ERROR_NUMERIC, "its score is not a number");
}

ch_status ch_compare_ask(const ch_compare_settings *settings, const ch_model_result *model,
                         const char *directory, const ch_listed_task *task, ch_arena *arena,
                         ch_task_result *answer, ch_error *error) {
  task_progress a = {settings, model, task};
  ch_model *opened;
  CH_TRY(ch_model_open(directory, &opened, error));
  ch_status status = ask(&a, opened, arena, answer, error);
  ch_model_close(opened);
  if (status == CH_OK) return CH_OK;
  char where[200];
  snprintf(where, sizeof where, "%.80s, task %.80s", model->name, task->spelling);
  return ch_fail_in(error, where);
}

/* --- before training --------------------------------------------------------------------------------------------- */

static bool goes_on(int64_t done, int64_t total, void *user) {
  const ch_compare_settings *s = user;
  (void)done, (void)total;
  return !s->stop || !s->stop(s->user);
}

static ch_status try_task(const char *name, const ch_config *config, const ch_tokenizer *tokenizer,
                          const ch_evaluate_settings *settings, ch_error *error) {
  ch_task *task;
  CH_TRY(ch_task_open(name, &task, error));
  ch_status status = ch_task_try(task, config, tokenizer, settings, error);
  ch_task_free(task);
  return status;
}

static ch_status try_suite(const ch_config *config, const ch_tokenizer *tokenizer,
                           const ch_evaluate_settings *settings, ch_error *error) {
  const char *name, *text;
  for (int i = 0; ch_task_builtin(i, &name, &text); i++)
    if (strncmp(name, "ruler:", 6) == 0) CH_TRY(try_task(name, config, tokenizer, settings, error));
  return CH_OK;
}

ch_status ch_compare_check_task(const ch_compare_settings *s, const ch_config *config,
                                const ch_tokenizer *tokenizer, const ch_listed_task *task, ch_error *error) {
  char length[LENGTH_SIZE], where[200];
  const char *end = ch_task_name_end(task->name);
  ch_evaluate_settings settings = settings_of(s, task, length);
  ch_config own = *config;
  /* A trained model or its tokenizer has a beginning or an end token. The value of its id does not matter here. */
  if (own.bos_token_id < 0 && own.eos_token_id < 0) own.eos_token_id = 0;
  settings.progress = goes_on;
  settings.user = (void *)(uintptr_t)s;
  if (*end) settings.lengths = end + 1;
  char *name = strndup(task->name, (size_t)(end - task->name));
  if (!name) return ch_no_memory(error);
  ch_status status = ch_task_is_ruler_suite(name) ? try_suite(&own, tokenizer, &settings, error)
                                                  : try_task(name, &own, tokenizer, &settings, error);
  free(name);
  if (status == CH_OK) return CH_OK;
  snprintf(where, sizeof where, "the task %.80s%s", task->spelling,
           takes_usual_length(task) ? ", as long as the sequences of training" : "");
  return ch_fail_in(error, where);
}
