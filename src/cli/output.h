/* Standard output, with errors for lost output. */
#ifndef CH_CLI_OUTPUT_H
#define CH_CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/text.h"

/* Opens closed standard descriptors, so that no model file becomes standard output. Ignores SIGPIPE and SIGXFSZ, so
   that a write fails if the reader has gone or the file size limit is reached. */
void ch_output_begin(void);
/* Flushes standard output. Returns false, with the reason, if output was lost. A reader that left early (`| head`) is
   not a failure. */
bool ch_output_end(char *reason, size_t size);

/* Writes to standard output and records the reason of a failure. With `flush`, the data is written at once. */
void ch_output_put(const char *data, size_t size, bool flush);
/* Returns CH_OK if nothing was lost or the reader left, otherwise CH_ERROR_IO with the reason. */
ch_status ch_output_check(ch_error *error);

/* Prints a JSON value on a line of its own, with jansson's encoding flags, and releases it. NULL means out of
   memory. */
ch_status ch_print_json(json_t *value, size_t flags, ch_error *error);
/* Prints a text and releases it. Fails if the text is incomplete because it ran out of memory. */
ch_status ch_print_text(ch_text *text, ch_error *error);

#endif
