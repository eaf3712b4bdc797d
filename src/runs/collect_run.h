/* A run as its directory describes it: log.jsonl has its start, progress and end, result.json its results. */
#ifndef CH_RUNS_COLLECT_RUN_H
#define CH_RUNS_COLLECT_RUN_H

#include <crosshead/runs.h>

#include "base/arena.h"

/* Reads DIRECTORY/log.jsonl, and DIRECTORY/result.json if it exists. Texts and curves are in the arena; curves of
   more than 1000 points are means of equal stretches. Errors: CH_ERROR_IO without a log, CH_ERROR_FORMAT for a log
   without a start or resume event. */
ch_status ch_collect_run(const char *directory, const ch_run_labels *labels, ch_arena *arena,
                         ch_run_record *run, ch_error *error);

#endif
