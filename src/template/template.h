/* Jinja templates, for task descriptions and for chat templates.
 *
 * A template is parsed once and filled many times. Values are JSON values. Both dialects (ch_template_dialect) share
 * one language: expressions with filters, tests and methods; set, for, if, macro, filter, break, continue, raw;
 * comments; white space control. docs/tasks.md lists it. There are no includes, no inheritance and no call blocks.
 * Only names and members of namespaces can be assigned. Work is limited (template_limits.h), because templates are not
 * trusted. */
#ifndef CH_TEMPLATE_TEMPLATE_H
#define CH_TEMPLATE_TEMPLATE_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

typedef struct ch_template ch_template;

/* The settings of Jinja in the program that a template was written for. */
typedef enum ch_template_dialect {
  /* lm-evaluation-harness: undefined fields are errors, all white space stays, tojson escapes HTML. */
  CH_TEMPLATE_TASK,
  /* transformers' chat templates: undefined fields are false and print nothing. The line break after a block is
     removed (trim_blocks), as are blanks before it (lstrip_blocks) and a line break at the end. raise_exception,
     strftime_now and {% generation %} exist. */
  CH_TEMPLATE_CHAT
} ch_template_dialect;

/* Parses a template. `where` names the template in messages. *template is NULL on failure; release it with
   ch_template_free. */
ch_status ch_template_parse(const char *text, ch_template_dialect dialect, const char *where,
                            ch_template **template, ch_error *error);
void ch_template_free(ch_template *template);

/* The fields that fill a template, and compiled regular expressions, which later calls reuse. Only one thread may use
   a scope at a time. Zero-initialise, then set `fields`. */
typedef struct ch_template_scope {
  json_t *fields; /* object with the fields; belongs to the caller */
  int64_t now;    /* time of strftime_now, in seconds since 1970; 0: the current time */
  struct ch_template_regex *regexes;
  int64_t steps, bytes; /* work of the last filling, bounded by template_limits.h */
} ch_template_scope;
void ch_template_scope_free(ch_template_scope *scope);

/* Fills a template. *value is the expression's value if the template is one {{ expression }} (after assignments),
   otherwise the text; the caller releases it. Errors: CH_ERROR_FORMAT for undefined fields (CH_TEMPLATE_TASK), for
   operations that the values do not allow and for work beyond the limits; CH_ERROR_ARGUMENT for raise_exception, whose
   text is the message. */
ch_status ch_template_value(const ch_template *template, ch_template_scope *scope, json_t **value,
                            ch_error *error);

#endif
