/* Python's literals, which some data sets have in their fields: strings, numbers, lists, tuples, dictionaries. */
#ifndef CH_TEMPLATE_PYTHON_LITERAL_H
#define CH_TEMPLATE_PYTHON_LITERAL_H

#include <jansson.h>

#include "base/error.h"

/* Parses strings, decimal numbers, lists, tuples, dictionaries, True, False and None, and returns the value as JSON.
   Tuples and values in parentheses become lists. Keys must be strings. Returns NULL with *error filled on failure. */
json_t *ch_python_literal(const char *text, size_t size, ch_error *error);

#endif
