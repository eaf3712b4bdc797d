/* Evaluates a model on a task, with the scoring of lm-evaluation-harness. */
#ifndef CH_EVAL_TASKS_ASK_TASK_H
#define CH_EVAL_TASKS_ASK_TASK_H

#include <crosshead/evaluate.h>

#include "eval/score_groups.h"
#include "eval/tasks/question.h"
#include "text/tokenizer.h"

/* A figure with its standard error, which is NaN for a single item. */
typedef struct ch_task_figure {
  double value, error;
} ch_task_figure;

/* The result of one item. */
typedef struct ch_task_outcome {
  /* accuracies, 0 or 1; `acc` is the share of probability on the true choices if the question has `truths`, and the
   * first filter's score for CH_TASK_GENERATE */
  double acc, acc_norm;
  int choice, norm_choice; /* indices of the likeliest choice and of the likeliest per character */
  double nll;              /* -log p of the target, or of a whole text */
  char *answer;            /* CH_TASK_GENERATE: text that the model wrote */
} ch_task_outcome;

/* Items that are a separate task, such as a subject. */
typedef struct ch_task_group {
  const char *name;
  int64_t count;
  ch_task_figure acc;
} ch_task_group;

typedef struct ch_task_evaluation {
  const ch_task *task;
  ch_items items;
  bool made; /* true if the items were generated, not read */
  ch_arena arena;
  ch_question *questions;        /* [items.count] */
  ch_score_window *windows;      /* [starts[items.count]]: windows of all requests */
  int64_t *starts;               /* [items.count + 1]: first window of each item */
  ch_continuation_score *scores; /* [starts[items.count]] */
  ch_task_outcome *outcomes;     /* [items.count] */
  ch_ids *ids;                   /* [items.count]: tokens of the windows */
  ch_task_figure acc, acc_norm, perplexity, word_perplexity, byte_perplexity, bits_per_byte;
  ch_task_group *groups; /* [group_count]; NULL if the task has none */
  int64_t group_count;
  /* [starts[items.count]]: true for continuations without a separate token; the harness gives them probability 1 */
  bool *empty;
  int64_t empty_count;       /* continuations for which `empty` is true */
  json_t **filtered;         /* CH_TASK_GENERATE: [items.count, filters] filtered answers */
  double *scored;            /* CH_TASK_GENERATE: [items.count, filters] scores of the filtered answers */
  ch_task_figure *by_filter; /* CH_TASK_GENERATE: [filters] figures over items */
  int examples;              /* solved examples before each question */
  int64_t written;           /* tokens of all answers */
  int64_t tokens;            /* tokens of all requests, as many as the model reads if each runs alone */
  int64_t computed;          /* tokens that went through the model */
} ch_task_evaluation;

/* Evaluates a task. Of the settings, it uses items, limit, examples, example_file, window, lengths, seed,
 * ranks, progress, stage and user. The task, model and tokenizer must outlive the evaluation; release with
 * ch_task_evaluation_free, also after a failure. */
ch_status ch_task_evaluate(const ch_task *task, const ch_model *model, const ch_tokenizer *tokenizer,
                           const ch_evaluate_settings *settings, ch_task_evaluation *evaluation,
                           ch_error *error);
/* Checks that a model with this configuration could be evaluated: generates or reads the items, encodes their requests
 * and releases all. Errors are those of ch_task_evaluate. */
ch_status ch_task_try(const ch_task *task, const ch_config *config, const ch_tokenizer *tokenizer,
                      const ch_evaluate_settings *settings, ch_error *error);
void ch_task_evaluation_free(ch_task_evaluation *evaluation);

/* Returns one item as a JSON object with the names that the harness logs: doc_id, doc, target, arguments,
 * resps, acc … */
json_t *ch_task_sample(const ch_task_evaluation *evaluation, int64_t index);

#endif
