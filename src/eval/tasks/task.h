/* Descriptions of tasks: the sources of an item's prompt, choices and answer, and the rules of scoring. */
#ifndef CH_EVAL_TASKS_TASK_H
#define CH_EVAL_TASKS_TASK_H

#include <crosshead/evaluate.h>
#include <stdbool.h>

#include "eval/ruler/ruler.h"
#include "eval/tasks/written_answer.h"
#include "eval/tasks/items.h"
#include "template/template.h"

typedef enum ch_task_output {
  CH_TASK_CHOICES, /* one context, several continuations: "multiple_choice" */
  CH_TASK_INPUTS,  /* several contexts, one continuation: "multiple_input" */
  CH_TASK_TARGET,  /* one context, one continuation: "loglikelihood" */
  CH_TASK_ROLLING, /* a whole text: "loglikelihood_rolling" */
  CH_TASK_GENERATE /* one context, the model writes the answer: "generate_until" */
} ch_task_output;

enum { CH_TASK_MOST_CHOICES = 64 };

/* The templates that turn an item of one shape into a prompt. */
typedef struct ch_task_form {
  const json_t *fields; /* paths of the fields that items of this form have, such as "choices.text" */
  ch_template *text;    /* context; CH_TASK_INPUTS: index of the right choice */
  /* CH_TASK_CHOICES: index of the right choice; CH_TASK_INPUTS and CH_TASK_TARGET: continuation; CH_TASK_ROLLING: the
   * text; CH_TASK_GENERATE: the right answer, or a list of right answers */
  ch_template *target;
  ch_template *choices; /* list of choices; NULL: the templates `choice` give them */
  ch_template **choice; /* [choice_count]: single choices; NULL if `choices` gives the list */
  int choice_count;
  ch_template *labels;      /* list of 1 for true and 0 for false choices, from which acc follows; or NULL */
  ch_template *counted;     /* CH_TASK_ROLLING: text whose words and bytes are counted; NULL: the target */
  ch_template *description; /* text before everything; or NULL */
  ch_template *group;       /* group of an item, such as a subject; or NULL */
  ch_template *prefix;      /* CH_TASK_GENERATE: beginning of the answer; or NULL */
} ch_task_form;

typedef struct ch_task {
  json_t *root;
  const char *name, *about;
  ch_task_output output;
  ch_task_form *forms;
  int form_count;
  const char *target_delimiter, *fewshot_delimiter;
  ch_item_forms files;
  bool acc, acc_norm, perplexity; /* metrics that are reported */
  bool no_fewshot;                /* true if the prompt contains its own examples */
  bool fewshot_first;    /* true if the pool's first examples are used; else they are drawn for every item */
  bool fewshot_extra;    /* true if one more example is drawn, because the item itself may be drawn */
  int examples;          /* default number of solved examples before each question */
  const json_t *samples; /* default source of solved examples; NULL: the items */
  ch_answer_rules answers; /* CH_TASK_GENERATE: rules for the end and the score of an answer */
  ch_ruler ruler;          /* settings that generate items; kind CH_RULER_NONE: items are read */
} ch_task;

/* Opens a description by the name of a built-in task or by its path ("my.json"). Release with ch_task_free. */
ch_status ch_task_open(const char *name, ch_task **task, ch_error *error);
/* Parses a task from memory; `where` names it in messages. */
ch_status ch_task_parse(const char *text, size_t size, const char *where, ch_task **task, ch_error *error);
void ch_task_free(ch_task *task);

/* Returns true if the name means all tasks of RULER together: "ruler", or "ruler@4k" with a length. */
bool ch_task_is_ruler_suite(const char *name);
/* Returns the position at which a task's name ends: the @ before a length ("ruler:vt@4k"), else the terminating NUL. */
const char *ch_task_name_end(const char *name);

#endif
