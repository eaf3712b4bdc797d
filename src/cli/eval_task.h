/* crosshead eval --task: what the command line says of a task, and its evaluation. */
#ifndef CH_CLI_EVAL_TASK_H
#define CH_CLI_EVAL_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/keep.h"
#include "tensor/tensor.h"

typedef struct ch_task_arguments {
  const char *model, *tokenizer; /* tokenizer: NULL = the model's own */
  const char *task, *task_file;
  const char *fewshot_file, *log_samples; /* or NULL */
  int64_t fewshot, limit, window;         /* 0: none, all, the model's context */
  ch_dtype compute;                       /* ch_model's */
  bool json;
  const ch_keeper *keeper;
} ch_task_arguments;

ch_status ch_evaluate_task(const ch_task_arguments *arguments, ch_error *error);
/* ch_command.list of the tasks that are known by name. */
bool ch_list_task(int index, ch_text *entry, ch_text *meaning);

#endif
