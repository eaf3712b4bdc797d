/* The public function that asks a model the items of a task. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluate_private.h"
#include "base/progress.h"
#include "eval/tasks/evaluate.h"

static void put_figure(json_t *object, const char *name, ch_task_figure figure) {
  char key[64];
  snprintf(key, sizeof key, "%s_stderr", name);
  json_object_set_new(object, name, ch_evaluation_number(isfinite(figure.value), figure.value));
  json_object_set_new(object, key, ch_evaluation_number(isfinite(figure.error), figure.error));
}

static void put_figures(json_t *object, const ch_task_evaluation *t) {
  bool rolling = t->task->output == CH_TASK_ROLLING;
  if (t->task->acc) put_figure(object, "acc", t->acc);
  if (t->task->acc_norm) put_figure(object, "acc_norm", t->acc_norm);
  if (t->task->perplexity) put_figure(object, "perplexity", t->perplexity);
  if (rolling) put_figure(object, "word_perplexity", t->word_perplexity);
  if (rolling) put_figure(object, "byte_perplexity", t->byte_perplexity);
  if (rolling) put_figure(object, "bits_per_byte", t->bits_per_byte);
}

static void put_groups(json_t *object, const ch_task_evaluation *t) {
  if (t->group_count == 0) return;
  json_t *groups = json_object();
  for (int64_t i = 0; i < t->group_count; i++) {
    json_t *group = json_pack("{s:I}", "n", (json_int_t)t->groups[i].count);
    put_figure(group, "acc", t->groups[i].acc);
    json_object_set_new(groups, t->groups[i].name, group);
  }
  json_object_set_new(object, "groups", groups);
}

/* One task. */
typedef struct asking {
  ch_evaluation call;
  ch_task *task;
  ch_task_evaluation evaluation;
  double began, scoring; /* of the model's work: when, and seconds until the last report */
} asking;

static json_t *task_json(const char *asked, const asking *a) {
  const ch_task_evaluation *t = &a->evaluation;
  bool by_path = strchr(asked, '/') || strstr(asked, ".json");
  json_t *object = json_pack("{s:s, s:I, s:I}", "task", by_path ? t->task->name : asked, "n",
                             (json_int_t)t->items.count, "fewshot", (json_int_t)a->call.settings.examples);
  if (!object) return NULL;
  put_figures(object, t);
  put_groups(object, t);
  json_object_set_new(object, "empty_continuations", json_integer((json_int_t)t->empty_count));
  json_object_set_new(object, "tokens", json_integer((json_int_t)t->tokens));
  json_object_set_new(object, "tokens_computed", json_integer((json_int_t)t->computed));
  json_object_set_new(object, "scoring_seconds", json_real(a->scoring));
  json_object_set_new(object, "seconds", json_real(ch_clock() - a->call.began));
  return object;
}

static bool tell_progress(int64_t done, int64_t total, void *context) {
  asking *a = context;
  const ch_evaluate_settings *s = &a->call.settings;
  if (a->began <= 0) a->began = ch_clock();
  a->scoring = ch_clock() - a->began;
  return !s->progress || s->progress(done, total, s->user);
}

static ch_status give_samples(const asking *a, ch_error *error) {
  const ch_evaluate_settings *s = &a->call.settings;
  for (int64_t i = 0; s->sample && i < a->evaluation.items.count; i++) {
    json_t *sample = ch_task_sample(&a->evaluation, i);
    char *line = sample ? ch_json_dump(sample, JSON_COMPACT) : NULL;
    json_decref(sample);
    if (!line) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a sample");
    bool goes_on = s->sample(line, s->user);
    free(line);
    if (!goes_on) return ch_fail(error, CH_ERROR_INTERRUPTED, "the samples were stopped");
  }
  return CH_OK;
}

static ch_status ask(asking *a, const char *task, ch_error *error) {
  ch_evaluate_settings settings = a->call.settings;
  settings.progress = tell_progress;
  settings.user = a;
  CH_TRY(ch_task_open(task, &a->task, error));
  ch_evaluation_begins(&a->call, a->task->name);
  CH_TRY(
      ch_task_evaluate(a->task, &a->call.model, a->call.model.tokenizer, &settings, &a->evaluation, error));
  return give_samples(a, error);
}

ch_status ch_evaluate_task(const ch_model *model, const char *task, const ch_evaluate_settings *settings,
                           char **json, ch_error *error) {
  asking a = {0};
  if (!task || !settings || !settings->items)
    return ch_answer_missing(error, task ? "the file of the task's items" : "the task's name");
  CH_TRY(ch_evaluation_open(model, settings,
                            (ch_evaluated_kind){.name = "evaluating a task", .option = "eval --task"},
                            &a.call, error));
  ch_status status = ask(&a, task, error);
  if (status == CH_OK) status = ch_answer_json(task_json(task, &a), json, error);
  ch_task_evaluation_free(&a.evaluation);
  ch_task_free(a.task);
  return ch_evaluation_close(&a.call, status, error);
}
