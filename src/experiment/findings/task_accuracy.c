/* Averages the task results of each mechanism over its runs. */
#include "experiment/findings/task_accuracy.h"

#include <math.h>
#include <string.h>

static const ch_task_result *find_task(const ch_model_result *run, const char *task) {
  for (int i = 0; i < run->task_count; i++)
    if (strcmp(run->tasks[i].task, task) == 0) return &run->tasks[i];
  return NULL;
}

/* Returns true if one of the first `runs` runs of a group was evaluated on the task. */
static bool is_asked(const ch_group *group, int runs, const char *task) {
  for (int r = 0; r < runs; r++)
    if (find_task(group->runs[r], task)) return true;
  return false;
}

bool ch_task_accuracy_of(const ch_group *group, const char *task, ch_task_accuracy *answer) {
  double squares = 0;
  *answer = (ch_task_accuracy){0};
  for (int r = 0; r < group->count; r++) {
    const ch_task_result *t = find_task(group->runs[r], task);
    if (!t) continue;
    double away = t->value - answer->mean;
    answer->task = t->task;
    answer->metric = t->metric;
    answer->items = t->items;
    answer->runs++;
    answer->mean += away / answer->runs;
    squares += away * (t->value - answer->mean);
    answer->error += (t->error - answer->error) / answer->runs;
  }
  if (answer->runs > 1) answer->deviation = sqrt(squares / (answer->runs - 1));
  return answer->runs > 0;
}

bool ch_task_accuracy_at(const ch_group *group, int index, ch_task_accuracy *answer) {
  for (int r = 0; r < group->count; r++)
    for (int i = 0; i < group->runs[r]->task_count; i++) {
      const char *task = group->runs[r]->tasks[i].task;
      if (!is_asked(group, r, task) && index-- == 0) return ch_task_accuracy_of(group, task, answer);
    }
  return false;
}

const char *ch_task_accuracy_name(const ch_summary *summary, int index) {
  ch_task_accuracy answer;
  for (int g = 0; g < summary->count; g++)
    for (int i = 0; ch_task_accuracy_at(&summary->groups[g], i, &answer); i++) {
      bool earlier = false;
      for (int b = 0; b < g; b++)
        earlier |= is_asked(&summary->groups[b], summary->groups[b].count, answer.task);
      if (!earlier && index-- == 0) return answer.task;
    }
  return NULL;
}
