/* Records the runs of a command in runs.sqlite next to its output, or in the file of --runs or CROSSHEAD_RUNS. */
#ifndef CH_CLI_RECORD_RUN_H
#define CH_CLI_RECORD_RUN_H

#include <crosshead/runs.h>

#include "base/error.h"
#include "base/progress.h"

typedef struct ch_run_recorder {
  char *path; /* file of runs; NULL: nothing is recorded */
  ch_run_labels labels;
} ch_run_recorder;

/* The option of commands that record runs. */
#define CH_RUNS_OPTION(member)                                                                               \
  CH_PATH_OPTION("runs", member, "FILE",                                                                     \
                 "File in which the run is recorded for `crosshead runs`; none records nothing (default: "   \
                 "CROSSHEAD_RUNS, else runs.sqlite next to --out).")

/* Opens the recorder for the file `requested` (--runs; may be NULL), else for CROSSHEAD_RUNS, else for runs.sqlite
   next to `output` (--out; NULL: nothing is recorded). The name "none" records nothing. An existing file that is not
   a file of runs is an error. */
ch_status ch_run_recorder_begin(ch_run_recorder *keeper, const char *requested, const char *output,
                                ch_error *error);
void ch_run_recorder_end(ch_run_recorder *keeper);

/* Records the run in a directory under a name (NULL: the directory's). An error is only printed, to the stream of the
   progress line, because the run's own files have everything. */
void ch_run_recorder_record(const ch_run_recorder *keeper, const char *directory, const char *name,
                            ch_progress_line *line);

/* Records the figures of an evaluation, a JSON object, under a name (the task, or "text"). An error is only
   printed. */
void ch_run_recorder_record_evaluation(const ch_run_recorder *keeper, const ch_model *model, const char *json,
                                       const char *name, ch_progress_line *line);

/* Returns the file that `crosshead runs` reads: `requested`, CROSSHEAD_RUNS, or runs.sqlite in the current
   directory. */
const char *ch_runs_file(const char *requested);

/* The commit that the program was built from, or "" if it was not built from a repository. */
extern const char ch_build_commit[];

#endif
