/* Kept runs as tables. */
#ifndef CH_CLI_RUNS_TEXT_H
#define CH_CLI_RUNS_TEXT_H

#include "base/text.h"
#include "runs/store.h"

/* A line a run. */
void ch_runs_table(const ch_kept_run *runs, int64_t count, ch_text *text);
/* Everything about one run but its curves. */
void ch_runs_page(const ch_kept_run *run, ch_text *text);
/* What differs between runs: a line a setting or result, a column a run. */
void ch_runs_differences(const ch_kept_run *runs, int64_t count, ch_text *text);
/* The same as JSON: {"runs": [ids], "differences": {key: [values]}}; NULL when memory is out. */
json_t *ch_runs_differences_json(const ch_kept_run *runs, int64_t count);

#endif
