/* Prints the results of experiments, as JSON or a table. */
#ifndef CH_CLI_RESULTS_H
#define CH_CLI_RESULTS_H

#include "base/error.h"

/* Prints results that the library gave as JSON, with as many digits as results.json has, and releases the text. */
ch_status ch_results_print_json(char *json, ch_error *error);
/* Prints a table that the library made, and below it the files of the directory OUT that say more (NULL: none). Releases
   the table. */
ch_status ch_results_print_table(char *table, const char *out, ch_error *error);

#endif
