/* Evaluates a model on one task: opens the description and the items, runs the model, and writes the figures under
 * lm-evaluation-harness's names. src/eval/tasks has the rules. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/evaluate_private.h"
#include "base/progress.h"
#include "eval/tasks/ask_task.h"

static void put_figure(json_t *object, const char *name, ch_task_figure figure) {
  char key[64];
  snprintf(key, sizeof key, "%s_stderr", name);
  json_object_set_new(object, name, ch_evaluation_number(isfinite(figure.value), figure.value));
  json_object_set_new(object, key, ch_evaluation_number(isfinite(figure.error), figure.error));
}

/* Adds the figure of the first filter of answers and, if the description has a "filter_list", the figures of all
   filters. */
static void put_figures_of_filters(json_t *object, const ch_task_evaluation *t) {
  const ch_answer_rules *rules = &t->task->answers;
  const char *metric = ch_answer_metric(rules);
  put_figure(object, metric, t->acc);
  if (!json_object_get(t->task->root, "filter_list")) return;
  json_t *filters = json_object();
  for (int f = 0; f < rules->filter_count; f++) {
    json_t *filter = json_object();
    put_figure(filter, metric, t->by_filter[f]);
    json_object_set_new(filters, rules->filters[f].name, filter);
  }
  json_object_set_new(object, "filters", filters);
}

static void put_figures(json_t *object, const ch_task_evaluation *t) {
  bool rolling = t->task->output == CH_TASK_ROLLING;
  if (t->task->output == CH_TASK_GENERATE) put_figures_of_filters(object, t);
  if (t->task->acc) put_figure(object, "acc", t->acc);
  if (t->task->acc_norm) put_figure(object, "acc_norm", t->acc_norm);
  if (t->task->perplexity) put_figure(object, "perplexity", t->perplexity);
  if (rolling) put_figure(object, "word_perplexity", t->word_perplexity);
  if (rolling) put_figure(object, "byte_perplexity", t->byte_perplexity);
  if (rolling) put_figure(object, "bits_per_byte", t->bits_per_byte);
}

static void put_groups(json_t *object, const ch_task_evaluation *t) {
  bool writes = t->task->output == CH_TASK_GENERATE;
  if (t->group_count == 0 || (t->made && t->group_count == 1)) return;
  json_t *groups = json_object();
  for (int64_t i = 0; i < t->group_count; i++) {
    json_t *group = json_pack("{s:I}", "n", (json_int_t)t->groups[i].count);
    put_figure(group, writes ? ch_answer_metric(&t->task->answers) : "acc", t->groups[i].acc);
    json_object_set_new(groups, t->groups[i].name, group);
  }
  json_object_set_new(object, "groups", groups);
}

/* The evaluation of one task. */
typedef struct task_call {
  ch_evaluation call;
  ch_task *task;
  char *name; /* name of the task as the caller spells it, without lengths */
  ch_task_evaluation evaluation;
  /* ch_clock at the first report of progress in this stage; seconds from that report to the last one */
  double began, scoring;
} task_call;

/* Adds the lengths and the seed of a task that generates its items. */
static void put_lengths(json_t *object, const task_call *a) {
  const ch_task_evaluation *t = &a->evaluation;
  json_t *lengths = json_array();
  int64_t last = -1;
  for (int64_t i = 0; i < t->items.count; i++) {
    json_t *length = json_object_get(t->items.data[i].fields, "max_length");
    if (json_integer_value(length) != last) json_array_append(lengths, length);
    last = json_integer_value(length);
  }
  json_object_set_new(object, "lengths", lengths);
  json_object_set_new(object, "seed", json_integer((json_int_t)a->call.settings.seed));
}

