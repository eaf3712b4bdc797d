/* Standard output that loses nothing silently. */
#ifndef CH_CLI_OUTPUT_H
#define CH_CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/text.h"

/* Occupies closed standard descriptors, so that no model file becomes standard output, and lets a vanished
   reader show as a failed write instead of a signal. */
void ch_output_begin(void);
/* Writes out what is buffered. False, with the reason, when output was lost; a reader that left early (`|
   head`) has what it wanted and is no failure. */
bool ch_output_end(char *reason, size_t size);

/* Writes to standard output, and keeps the reason if that fails; flush: now, so that a reader sees it. */
void ch_output_put(const char *data, size_t size, bool flush);
/* CH_OK while nothing is lost, or when the reader left; else CH_ERROR_IO with the reason. */
ch_status ch_output_check(ch_error *error);

/* Prints a JSON value on a line of its own, with jansson's encoding flags, and releases it; NULL: memory ran out while
   it was made. */
ch_status ch_print_json(json_t *value, size_t flags, ch_error *error);
/* Prints a text and releases it; an error when memory ran out while it was made. */
ch_status ch_print_text(ch_text *text, ch_error *error);

#endif
