/* Prints the results of experiments, as JSON or a table. */
#ifndef CH_CLI_RESULTS_H
#define CH_CLI_RESULTS_H

#include "base/error.h"

/* Prints results as JSON with the number format of results.json, and releases the text. */
ch_status ch_results_print_json(char *json, ch_error *error);
/* Prints a table of the library and, below it, the names of the report's files in `out` (NULL: none). Releases the
   table. */
ch_status ch_results_print_table(char *table, const char *out, ch_error *error);

#endif
