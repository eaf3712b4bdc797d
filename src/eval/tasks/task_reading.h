/* Reading of a task's description, with error messages that name keys and values. */
#ifndef CH_EVAL_TASKS_TASK_READING_H
#define CH_EVAL_TASKS_TASK_READING_H

#include "eval/tasks/task.h"

/* A description that is being read. */
typedef struct ch_task_reader {
  const char *where;
  ch_error *error;
  ch_status status; /* status of the first error, after which nothing is read */
} ch_task_reader;

/* Fails with a message about a key, unless an earlier error is set. Returns NULL. */
void *ch_task_wrong(ch_task_reader *reading, const char *key, const char *what);
/* Fails for a key that is not in `known` [NULL-terminated]; the message suggests the nearest. */
void ch_task_check_keys(ch_task_reader *reading, const json_t *object, const char *const *known);
/* Reads a text. Returns `otherwise` if the key is missing; if `otherwise` is NULL, the key is required. */
const char *ch_task_text(ch_task_reader *reading, const json_t *object, const char *key,
                         const char *otherwise);
/* Reads a list of texts. A missing key gives NULL, and an error if `needed` is true. */
const json_t *ch_task_names(ch_task_reader *reading, const json_t *object, const char *key, bool needed);
/* Reads a whole number from `least` to `most`. Returns `otherwise` if the key is missing. */
int64_t ch_task_count(ch_task_reader *reading, const json_t *object, const char *key, int64_t otherwise,
                      int64_t least, int64_t most);
bool ch_task_flag(ch_task_reader *reading, const json_t *object, const char *key);

/* Reads "generation_kwargs", "filter_list" and "metric_list" of a task whose model writes answers. */
void ch_task_read_answers(ch_task_reader *reading, ch_task *task);
/* Reads "ruler", the settings that generate items of a long context. */
void ch_task_read_ruler(ch_task_reader *reading, ch_task *task);

#endif
