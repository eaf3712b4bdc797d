/* The values, metrics, names and note of the tables of tasks in the terminal and the page. */
#ifndef CH_REPORT_TASK_CELLS_H
#define CH_REPORT_TASK_CELLS_H

#include "experiment/findings/summary.h"

enum { CH_TASK_CELL = 80 };

/* Writes "0.412" and " ± 0.049": the mean, and the deviation between seeds or, for one seed, the standard error over
 * the items. `spread` is "" if it is 0. Both have CH_TASK_CELL bytes. Returns false, with "" in both, if the task was
 * not evaluated. */
bool ch_task_cell(const ch_group *group, const char *task, char *value, char *spread);
/* Returns the name of the task's metric; "" if no group was evaluated on the task. */
const char *ch_task_metric(const ch_summary *summary, const char *task);
/* Writes the task's name without the file of its items, in CH_TASK_CELL bytes. Returns name. */
const char *ch_task_short_name(const char *task, char *name);
/* Returns a sentence that explains the spread. */
const char *ch_task_note(const ch_summary *summary);

#endif
