/* What the models of a comparison answered to tasks. */
#ifndef CH_REPORT_TASKS_H
#define CH_REPORT_TASKS_H

#include "base/text.h"
#include "experiment/summary.h"

/* A table for a terminal, names as wide as `names`; nothing where no task was asked. */
void ch_tasks_write(const ch_summary *summary, int names, ch_text *text);

#endif
