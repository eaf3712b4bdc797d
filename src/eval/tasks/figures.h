/* Figures of a task and their standard errors, as lm-evaluation-harness computes them. */
#ifndef CH_EVAL_TASKS_FIGURES_H
#define CH_EVAL_TASKS_FIGURES_H

#include "eval/tasks/evaluate.h"

/* Fills in the outcomes, figures and groups of an evaluation whose scores are there. */
ch_status ch_task_figures(ch_task_evaluation *evaluation, ch_error *error);

/* The mean of values [count] and its standard error, sqrt(sum (x - mean)^2 / (n - 1) / n). */
ch_task_figure ch_mean_of(const double *values, int64_t count);

/* exp(sum of numerators / sum of denominators) and its standard error by 100,000 resamples of the items, drawn as the
   harness draws them. denominators NULL: 1 each. */
ch_status ch_perplexity_figure(const double *numerators, const double *denominators, int64_t count,
                               ch_task_figure *figure, ch_error *error);

#endif
