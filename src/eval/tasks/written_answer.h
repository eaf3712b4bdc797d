/* Rules for answers that a model writes: their ends, their filters and their scores. */
#ifndef CH_EVAL_TASKS_WRITTEN_ANSWER_H
#define CH_EVAL_TASKS_WRITTEN_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "template/template.h"

enum {
  CH_MOST_STOPS = 64,
  CH_MOST_FILTERS = 16,
  CH_MOST_FILTER_STEPS = 16,
  CH_MOST_IGNORED = 64 /* ignored patterns */
};

typedef enum ch_filter_kind {
  CH_FILTER_FIRST, /* the first answer; nothing changes, because every question has one answer */
  CH_FILTER_REGEX, /* the match of a pattern */
  CH_FILTER_CHOICE, /* the match of a pattern; without a match, the letter of the choice that the answer names */
  CH_FILTER_MAP,
  CH_FILTER_STRIP,
  CH_FILTER_LOWER,
  CH_FILTER_UPPER
} ch_filter_kind;

typedef struct ch_filter_step {
  ch_filter_kind kind;
  const char *pattern;
  int64_t select;                       /* index of the match; -1 is the last */
  const char *fallback;                 /* result without a match */
  const json_t *ignored;                /* CH_FILTER_CHOICE: patterns removed before comparing, or NULL */
  bool ignore_case, ignore_punctuation; /* CH_FILTER_CHOICE: comparison of choices and answers */
  /* CH_FILTER_MAP: new texts by text, and the text for all others; whole numbers are written in digits */
  const json_t *mapping, *otherwise;
} ch_filter_step;

/* A filter of answers: its steps in their order. */
typedef struct ch_filter {
  const char *name;
  ch_filter_step steps[CH_MOST_FILTER_STEPS];
  int count;
} ch_filter;

/* Texts belong to the task's description. */
typedef struct ch_answer_rules {
  const char **stops; /* [stop_count]: strings before which the answer ends */
  int stop_count;
  int64_t most_tokens;
  ch_filter *filters; /* [filter_count], at least one */
  int filter_count;
  /* exact_match: the answer must equal a right answer; else the score is RULER's recall, the share of right answers
   * in it or, with `any`, 1 if it contains one */
  bool exact_match, any;
  bool ignore_case, ignore_punctuation, ignore_numbers;
  const json_t *ignored; /* patterns removed before comparing, or NULL */
} ch_answer_rules;

void ch_answer_rules_free(ch_answer_rules *rules);

/* Returns "exact_match" or "recall". */
const char *ch_answer_metric(const ch_answer_rules *rules);

/* Checks that an item has the fields that filters read: a list "choices" for CH_FILTER_CHOICE. */
ch_status ch_answer_check_item(const ch_answer_rules *rules, const json_t *item, ch_error *error);
/* Applies filter `index` to an answer to the item. *filtered receives a new text. */
ch_status ch_answer_filter(const ch_answer_rules *rules, int index, ch_template_scope *scope,
                           const json_t *item, const char *answer, json_t **filtered, ch_error *error);
/* Scores a filtered answer against the right answers [count]: from 0 to 1. */
ch_status ch_answer_judge(const ch_answer_rules *rules, ch_template_scope *scope, json_t *filtered,
                          const char *const *targets, int count, double *score, ch_error *error);

#endif
