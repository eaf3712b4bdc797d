/* Parsed templates: what parsing leaves and filling walks. */
#ifndef CH_EVAL_TASKS_TEMPLATE_PRIVATE_H
#define CH_EVAL_TASKS_TEMPLATE_PRIVATE_H

#include <stdbool.h>

#include "base/arena.h"
#include "eval/tasks/template.h"
#include "eval/tasks/template_limits.h"

typedef enum ch_expression_kind {
  CH_LITERAL,  /* value */
  CH_NAME,     /* name */
  CH_MEMBER,   /* a.name */
  CH_INDEX,    /* a[b] */
  CH_SLICE,    /* a[b:c], either may be missing */
  CH_CALL,     /* a.name(in ...) */
  CH_FILTER,   /* a | name(in ...) */
  CH_LIST,     /* [in ...] */
  CH_BINARY,   /* a name b */
  CH_NOT,      /* not a */
  CH_NEGATIVE, /* -a */
  CH_CHOICE    /* a if b else c */
} ch_expression_kind;

typedef struct ch_expression {
  ch_expression_kind kind;
  const char *name; /* of a field, method or filter; an operator */
  json_t *value;
  struct ch_expression *a, *b, *c;
  struct ch_expression *in[CH_TEMPLATE_ARGUMENTS];
  int count;
  int height; /* of the tree below: 0 for a leaf */
} ch_expression;

typedef enum ch_statement_kind { CH_TEXT, CH_OUTPUT, CH_SET, CH_FOR, CH_IF } ch_statement_kind;

typedef struct ch_statement {
  ch_statement_kind kind;
  const char *text; /* CH_TEXT */
  size_t size;
  const char *name;                   /* that CH_SET and CH_FOR give */
  ch_expression *expression;          /* CH_IF: the condition; CH_FOR: the list */
  struct ch_statement *body, *orelse; /* first of a list */
  struct ch_statement *next;
} ch_statement;

struct ch_template {
  ch_arena arena;
  const char *where;
  ch_statement *first;
  json_t *literals; /* a list that owns the literals' values */
};

/* Counts work of the filling in progress: `bytes` of values that are made or read through. False with *error filled
   when that is more than a filling may take. */
bool ch_template_spend(ch_template_scope *scope, size_t bytes, ch_error *error);
/* The same of a value, which must also keep the limits for values. */
bool ch_template_spend_value(ch_template_scope *scope, const json_t *value, ch_error *error);
/* Whether a text may have that many bytes; false with *error filled. */
bool ch_template_fits(size_t bytes, ch_error *error);

/* The rest of a call: `self` is what the method or filter is applied to; all values are the caller's. Returns a new
   value, or NULL with *error filled. */
json_t *ch_template_apply(ch_template_scope *scope, const char *name, json_t *self, json_t *const *in,
                          int count, ch_error *error);
/* Whether there is a method or filter of that name. */
bool ch_template_knows(const char *name);
/* NULL-terminated. */
extern const char *const ch_template_functions[];

/* Text of a value as Python's str() gives it for what templates print: strings, numbers, True, False, None. NULL with
   *error filled for lists and objects. A new string. */
json_t *ch_template_text(const json_t *value, ch_error *error);
bool ch_template_true(const json_t *value);
/* text.replace of a pattern, with \1 for groups. */
json_t *ch_template_regex(ch_template_scope *scope, const json_t *text, const char *pattern,
                          const char *replacement, ch_error *error);
/* What the harness's regex filter makes of re.findall: for each match the whole of it, or its one group, or of several groups
   the first that is not empty (null: all are). A new list. */
json_t *ch_template_find_all(ch_template_scope *scope, const json_t *text, const char *pattern,
                             ch_error *error);
/* Whether a pattern can be compiled. */
ch_status ch_template_regex_check(const char *pattern, ch_error *error);

#endif
