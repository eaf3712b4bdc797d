/* Jinja templates, for task descriptions and for chat templates.
 *
 * A template is parsed once and filled many times. Values are JSON's. Both dialects share one language:
 * expressions with filters, tests and methods; set, for, if, macro, filter, break, continue, raw; comments;
 * white space control. docs/tasks.md lists it. There are no includes, no inheritance, no call blocks and no
 * assignments to anything but names and namespaces. Work is bounded (template_limits.h), because templates
 * come from anywhere. */
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
  /* transformers' chat templates: undefined fields are false and print nothing, the line break after a block
     is removed (trim_blocks), as are blanks before it (lstrip_blocks) and a line break at the end;
     raise_exception, strftime_now and {% generation %} exist. */
  CH_TEMPLATE_CHAT
} ch_template_dialect;

/* Parses a template. `where` names it in messages. *template belongs to the caller; NULL on failure. */
ch_status ch_template_parse(const char *text, ch_template_dialect dialect, const char *where,
                            ch_template **template, ch_error *error);
void ch_template_free(ch_template *template);

/* The fields that fill a template, and the compiled regular expressions, which last from call to call. One
   thread at a time. Zero-initialise, then set `fields`. */
typedef struct ch_template_scope {
  json_t *fields; /* an object, the caller's */
  int64_t now;    /* seconds since 1970 for strftime_now; 0: the clock */
  struct ch_template_regex *regexes;
  int64_t steps, bytes; /* work of the last filling, bounded by template_limits.h */
} ch_template_scope;
void ch_template_scope_free(ch_template_scope *scope);

/* Gives the value of a template that is one {{ expression }}, else the text; *value is the caller's. Errors:
   CH_ERROR_FORMAT for undefined fields (CH_TEMPLATE_TASK), operations that the values do not allow, work
   beyond the limits; CH_ERROR_ARGUMENT for raise_exception, with its text alone as the message. */
ch_status ch_template_value(const ch_template *template, ch_template_scope *scope, json_t **value,
                            ch_error *error);

#endif