static json_t *task_json(const task_call *a) {
  const ch_task_evaluation *t = &a->evaluation;
  bool by_path = strchr(a->name, '/') || strstr(a->name, ".json");
  json_t *object = json_pack("{s:s, s:I, s:I}", "task", by_path ? t->task->name : a->name, "n",
                             (json_int_t)t->items.count, "fewshot", (json_int_t)t->examples);
  if (!object) return NULL;
  put_figures(object, t);
  put_groups(object, t);
  if (t->made) put_lengths(object, a);
  if (t->task->output == CH_TASK_GENERATE)
    json_object_set_new(object, "tokens_written", json_integer((json_int_t)t->written));
  else
    json_object_set_new(object, "empty_continuations", json_integer((json_int_t)t->empty_count));
  json_object_set_new(object, "tokens", json_integer((json_int_t)t->tokens));
  json_object_set_new(object, "tokens_computed", json_integer((json_int_t)t->computed));
  json_object_set_new(object, "scoring_seconds", json_real(a->scoring));
  json_object_set_new(object, "seconds", json_real(ch_clock() - a->call.began));
  return object;
}

static void tell_stage(const char *name, void *context) {
  task_call *a = context;
  a->began = 0;
  ch_evaluation_begins(&a->call, name);
}

static bool tell_progress(int64_t done, int64_t total, void *context) {
  task_call *a = context;
  const ch_evaluate_settings *s = &a->call.settings;
  if (a->began <= 0) a->began = ch_clock();
  a->scoring = ch_clock() - a->began;
  return !s->progress || s->progress(done, total, s->user);
}

static ch_status give_samples(const task_call *a, ch_error *error) {
  const ch_evaluate_settings *s = &a->call.settings;
  for (int64_t i = 0; s->sample && i < a->evaluation.items.count; i++) {
    json_t *sample = ch_task_sample(&a->evaluation, i);
    char *line = sample ? ch_json_dump(sample, JSON_COMPACT) : NULL;
    json_decref(sample);
    if (!line) return ch_no_memory(error);
    bool goes_on = s->sample(line, s->user);
    free(line);
    if (!goes_on) return ch_fail(error, CH_ERROR_INTERRUPTED, "the samples were stopped");
  }
  return CH_OK;
}

/* Separates the name from the lengths in "ruler:vt@4096". */
static ch_status read_name(task_call *a, const char *task, ch_error *error) {
  const char *end = ch_task_name_end(task);
  a->name = strndup(task, (size_t)(end - task));
  if (!a->name) return ch_no_memory(error);
  if (!*end) return CH_OK;
  if (a->call.settings.lengths)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{lengths} is given, but %.80s already has a length; give one of them", task);
  a->call.settings.lengths = end + 1;
  return CH_OK;
}

static ch_status ask(task_call *a, const char *task, ch_error *error) {
  ch_rank_group *ranks = a->call.settings.ranks;
  ch_status status = read_name(a, task, error);
  if (status == CH_OK) status = ch_task_open(a->name, &a->task, error);
  CH_TRY(ch_agree(ranks, status, error));
  ch_evaluate_settings settings = a->call.settings;
  settings.progress = tell_progress;
  settings.stage = tell_stage;
  settings.user = a;
  ch_evaluation_begins(&a->call, a->task->name);
  CH_TRY(
      ch_task_evaluate(a->task, &a->call.model, a->call.model.tokenizer, &settings, &a->evaluation, error));
  return ch_agree(ranks, give_samples(a, error), error);
}

ch_status ch_evaluate_one_task(const ch_model *model, const char *task, const ch_evaluate_settings *settings,
                               char **json, ch_error *error) {
  task_call a = {0};
  CH_TRY(
      ch_evaluation_open(model, settings, (ch_evaluated_kind){.name = "evaluating a task"}, &a.call, error));
  ch_status status = ask(&a, task, error);
  if (status == CH_OK) status = ch_api_json(task_json(&a), json, error);
  ch_task_evaluation_free(&a.evaluation);
  ch_task_free(a.task);
  free(a.name);
  return ch_evaluation_close(&a.call, status);
}
