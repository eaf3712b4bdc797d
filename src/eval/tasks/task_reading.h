/* Reading of a task's description: keys and values with messages that name them. */
#ifndef CH_EVAL_TASKS_TASK_READING_H
#define CH_EVAL_TASKS_TASK_READING_H

#include "eval/tasks/task.h"

/* A description that is being read. */
typedef struct ch_task_reader {
  const char *where;
  ch_error *error;
  ch_status status; /* the first error ends the reading */
} ch_task_reader;

/* Says what is wrong with a key. Returns NULL. */
void *ch_task_wrong(ch_task_reader *reading, const char *key, const char *what);
/* Refuses keys that are not known [NULL-terminated], and suggests the nearest. */
void ch_task_check_keys(ch_task_reader *reading, const json_t *object, const char *const *known);
/* Reads a text; `otherwise` if the key is missing. With NULL the key is required. */
const char *ch_task_text(ch_task_reader *reading, const json_t *object, const char *key,
                         const char *otherwise);
/* Reads a list of texts; NULL if the key is missing. */
const json_t *ch_task_names(ch_task_reader *reading, const json_t *object, const char *key, bool needed);
/* Reads a whole number from `least` to `most`. */
int64_t ch_task_count(ch_task_reader *reading, const json_t *object, const char *key, int64_t otherwise,
                      int64_t least, int64_t most);
bool ch_task_flag(ch_task_reader *reading, const json_t *object, const char *key);

/* Reads "generation_kwargs", "filter_list" and "metric_list" of a task whose model writes answers. */
void ch_task_read_answers(ch_task_reader *reading, ch_task *task);
/* Reads "ruler": how items of a long context are generated. */
void ch_task_read_ruler(ch_task_reader *reading, ch_task *task);

#endif
