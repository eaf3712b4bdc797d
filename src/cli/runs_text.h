/* Recorded runs as tables. */
#ifndef CH_CLI_RUNS_TEXT_H
#define CH_CLI_RUNS_TEXT_H

#include <crosshead/runs.h>
#include <jansson.h>

#include "base/text.h"

/* A line for each run that was found. Settings that differ between runs whose lines would look the same have columns of
   their own (cli/runs_table.c). */
void ch_runs_table(const ch_run_list *found, ch_text *text);
/* Everything about one run but its curves. */
void ch_runs_page(const ch_run_record *run, ch_text *text);
/* The differences between runs: a line for each setting or result, a column for each run. */
void ch_runs_differences(const ch_run_list *found, ch_text *text);
/* Like ch_runs_differences, as JSON: {"runs": [ids], "differences": {key: [values]}}; NULL when memory is out. */
json_t *ch_runs_differences_json(const ch_run_list *found);

#endif
