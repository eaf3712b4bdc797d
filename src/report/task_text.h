/* The results of a comparison's models on tasks, for a terminal. */
#ifndef CH_REPORT_TASK_TEXT_H
#define CH_REPORT_TASK_TEXT_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* Writes a table with a row for every model, and its note. Writes nothing if no task was evaluated. */
void ch_tasks_write(const ch_summary *summary, ch_text *text);

#endif
