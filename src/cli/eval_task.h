/* crosshead eval --task: the list of tasks, the log of samples, and the figures as text. */
#ifndef CH_CLI_EVAL_TASK_H
#define CH_CLI_EVAL_TASK_H

#include <jansson.h>
#include <stdbool.h>

#include "base/file.h"
#include "base/text.h"

/* Lists the built-in tasks; a ch_command.list. */
bool ch_list_task(int index, ch_text *entry, ch_text *meaning);

/* --log-samples: a file with a line for every item. */
typedef struct ch_sample_log {
  const char *path; /* path of the file; NULL: no log */
  bool open;
  ch_writer writer;
  ch_status status; /* status of the last write */
  ch_error error;   /* the error, if `status` is not CH_OK */
} ch_sample_log;

/* Adds a line; returns false on failure. The first line opens the file. */
bool ch_sample_log_put(ch_sample_log *log, const char *json);
/* Closes the log of an evaluation that ended with `status`. Returns `status`, or the error of the file. */
ch_status ch_sample_log_end(ch_sample_log *log, ch_status status, ch_error *error);

/* Writes the figures of a task. `report` is the object of ch_evaluate_task, `name` the task's name. */
void ch_task_page(const char *name, const json_t *report, ch_text *text);

#endif
