/* Evaluates a model on a task, with the scoring of lm-evaluation-harness. */
#ifndef CH_EVAL_TASKS_ASK_TASK_H
#define CH_EVAL_TASKS_ASK_TASK_H

#include <crosshead/evaluate.h>

#include "eval/score_groups.h"
#include "eval/tasks/question.h"
#include "text/tokenizer.h"

/* A figure with its standard error, which is NaN where one item does not give it. */
typedef struct ch_task_figure {
  double value, error;
} ch_task_figure;

/* The result of one item. */
typedef struct ch_task_outcome {
  double acc, acc_norm;    /* 0 or 1; with truths: the probability on the true choices */
  int choice, norm_choice; /* the likeliest */
  double nll;              /* of the target, or of a whole text */
  char *answer; /* CH_TASK_GENERATE: what the model wrote; acc is then the score of the first filter */
} ch_task_outcome;

/* Items that are a task of their own. */
typedef struct ch_task_group {
  const char *name;
  int64_t count;
  ch_task_figure acc;
} ch_task_group;

typedef struct ch_task_evaluation {
  const ch_task *task;
  ch_items items;
  bool made; /* the items: they were not read */
  ch_arena arena;
  ch_question *questions;        /* [items.count] */
  ch_score_window *windows;      /* of all requests, one after another */
  int64_t *starts;               /* [items.count + 1] first window of each item */
  ch_continuation_score *scores; /* [starts[items.count]] */
  ch_task_outcome *outcomes;     /* [items.count] */
  ch_ids *ids;                   /* [items.count] tokens of the windows */
  ch_task_figure acc, acc_norm, perplexity, word_perplexity, byte_perplexity, bits_per_byte;
  ch_task_group *groups; /* [group_count], where the task has them */
  int64_t group_count;
  bool *
      empty; /* [starts[items.count]] continuations without a token of their own: certain, by the harness's rules */
  int64_t empty_count;
  /* CH_TASK_GENERATE: what the filters took, [items.count, filters], their scores, and the figures over items
   * [filters]. */
  json_t **filtered;
  double *scored;
  ch_task_figure *by_filter;
  int examples;     /* solved ones before each question */
  int64_t written;  /* tokens of all answers */
  int64_t tokens;   /* of all requests: what the model would read if each ran alone */
  int64_t computed; /* that it did read */
} ch_task_evaluation;

/* Evaluates a task. Of the settings, it uses items, limit, examples, example_file, window, lengths, seed,
 * ranks, progress, stage and user. The task, model and tokenizer must outlive the evaluation; release with
 * ch_task_evaluation_free, also after a failure. */
ch_status ch_task_evaluate(const ch_task *task, const ch_model *model, const ch_tokenizer *tokenizer,
                           const ch_evaluate_settings *settings, ch_task_evaluation *evaluation,
                           ch_error *error);
/* Checks that a model with this configuration could be evaluated: generates or reads the items and their requests as
 * above, and gives them away. Errors are those of asking. */
ch_status ch_task_try(const ch_task *task, const ch_config *config, const ch_tokenizer *tokenizer,
                      const ch_evaluate_settings *settings, ch_error *error);
void ch_task_evaluation_free(ch_task_evaluation *evaluation);

/* Returns one item as a JSON object with the names that the harness logs: doc_id, doc, target, arguments,
 * resps, acc … */
json_t *ch_task_sample(const ch_task_evaluation *evaluation, int64_t index);

#endif
