/* Recorded runs as tables. */
#ifndef CH_CLI_RUNS_TEXT_H
#define CH_CLI_RUNS_TEXT_H

#include <crosshead/runs.h>
#include <jansson.h>

#include "base/text.h"

/* Writes a line for each run. Settings that differ between lines that would look alike get columns
 * (cli/runs_table.c). */
void ch_runs_table(const ch_run_list *found, ch_text *text);
/* Writes everything about one run except its curves. */
void ch_runs_page(const ch_run_record *run, ch_text *text);
/* Writes the differences between runs: a line for each setting or result that differs, a column for each run. */
void ch_runs_differences(const ch_run_list *found, ch_text *text);
/* Converts the differences to JSON: {"runs": [ids], "differences": {key: [values]}}; NULL when out of
 * memory. */
json_t *ch_runs_differences_json(const ch_run_list *found);

#endif
