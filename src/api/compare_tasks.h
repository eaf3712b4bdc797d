/* Evaluates the models of a comparison on tasks, and checks the tasks before training. */
#ifndef CH_API_COMPARE_TASKS_H
#define CH_API_COMPARE_TASKS_H

#include "experiment/trial/task_evaluation.h"
#include "text/tokenizer.h"

/* Opens a model and evaluates it as ch_evaluate_task does; a ch_task_asker. */
ch_status ch_compare_ask(const ch_compare_settings *settings, const ch_model_result *model,
                         const char *directory, const ch_listed_task *task, ch_arena *arena,
                         ch_task_result *answer, ch_error *error);

/* Checks a task with a configuration and a tokenizer, as ch_evaluate_task does before it runs the model; a
 * ch_task_checker. */
ch_status ch_compare_check_task(const ch_compare_settings *settings, const ch_config *config,
                                const ch_tokenizer *tokenizer, const ch_listed_task *task, ch_error *error);

#endif
