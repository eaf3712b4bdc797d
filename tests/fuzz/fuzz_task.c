/* Fuzz target: tasks. The input is a task's description, a NUL, and a file of items, or without a NUL, a file of items
 * for a built-in task. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "eval/tasks/question.h"

enum { MOST_ITEMS = 8, BUILT_IN = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ch_status open_task(const uint8_t *data, size_t size, const uint8_t *end, ch_task **task) {
  const char *name, *text;
  if (end) return ch_task_parse((const char *)data, (size_t)(end - data), "task.json", task, NULL);
  return ch_task_builtin((int)(size % BUILT_IN), &name, &text) ? ch_task_open(name, task, NULL)
                                                               : CH_ERROR_ARGUMENT;
}

/* Filters the question's context as if it were an answer, and checks that its score is from 0 to 1. */
static void judge(const ch_task *task, const json_t *item, const ch_question *q) {
  ch_template_scope scope = {0};
  for (int f = 0; f < task->answers.filter_count; f++) {
    json_t *filtered = NULL;
    double score = 0;
    if (ch_answer_filter(&task->answers, f, &scope, item, q->requests->context, &filtered, NULL) == CH_OK &&
        ch_answer_judge(&task->answers, &scope, filtered, q->targets, q->target_count, &score, NULL) ==
            CH_OK &&
        !(score >= 0 && score <= 1))
      abort();
    json_decref(filtered);
  }
  ch_template_scope_free(&scope);
}

static void ask(const ch_task *task, const char *path, bool examples) {
  ch_items items = {0};
  ch_arena arena = {0};
  ch_question *questions;
  if (ch_items_read(path, &task->files, MOST_ITEMS, &items, NULL) == CH_OK) {
    ch_fewshot fewshot = {.count = examples ? 2 : 0, .pool = &items, .own = true};
    ch_error error = {0};
    if (ch_questions_make(task, &items, &fewshot, &arena, &questions, &error) == CH_OK) {
      for (int64_t i = 0; i < items.count; i++) {
        for (int r = 0; r < questions[i].count; r++)
          if (!questions[i].requests[r].context || !questions[i].requests[r].continuation) abort();
        if (task->output == CH_TASK_GENERATE) judge(task, items.data[i].fields, &questions[i]);
      }
    } else if (!*error.message || strchr(error.message, '\n')) {
      abort(); /* the message is not one line */
    }
  }
  ch_items_free(&items);
  ch_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *end = size ? memchr(data, 0, size) : NULL, *items = end ? end + 1 : data;
  size_t left = size - (size_t)(items - data);
  ch_task *task = NULL;
  if (open_task(data, size, end, &task) != CH_OK) return 0;
  char path[64];
  int file = memfd_create("items", 0);
  if (file >= 0 && (left == 0 || write(file, items, left) == (ssize_t)left)) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ask(task, path, false);
    ask(task, path, true);
  }
  if (file >= 0) close(file);
  ch_task_free(task);
  return 0;
}
