/* Questions: an item's prompt, its choices and the right answer, as the model sees them. */
#ifndef CH_EVAL_TASKS_QUESTION_H
#define CH_EVAL_TASKS_QUESTION_H

#include "base/arena.h"
#include "eval/tasks/task.h"

/* A request to the model: how likely is `continuation` after `context`? */
typedef struct ch_question_request {
  const char *context; /* "" for a whole text */
  const char *continuation;
  int64_t characters; /* characters of the choice, without the delimiter before it */
} ch_question_request;

typedef struct ch_question {
  ch_question_request *requests; /* [count] */
  int count;
  int gold;             /* index of the right choice; -1 without choices or with `truths` */
  const char *truths;   /* [count]: 1 for true choices, else 0; or NULL */
  int64_t words, bytes; /* CH_TASK_ROLLING: words and bytes of the text, the units of its perplexities */
  const char *group;    /* name of the item's group, or NULL */
  /* CH_TASK_GENERATE: [target_count] right answers; the first is the continuation */
  const char *const *targets;
  int target_count;
  const char *prefix; /* CH_TASK_GENERATE: beginning of the answer; "" for none */
} ch_question;

typedef struct ch_fewshot {
  int count;
  const ch_items *pool; /* source of the examples */
  bool own;             /* true if the task's items are also the source of the examples */
} ch_fewshot;

/* Writes the questions of all items [items->count] in memory of the arena. Errors name the item by file and
 * line. */
ch_status ch_questions_make(const ch_task *task, const ch_items *items, const ch_fewshot *fewshot,
                            ch_arena *arena, ch_question **questions, ch_error *error);

#endif
