/* Answers to the questions of a task, written by the model token by token, the likeliest each time. */
#ifndef CH_EVAL_TASKS_GENERATE_ANSWERS_H
#define CH_EVAL_TASKS_GENERATE_ANSWERS_H

#include "eval/tasks/ask_task.h"

/* Writes the outcomes' answers, filters and scores them. Of the settings, it uses ranks, progress and user; progress is
   also called within a pass. */
ch_status ch_task_generate(ch_task_evaluation *evaluation, const ch_model *model,
                           const ch_tokenizer *tokenizer, const ch_evaluate_settings *settings,
                           ch_error *error);

#endif
