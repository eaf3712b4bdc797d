/* Python's literals, which some data sets have in their fields: strings, numbers, lists, tuples, dictionaries. */
#ifndef CH_TEMPLATE_PYTHON_LITERAL_H
#define CH_TEMPLATE_PYTHON_LITERAL_H

#include <jansson.h>

#include "base/error.h"

/* Parses a literal as Python's ast.literal_eval does, and returns it as JSON. Tuples become lists. Keys must be
   strings. Returns NULL with *error filled on failure. */
json_t *ch_python_literal(const char *text, size_t size, ch_error *error);

#endif
