#include "api/compare_tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <crosshead/evaluate.h>

/* What the progress of a task needs; its context. */
typedef struct asking {
  const ch_compare_settings *settings;
  const ch_compared *model;
  const ch_asked_task *task;
} asking;

static bool tell(int64_t done, int64_t total, void *user) {
  const asking *a = user;
  const ch_compare_settings *s = a->settings;
  if (s->asking) s->asking(a->model, a->task->spelling, done, total, s->user);
  return !s->stop || !s->stop(s->user);
}

/* The figure that a report names first: the one with a standard error beside it. */
static bool read_figure(json_t *report, ch_arena *arena, ch_compared_task *answer) {
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

static ch_status ask(asking *a, const ch_model *model, ch_arena *arena, ch_compared_task *answer,
                     ch_error *error) {
  const ch_compare_settings *s = a->settings;
  ch_evaluate_settings settings;
  char length[32], *text = NULL;
  snprintf(length, sizeof length, "%lld", (long long)s->sequence);
  ch_evaluate_defaults(&settings);
  settings.items = a->task->items;
  settings.limit = s->task_items;
  settings.threads = s->threads;
  settings.option_names = true;
  settings.progress = tell;
  settings.user = a;
  if (strncmp(a->task->name, "ruler", 5) == 0 && !strchr(a->task->name, '@')) settings.lengths = length;
  CH_TRY(ch_evaluate_task(model, a->task->name, &settings, &text, error));
  json_t *report = json_loads(text, 0, NULL);
  ch_free(text);
  bool found = report && read_figure(report, arena, answer);
  json_decref(report);
  return found ? CH_OK : ch_fail(error, CH_ERROR_NUMERIC, "its figure is not a number");
}

ch_status ch_compare_ask(const ch_compare_settings *settings, const ch_compared *model, const char *directory,
                         const ch_asked_task *task, ch_arena *arena, ch_compared_task *answer,
                         ch_error *error) {
  asking a = {settings, model, task};
  ch_model *opened;
  CH_TRY(ch_model_open(directory, &opened, error));
  ch_status status = ask(&a, opened, arena, answer, error);
  ch_model_close(opened);
  if (status == CH_OK) return CH_OK;
  char where[200];
  snprintf(where, sizeof where, "%.80s, task %.80s", model->name, task->spelling);
  return ch_fail_in(error, where);
}
