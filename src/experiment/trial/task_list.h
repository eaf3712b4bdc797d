/* The list of tasks in a comparison's settings: names, and files of items. */
#ifndef CH_EXPERIMENT_TRIAL_TASK_LIST_H
#define CH_EXPERIMENT_TRIAL_TASK_LIST_H

#include <crosshead/compare.h>

#include "base/arena.h"
#include "base/error.h"

/* A task of the list. Strings belong to the arena. */
typedef struct ch_listed_task {
  const char *spelling; /* the task as it is spelt in the list */
  const char *name;     /* the part of the spelling before "=" */
  const char *items;    /* path of the file after "="; NULL: none */
} ch_listed_task;

/* Reads a list (NULL: no task). Errors: CH_ERROR_ARGUMENT for an empty or unknown name, a repeated task, and a task
 * without items that needs some. */
ch_status ch_read_task_list(const char *list, ch_arena *arena, ch_listed_task **tasks, int *count,
                            ch_error *error);
/* Checks settings->verdict.tasks as ch_read_task_list does. Files of items must be readable too. */
ch_status ch_check_task_list(const ch_compare_settings *settings, ch_error *error);

#endif
