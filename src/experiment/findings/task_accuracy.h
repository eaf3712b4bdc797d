/* Task accuracies of each mechanism, averaged over seeds. */
#ifndef CH_EXPERIMENT_FINDINGS_TASK_ACCURACY_H
#define CH_EXPERIMENT_FINDINGS_TASK_ACCURACY_H

#include "experiment/findings/summary.h"

typedef struct ch_task_accuracy {
  const char *task, *metric; /* strings of the comparison */
  double mean;               /* mean over the evaluated runs */
  double deviation;          /* standard deviation between the evaluated runs */
  double error;              /* standard error over the items, averaged over the runs */
  int64_t items;             /* number of items of the task */
  int runs;                  /* number of evaluated runs */
} ch_task_accuracy;

/* Fills *answer for task `index` of the tasks on which a run of the group was evaluated. Returns false after the
 * last. */
bool ch_task_accuracy_at(const ch_group *group, int index, ch_task_accuracy *answer);
/* Fills *answer for the task with this spelling. Returns false if no run of the group was evaluated on it. */
bool ch_task_accuracy_of(const ch_group *group, const char *task, ch_task_accuracy *answer);
/* Returns task `index` of the tasks on which any group was evaluated; NULL after the last. */
const char *ch_task_accuracy_name(const ch_summary *summary, int index);

#endif
