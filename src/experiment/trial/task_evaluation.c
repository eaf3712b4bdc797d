/* Evaluates the trained models of a comparison on its tasks, and saves the results. */
#include "experiment/trial/task_evaluation.h"

#include <string.h>

#include "experiment/trial/timing_rounds.h"

/* --- before training --------------------------------------------------------------------------------------------- */

/* Returns true if an earlier model of the plan has the same context, the only property that matters to a task. */
static bool is_like_one_before(const ch_compare_plan *plan, int model) {
  for (int i = 0; i < model; i++)
    if (plan->models[i].config.max_position_embeddings == plan->models[model].config.max_position_embeddings)
      return true;
  return false;
}

ch_status ch_compare_check_tasks(ch_compare_setup *setup, ch_task_checker check, ch_error *error) {
  ch_comparison *c = setup->comparison;
  ch_listed_task *tasks;
  int count;
  if (!check) return CH_OK;
  CH_TRY(ch_read_task_list(setup->settings.verdict.tasks, &c->arena, &tasks, &count, error));
  for (int t = 0; t < count; t++)
    for (int i = 0; i < setup->plan.count; i++)
      if (!is_like_one_before(&setup->plan, i))
        CH_TRY(check(&setup->settings, &setup->plan.models[i].config, ch_data_tokenizer(&setup->data),
                     &tasks[t], error));
  return CH_OK;
}

/* --- answers ----------------------------------------------------------------------------------------------------- */

/* Returns the index of a task's result, or the number of results if there is none. */
static int task_index(const ch_model_result *model, const ch_listed_task *task) {
  for (int i = 0; i < model->task_count; i++)
    if (strcmp(model->tasks[i].task, task->spelling) == 0) return i;
  return model->task_count;
}

static bool is_answered(const ch_model_result *model, const ch_listed_task *task, int64_t limit) {
  int place = task_index(model, task);
  return place < model->task_count && model->tasks[place].limit == limit;
}

static ch_status ask_model(ch_compare_setup *setup, ch_task_asker ask, const char *directory,
                           const ch_listed_task *tasks, int count, ch_model_result *model, bool *asked,
                           ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  ch_arena *arena = &setup->comparison->arena;
  ch_task_result *answers = ch_arena_alloc(arena, (size_t)(model->task_count + count) * sizeof *answers);
  bool answered = false;
  if (!answers) return ch_no_memory(error);
  for (int i = 0; i < model->task_count; i++) answers[i] = model->tasks[i];
  model->tasks = answers;
  for (int t = 0; t < count; t++) {
    if (is_answered(model, &tasks[t], s->verdict.task_items)) continue;
    ch_task_result answer = {.task = tasks[t].spelling, .limit = s->verdict.task_items};
    CH_TRY(ask(s, model, directory, &tasks[t], arena, &answer, error));
    int place = task_index(model, &tasks[t]);
    answers[place] = answer;
    if (place == model->task_count) model->task_count++;
    answered = true;
  }
  *asked |= answered;
  return answered ? ch_compare_keep_run(setup, model, error) : CH_OK;
}

ch_status ch_compare_ask_tasks(ch_compare_setup *setup, ch_task_asker ask, bool *asked, ch_error *error) {
  ch_comparison *c = setup->comparison;
  ch_listed_task *tasks;
  int count;
  *asked = false;
  CH_TRY(ch_read_task_list(setup->settings.verdict.tasks, &c->arena, &tasks, &count, error));
  for (int i = 0; count && i < c->count; i++) {
    if (!ch_compare_has_weights(setup, &c->models[i])) continue;
    const char *directory =
        ch_arena_printf(&c->arena, "%s/%s", setup->settings.report.out, c->models[i].directory);
    if (!directory) return ch_no_memory(error);
    CH_TRY(ask_model(setup, ask, directory, tasks, count, &c->models[i], asked, error));
  }
  return CH_OK;
}
