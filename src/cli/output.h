/* Standard output that loses nothing silently. */
#ifndef CH_CLI_OUTPUT_H
#define CH_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Occupies closed standard descriptors, so that no model file becomes standard output, and lets a vanished
   reader show as a failed write instead of a signal. */
void ch_output_begin(void);
/* Writes out what is buffered. False, with the reason, when output was lost; a reader that left early (`|
   head`) has what it wanted and is no failure. */
bool ch_output_end(char *reason, size_t size);

#endif
