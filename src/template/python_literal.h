/* Python's literals as some data sets hold them in their fields: strings, numbers, lists, tuples,
   dictionaries. */
#ifndef CH_TEMPLATE_PYTHON_LITERAL_H
#define CH_TEMPLATE_PYTHON_LITERAL_H

#include <jansson.h>

#include "base/error.h"

/* Like Python's ast.literal_eval, as JSON: tuples are lists, keys must be strings. Returns NULL with *error
   filled. */
json_t *ch_python_literal(const char *text, size_t size, ch_error *error);

#endif
