/* The file of runs from inside: what <crosshead/runs.h> declares is defined in store.c and in api/api_runs_query.c. */
#ifndef CH_RUNS_STORE_H
#define CH_RUNS_STORE_H

#include <crosshead/runs.h>
#include <jansson.h>

/* A run as JSON, without NaN; NULL when memory is out. */
json_t *ch_kept_run_to_json(const ch_kept_run *run, bool curves);

#endif
