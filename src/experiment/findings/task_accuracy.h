/* Task accuracies of each mechanism, averaged over seeds. */
#ifndef CH_EXPERIMENT_FINDINGS_TASK_ACCURACY_H
#define CH_EXPERIMENT_FINDINGS_TASK_ACCURACY_H

#include "experiment/findings/summary.h"

typedef struct ch_answer {
  const char *task, *metric; /* the comparison's */
  double mean;               /* over the runs that were asked */
  double deviation;          /* between them */
  double error;              /* the standard error over the items: the mean over the runs */
  int64_t items;
  int runs;
} ch_answer;

/* Task `index`, from 0, of those that any run of the group was asked. False behind the last. */
bool ch_answer_at(const ch_group *group, int index, ch_answer *answer);
/* The answer to a task by its spelling; false if no run of the group was asked. */
bool ch_answer_to(const ch_group *group, const char *task, ch_answer *answer);
/* Task `index` of those that any group was asked; NULL behind the last. */
const char *ch_answered_task(const ch_summary *summary, int index);

#endif
