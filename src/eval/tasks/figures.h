/* Figures of a task and their standard errors, as lm-evaluation-harness computes them. */
#ifndef CH_EVAL_TASKS_FIGURES_H
#define CH_EVAL_TASKS_FIGURES_H

#include "eval/tasks/ask_task.h"

/* Computes the outcomes, figures and groups of an evaluation from its scores. */
ch_status ch_task_figures(ch_task_evaluation *evaluation, ch_error *error);

#endif
