#include "experiment/trial/task_evaluation.h"

#include <string.h>
#include <unistd.h>

#include "eval/tasks/task.h"
#include "experiment/trial/timing_rounds.h"

/* --- the list ---------------------------------------------------------------------------------------------------- */

/* "ruler:vt@256=essays.txt": name and items. RULER's names end before the length. */
static ch_status read_task(char *word, ch_arena *arena, ch_asked_task *task, ch_error *error) {
  char *equals = strchr(word, '=');
  task->spelling = ch_arena_strdup(arena, word);
  if (!task->spelling) return ch_no_memory(error);
  if (equals) *equals = 0;
  if (!*word || (equals && !equals[1]))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--tasks has an empty name or file; write them with one comma between, as in "
                   "ruler:vt@256,hellaswag=items.jsonl");
  task->name = word;
  task->items = equals ? equals + 1 : NULL;
  if (ch_task_is_ruler_suite(word)) return CH_OK;
  const char *name = ch_arena_printf(arena, "%.*s", (int)(ch_task_name_end(word) - word), word);
  ch_task *known;
  if (!name) return ch_no_memory(error);
  CH_TRY(ch_task_open(name, &known, error));
  bool makes_items = known->ruler.kind != CH_RULER_NONE;
  ch_task_free(known);
  if (task->items || makes_items) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "--tasks: %.80s needs its items; write %.80s=FILE", word, word);
}

ch_status ch_asked_tasks_read(const char *list, ch_arena *arena, ch_asked_task **tasks, int *count,
                              ch_error *error) {
  *count = 0;
  *tasks = NULL;
  if (!list) return CH_OK;
  size_t words = 1;
  for (const char *c = list; *c; c++) words += *c == ',';
  char *rest = ch_arena_strdup(arena, list);
  ch_asked_task *read = ch_arena_alloc(arena, words * sizeof *read);
  if (!rest || !read) return ch_no_memory(error);
  for (char *word; (word = strsep(&rest, ","));) {
    CH_TRY(read_task(word, arena, &read[*count], error));
    for (int i = 0; i < *count; i++)
      if (strcmp(read[i].spelling, read[*count].spelling) == 0)
        return ch_fail(error, CH_ERROR_ARGUMENT, "--tasks names %.80s twice", read[i].spelling);
    ++*count;
  }
  *tasks = read;
  return CH_OK;
}

ch_status ch_asked_tasks_check(const ch_compare_settings *settings, ch_error *error) {
  ch_arena arena = {0};
  ch_asked_task *tasks;
  int count;
  if (settings->tasks && settings->images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--tasks is for text; models of images answer none");
  if (settings->task_items < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--task-items is %lld; it is a number of items, or 0 for all",
                   (long long)settings->task_items);
  ch_status status = ch_asked_tasks_read(settings->tasks, &arena, &tasks, &count, error);
  for (int i = 0; status == CH_OK && i < count; i++)
    if (tasks[i].items && access(tasks[i].items, R_OK) != 0)
      status = ch_fail(error, CH_ERROR_IO, "--tasks: the items of %.80s, %.200s, cannot be read",
                       tasks[i].name, tasks[i].items);
  ch_arena_free(&arena);
  return status;
}

/* --- before training --------------------------------------------------------------------------------------------- */

/* For a task, models differ only in the length of their context. */
static bool is_like_one_before(const ch_compare_plan *plan, int model) {
  for (int i = 0; i < model; i++)
    if (plan->models[i].config.max_position_embeddings == plan->models[model].config.max_position_embeddings)
      return true;
  return false;
}

ch_status ch_compare_check_tasks(ch_compare_setup *setup, ch_task_checker check, ch_error *error) {
  ch_comparison *c = setup->comparison;
  ch_asked_task *tasks;
  int count;
  if (!check) return CH_OK;
  CH_TRY(ch_asked_tasks_read(setup->settings.tasks, &c->arena, &tasks, &count, error));
  for (int t = 0; t < count; t++)
    for (int i = 0; i < setup->plan.count; i++)
      if (!is_like_one_before(&setup->plan, i))
        CH_TRY(check(&setup->settings, &setup->plan.models[i].config, ch_data_tokenizer(&setup->data),
                     &tasks[t], error));
  return CH_OK;
}

/* --- answers ----------------------------------------------------------------------------------------------------- */

/* The place of the task's answer: one with the same items is kept, one with another number of them is replaced. */
static int place_of(const ch_compared *model, const ch_asked_task *task) {
  for (int i = 0; i < model->task_count; i++)
    if (strcmp(model->tasks[i].task, task->spelling) == 0) return i;
  return model->task_count;
}

static bool is_answered(const ch_compared *model, const ch_asked_task *task, int64_t limit) {
  int place = place_of(model, task);
  return place < model->task_count && model->tasks[place].limit == limit;
}

static ch_status ask_model(ch_compare_setup *setup, ch_task_asker ask, const char *directory,
                           const ch_asked_task *tasks, int count, ch_compared *model, bool *asked,
                           ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  ch_arena *arena = &setup->comparison->arena;
  ch_compared_task *answers = ch_arena_alloc(arena, (size_t)(model->task_count + count) * sizeof *answers);
  bool answered = false;
  if (!answers) return ch_no_memory(error);
  for (int i = 0; i < model->task_count; i++) answers[i] = model->tasks[i];
  model->tasks = answers;
  for (int t = 0; t < count; t++) {
    if (is_answered(model, &tasks[t], s->task_items)) continue;
    ch_compared_task answer = {.task = tasks[t].spelling, .limit = s->task_items};
    CH_TRY(ask(s, model, directory, &tasks[t], arena, &answer, error));
    int place = place_of(model, &tasks[t]);
    answers[place] = answer;
    if (place == model->task_count) model->task_count++;
    answered = true;
  }
  *asked |= answered;
  return answered ? ch_compare_keep_run(setup, model, error) : CH_OK;
}

ch_status ch_compare_ask_tasks(ch_compare_setup *setup, ch_task_asker ask, bool *asked, ch_error *error) {
  ch_comparison *c = setup->comparison;
  ch_asked_task *tasks;
  int count;
  *asked = false;
  CH_TRY(ch_asked_tasks_read(setup->settings.tasks, &c->arena, &tasks, &count, error));
  for (int i = 0; count && i < c->count; i++) {
    if (!ch_compare_has_weights(setup, &c->models[i])) continue;
    const char *directory = ch_arena_printf(&c->arena, "%s/%s", setup->settings.out, c->models[i].directory);
    if (!directory) return ch_no_memory(error);
    CH_TRY(ask_model(setup, ask, directory, tasks, count, &c->models[i], asked, error));
  }
  return CH_OK;
}
