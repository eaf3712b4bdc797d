/* Tasks that the trained models of a comparison are evaluated on: the list in settings.tasks, and the models whose
   results are still missing. */
#ifndef CH_EXPERIMENT_TRIAL_TASK_EVALUATION_H
#define CH_EXPERIMENT_TRIAL_TASK_EVALUATION_H

#include "experiment/trial/setup.h"

/* A task of the list; strings belong to the arena that it was read into. */
typedef struct ch_asked_task {
  const char *spelling; /* as the list has it */
  const char *name;     /* before the = */
  const char *items;    /* the file behind it, or NULL */
} ch_asked_task;

/* Asks the model in `directory` one task. Of *answer the caller has filled `task` and `limit`; strings go into the arena. */
typedef ch_status (*ch_task_asker)(const ch_compare_settings *settings, const ch_compared *model,
                                   const char *directory, const ch_asked_task *task, ch_arena *arena,
                                   ch_compared_task *answer, ch_error *error);

/* Whether a model with this configuration could be asked the task: makes or reads its items. */
typedef ch_status (*ch_task_checker)(const ch_compare_settings *settings, const ch_config *config,
                                     const struct ch_tokenizer *tokenizer, const ch_asked_task *task,
                                     ch_error *error);

/* Reads a list (NULL: no task). An empty name, a name that comes twice and one that is no task are CH_ERROR_ARGUMENT. */
ch_status ch_asked_tasks_read(const char *list, ch_arena *arena, ch_asked_task **tasks, int *count,
                              ch_error *error);
/* The same of settings, where the list is not kept; files of items must be there too. */
ch_status ch_asked_tasks_check(const ch_compare_settings *settings, ch_error *error);

/* Whether the planned models can be asked all tasks: before they are trained. `check` may be NULL. */
ch_status ch_compare_check_tasks(ch_compare_setup *setup, ch_task_checker check, ch_error *error);
/* Evaluates every model that has its weights on the tasks that are missing, and puts the results into its file. *asked
   becomes true if any were missing. */
ch_status ch_compare_ask_tasks(ch_compare_setup *setup, ch_task_asker ask, bool *asked, ch_error *error);

#endif
