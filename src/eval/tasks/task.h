/* A task: what its description says - where an item's prompt, choices and answer come from, and how it is scored. */
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
  CH_TASK_GENERATE /* one context, the model writes what follows: "generate_until" */
} ch_task_output;

enum { CH_TASK_MOST_CHOICES = 64 };

/* The templates that turn an item of one shape into a prompt. */
typedef struct ch_task_form {
  const json_t *fields; /* paths of the fields that items of this form have, "choices.text" */
  ch_template *text;    /* the context; CH_TASK_INPUTS: the index of the right choice */
  /* The index of the right choice, or the continuation; CH_TASK_ROLLING: the text; CH_TASK_GENERATE: the right
   * answer, or a list of them. */
  ch_template *target;
  ch_template *choices; /* gives the list of choices; or NULL: */
  ch_template **choice; /* one by one, [choice_count] */
  int choice_count;
  /* which choices are true, a list of 0 and 1: acc is the probability on those; or NULL */
  ch_template *labels;
  ch_template *counted; /* CH_TASK_ROLLING: the text whose words and bytes are counted; NULL: the target */
  ch_template *description; /* the text before everything; or NULL */
  ch_template *group;       /* of items that are tasks of their own (subjects); or NULL */
  ch_template *prefix;      /* CH_TASK_GENERATE: how the answer begins; or NULL */
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
  bool no_fewshot;                /* the prompt has its own examples */
  bool fewshot_first;             /* examples are the first ones; else drawn at random for every item */
  bool fewshot_extra;             /* one more is drawn, in case the item itself is among them */
  int examples;                   /* solved ones before each question if the caller says nothing */
  const json_t *samples;          /* items that they are taken from if the caller names no file; or NULL */
  ch_answer_rules answers;        /* CH_TASK_GENERATE: when an answer ends, and how it is judged */
  ch_ruler ruler;                 /* how items are generated; or of kind CH_RULER_NONE */
} ch_task;

/* Opens a description by the name of a built-in task or by its path ("my.json"). Release with ch_task_free. */
ch_status ch_task_open(const char *name, ch_task **task, ch_error *error);
/* Parses a task from memory; `where` names it in messages. */
ch_status ch_task_parse(const char *text, size_t size, const char *where, ch_task **task, ch_error *error);
void ch_task_free(ch_task *task);

/* Returns true for all tasks of RULER together: "ruler", or with a length "ruler@4k". */
bool ch_task_is_ruler_suite(const char *name);
/* Returns the end of a name, or of one of RULER's before a length: the @ of "ruler:vt@4k". */
const char *ch_task_name_end(const char *name);

#endif
