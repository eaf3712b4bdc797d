/* Answers that a model writes: when one ends, what is taken from it, and whether it is right. */
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
  CH_MOST_IGNORED = 64 /* patterns */
};

typedef enum ch_filter_kind {
  CH_FILTER_FIRST, /* of several answers; here there is one, so nothing changes */
  CH_FILTER_REGEX,
  CH_FILTER_CHOICE, /* a regex; where it finds nothing, the letter of the choice that the answer names */
  CH_FILTER_MAP,
  CH_FILTER_STRIP,
  CH_FILTER_LOWER,
  CH_FILTER_UPPER
} ch_filter_kind;

typedef struct ch_filter_step {
  ch_filter_kind kind;
  const char *pattern;
  int64_t select; /* which match; -1 is the last */
  const char *fallback;
  /* CH_FILTER_CHOICE: what is taken away from choices and answers before they are compared. */
  const json_t *ignored; /* patterns, or NULL */
  bool ignore_case, ignore_punctuation;
  /* CH_FILTER_MAP: a text for each text, and the one for all others; numbers mean their digits. */
  const json_t *mapping, *otherwise;
} ch_filter_step;

/* A filter of answers: its steps in their order. */
typedef struct ch_filter {
  const char *name;
  ch_filter_step steps[CH_MOST_FILTER_STEPS];
  int count;
} ch_filter;

/* The texts belong to the description, but for `stops`. */
typedef struct ch_answer_rules {
  const char **stops; /* [stop_count] the answer ends before the first of them */
  int stop_count;
  int64_t most_tokens;
  ch_filter *filters; /* [filter_count], at least one */
  int filter_count;
  /* exact_match: the answer is one of the right ones. Else recall: the share of the right ones that the answer has in
   * it, as RULER scores; `any`: 1 if it has any of them. */
  bool exact_match, any;
  bool ignore_case, ignore_punctuation, ignore_numbers;
  const json_t *ignored; /* a list of patterns that are taken away before comparing; or NULL */
} ch_answer_rules;

void ch_answer_rules_free(ch_answer_rules *rules);

/* Returns "exact_match" or "recall". */
const char *ch_answer_metric(const ch_answer_rules *rules);

/* Checks that an item has what the filters read of it: a list "choices" for CH_FILTER_CHOICE. */
ch_status ch_answer_check_item(const ch_answer_rules *rules, const json_t *item, ch_error *error);
/* Applies filter `index` to an answer to the item. Returns a new text. */
ch_status ch_answer_filter(const ch_answer_rules *rules, int index, ch_template_scope *scope,
                           const json_t *item, const char *answer, json_t **filtered, ch_error *error);
/* Scores a filtered answer against the right answers [count]: from 0 to 1. */
ch_status ch_answer_judge(const ch_answer_rules *rules, ch_template_scope *scope, json_t *filtered,
                          const char *const *targets, int count, double *score, ch_error *error);

#endif
