/* Kept runs: one SQLite file of what was trained or evaluated, with which settings, where, and what came of it.
 *
 * Several processes may write to one file at once: a run is one transaction, and who comes second waits. A file that is
 * not ours, or damaged, is an error that says so and is left as it is. docs/runs.md describes the tables. */
#ifndef CH_RUNS_STORE_H
#define CH_RUNS_STORE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

typedef struct ch_runs ch_runs;

/* A loss after so many tokens (or images). */
typedef struct ch_kept_point {
  int64_t tokens;
  double loss;
} ch_kept_point;

/* A run. Texts are never NULL in what is read and NULL means "" in what is written; numbers that are not known are NaN or,
   when whole, -1. The JSON texts are objects. */
typedef struct ch_kept_run {
  int64_t id;            /* given by the store */
  const char *kind;      /* the command: "train", "compare", "sweep", "eval" */
  const char *name;      /* "gqa:4" */
  const char *directory; /* absolute */
  const char *status;    /* "done", "interrupted", "failed", "stopped" */
  const char *mechanism, *dataset;
  int64_t seed, tokens, parameters; /* tokens: trained on so far */
  double lr, loss, validation_loss, seconds;
  const char *started, *finished; /* UTC, ISO 8601 */
  const char *version, *commit, *command;
  const char *config, *options, *machine, *results; /* JSON */
  const ch_kept_point *curve, *validation_curve;
  int64_t curve_points, validation_points;
} ch_kept_run;

/* Opens PATH; `create` makes it where there is none. Errors name the file: not a database, another program's, of a newer
   version, damaged, not writable. */
ch_status ch_runs_open(const char *path, bool create, ch_runs **runs, ch_error *error);
void ch_runs_close(ch_runs *runs);

/* Keeps a run: as a new one, or in place of what is known of it, where directory and start are the same. *id (may be
   NULL) receives its number. */
ch_status ch_runs_put(ch_runs *runs, const ch_kept_run *run, int64_t *id, ch_error *error);

/* What to look for. Terms, all of which must hold: a number (a run's id; several are any of them), or KEY=VALUE with one of
   = != < <= > >= ~ (contains). KEY is a column ("seed", "validation_loss") or a member of a JSON text
   ("config.hidden_size", "options.batch", "results.verdict", "machine.cores"). */
typedef struct ch_runs_query {
  const char *const *terms; /* [count] */
  int count;
  const char *sort; /* a key, with a '-' before it for the highest first; NULL: by id */
  int64_t limit;    /* 0: all */
  bool curves;      /* read them too */
} ch_runs_query;

/* The runs that a query finds, in the arena. An id that is not there is an error (CH_ERROR_ARGUMENT). */
ch_status ch_runs_find(ch_runs *runs, const ch_runs_query *query, ch_arena *arena, ch_kept_run **found,
                       int64_t *count, ch_error *error);
/* Removes runs (their files stay). */
ch_status ch_runs_delete(ch_runs *runs, const int64_t *ids, int64_t count, ch_error *error);

/* A run as JSON, without NaN; NULL when memory is out. */
json_t *ch_kept_run_to_json(const ch_kept_run *run, bool curves);

/* "DIRECTORY/../runs.sqlite": the file beside an output, in malloc'd memory; NULL when memory is out. */
char *ch_runs_beside(const char *output);

#define CH_RUNS_FILE "runs.sqlite"

#endif
