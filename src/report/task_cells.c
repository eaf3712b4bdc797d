/* Formats the cells, names and note of tables of tasks. */
#include "report/task_cells.h"

#include <stdio.h>
#include <string.h>

#include "experiment/findings/task_accuracy.h"

bool ch_task_cell(const ch_group *group, const char *task, char *value, char *spread) {
  ch_task_accuracy answer;
  *value = *spread = 0;
  if (!ch_task_accuracy_of(group, task, &answer)) return false;
  double shown = answer.runs > 1 ? answer.deviation : answer.error;
  snprintf(value, CH_TASK_CELL, "%.4g", answer.mean);
  if (shown > 0) snprintf(spread, CH_TASK_CELL, " ± %.2g", shown);
  return true;
}

const char *ch_task_metric(const ch_summary *summary, const char *task) {
  ch_task_accuracy answer;
  for (int i = 0; i < summary->count; i++)
    if (ch_task_accuracy_of(&summary->groups[i], task, &answer)) return answer.metric;
  return "";
}

const char *ch_task_short_name(const char *task, char *name) {
  snprintf(name, CH_TASK_CELL, "%.*s", (int)strcspn(task, "="), task);
  return name;
}

const char *ch_task_note(const ch_summary *summary) {
  return summary->seeds > 1 ? "± of a task: the standard deviation between seeds."
                            : "± of a task: the standard error over its items.";
}
