/* Evaluates the trained models of a comparison on the tasks of its list whose results are still missing. */
#ifndef CH_EXPERIMENT_TRIAL_TASK_EVALUATION_H
#define CH_EXPERIMENT_TRIAL_TASK_EVALUATION_H

#include "experiment/trial/setup.h"
#include "experiment/trial/task_list.h"

/* Evaluates the model in `directory` on one task. The caller has set `task` and `limit` of *answer; strings go into the
 * arena. */
typedef ch_status (*ch_task_asker)(const ch_compare_settings *settings, const ch_model_result *model,
                                   const char *directory, const ch_listed_task *task, ch_arena *arena,
                                   ch_task_result *answer, ch_error *error);

/* Checks that a task can be evaluated on models with this configuration. Generates or reads its items. */
typedef ch_status (*ch_task_checker)(const ch_compare_settings *settings, const ch_config *config,
                                     const struct ch_tokenizer *tokenizer, const ch_listed_task *task,
                                     ch_error *error);

/* Checks before training that all tasks can be evaluated on the planned models. `check` may be NULL. */
ch_status ch_compare_check_tasks(ch_compare_setup *setup, ch_task_checker check, ch_error *error);
/* Evaluates every model that has weights on the tasks without results, and adds the results to the model's file. *asked
   becomes true if a model was evaluated. */
ch_status ch_compare_ask_tasks(ch_compare_setup *setup, ch_task_asker ask, bool *asked, ch_error *error);

#endif
