/* The tasks of a comparison as its settings list them: names, and files of items. */
#ifndef CH_EXPERIMENT_TRIAL_TASK_LIST_H
#define CH_EXPERIMENT_TRIAL_TASK_LIST_H

#include <crosshead/compare.h>

#include "base/arena.h"
#include "base/error.h"

/* A task of the list; strings belong to the arena that it was read into. */
typedef struct ch_listed_task {
  const char *spelling; /* as the list has it */
  const char *name;     /* before the = */
  const char *items;    /* the file behind it, or NULL */
} ch_listed_task;

/* Reads a list (NULL: no task). An empty name, a name that comes twice and one that is no task are
 * CH_ERROR_ARGUMENT. */
ch_status ch_read_task_list(const char *list, ch_arena *arena, ch_listed_task **tasks, int *count,
                            ch_error *error);
/* Checks the list as ch_read_task_list does, without storing it. Files of items must exist too. */
ch_status ch_check_task_list(const ch_compare_settings *settings, ch_error *error);

#endif
