/* Reads and checks the list of tasks of a comparison. */
#include "experiment/trial/task_list.h"

#include <string.h>
#include <unistd.h>

#include "eval/tasks/task.h"

/* Splits "ruler:vt@256=essays.txt" into name and items, and checks that the task exists and has or generates
 * items. */
static ch_status read_task(char *word, ch_arena *arena, ch_listed_task *task, ch_error *error) {
  char *equals = strchr(word, '=');
  task->spelling = ch_arena_strdup(arena, word);
  if (!task->spelling) return ch_no_memory(error);
  if (equals) *equals = 0;
  if (!*word || (equals && !equals[1]))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{tasks} has an empty name or file; separate them with one comma, as in "
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
  return ch_fail(error, CH_ERROR_ARGUMENT, "{tasks}: %.80s needs its items; write %.80s=FILE", word, word);
}

ch_status ch_read_task_list(const char *list, ch_arena *arena, ch_listed_task **tasks, int *count,
                            ch_error *error) {
  *count = 0;
  *tasks = NULL;
  if (!list) return CH_OK;
  size_t words = 1;
  for (const char *c = list; *c; c++) words += *c == ',';
  char *rest = ch_arena_strdup(arena, list);
  ch_listed_task *read = ch_arena_alloc(arena, words * sizeof *read);
  if (!rest || !read) return ch_no_memory(error);
  for (char *word; (word = strsep(&rest, ","));) {
    CH_TRY(read_task(word, arena, &read[*count], error));
    for (int i = 0; i < *count; i++)
      if (strcmp(read[i].spelling, read[*count].spelling) == 0)
        return ch_fail(error, CH_ERROR_ARGUMENT, "{tasks} names %.80s twice", read[i].spelling);
    ++*count;
  }
  *tasks = read;
  return CH_OK;
}

ch_status ch_check_task_list(const ch_compare_settings *settings, ch_error *error) {
  ch_arena arena = {0};
  ch_listed_task *tasks;
  int count;
  if (settings->verdict.tasks && settings->vision.images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{tasks} is for text; image models cannot answer them");
  if (settings->verdict.task_items < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{task_items} is %lld; it is a number of items, or 0 for all",
                   (long long)settings->verdict.task_items);
  ch_status status = ch_read_task_list(settings->verdict.tasks, &arena, &tasks, &count, error);
  for (int i = 0; status == CH_OK && i < count; i++)
    if (tasks[i].items && access(tasks[i].items, R_OK) != 0)
      status = ch_fail(error, CH_ERROR_IO, "{tasks}: the items of %.80s, %.200s, cannot be read",
                       tasks[i].name, tasks[i].items);
  ch_arena_free(&arena);
  return status;
}
