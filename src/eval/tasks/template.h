/* Templates of task descriptions: the part of Jinja that prompts need, over fields of one item.
 *
 * Text with {{ expression }}, {% set name = expression %}, {% for name in list %} … {% endfor %} and
 * {% if expression %} … {% elif expression %} … {% else %} … {% endif %}; a minus inside the brackets takes away the white
 * space next to them. docs/tasks.md lists what expressions may hold. Values are JSON's. */
#ifndef CH_EVAL_TASKS_TEMPLATE_H
#define CH_EVAL_TASKS_TEMPLATE_H

#include <jansson.h>

#include "base/error.h"

typedef struct ch_template ch_template;

/* `where` names the template in messages. */
ch_status ch_template_parse(const char *text, const char *where, ch_template **template, ch_error *error);
void ch_template_free(ch_template *template);

/* What a template is filled from; for one thread. Regular expressions are kept between calls.
   Zero-initialise. */
typedef struct ch_template_scope {
  json_t *fields; /* of the item: an object, the caller's */
  json_t *locals; /* names that {% set %} and {% for %} gave; or NULL */
  struct ch_template_regex *regexes;
  int64_t steps, bytes; /* work of the last filling, which template_limits.h bounds */
} ch_template_scope;
void ch_template_scope_free(ch_template_scope *scope);

/* A template that is one {{ expression }} gives its value, any other the text; *value is the caller's. Errors:
   CH_ERROR_FORMAT for a field that the item does not have, for operations that its values do not allow, and for work
   beyond the limits of template_limits.h. */
ch_status ch_template_value(const ch_template *template, ch_template_scope *scope, json_t **value,
                            ch_error *error);

#endif
