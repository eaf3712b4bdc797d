/* The results of a comparison's models on tasks. */
#ifndef CH_REPORT_TASK_TABLES_H
#define CH_REPORT_TASK_TABLES_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* A table for a terminal, with a column of names `names` wide; nothing if no task was evaluated. */
void ch_tasks_write(const ch_summary *summary, int names, ch_text *text);

#endif
