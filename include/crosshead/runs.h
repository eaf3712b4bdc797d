/* A file of what was trained and evaluated, with which settings, where, and with which results. It is what
 * `crosshead runs` shows. Link libcrosshead-train.
 *
 * The file is an SQLite database (docs/runs.md describes its tables). Any number of processes may read and
 * write it at once: a run is one transaction, and a second writer waits for up to a minute. A ch_runs
 * belongs to one thread at a time.
 *
 *   ch_runs *runs;
 *   if (ch_runs_open("runs.sqlite", CH_RUNS_CREATE, &runs, NULL) == CH_OK) {
 *     ch_runs_record(runs, "model", NULL, NULL, NULL); // what ch_train wrote to "model"
 *     ch_runs_close(runs);
 *   }
 *
 * From simple to advanced: the file, its runs, queries; saving runs of one's own, deleting. */
#ifndef CROSSHEAD_RUNS_H
#define CROSSHEAD_RUNS_H

#include <crosshead/common.h>
#include <crosshead/fit.h>
#include <crosshead/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The usual name of a file of runs. */
#define CH_RUNS_FILE "runs.sqlite"

/* ---- The file ---- */

/* An open file of runs. */
typedef struct ch_runs ch_runs;

/* Flags of ch_runs_open; combine with |. */
typedef enum ch_runs_flags {
  CH_RUNS_CREATE = 1 /* create the file if it does not exist */
} ch_runs_flags;

/* Opens the file PATH; `flags` are of ch_runs_flags. Errors, all of which leave the file as it is:
 * CH_ERROR_IO (not there, not readable, held by another program), CH_ERROR_FORMAT (not a file of runs, of a
 * newer version, damaged). */
CH_API ch_status ch_runs_open(const char *path, unsigned flags, ch_runs **runs, ch_error *error);

/* NULL is fine. */
CH_API void ch_runs_close(ch_runs *runs);

/* Returns "PARENT/runs.sqlite", where PARENT is the directory that contains OUTPUT: the file in which the
 * program records what it writes there. The caller's: release it with ch_free. NULL when out of memory. */
CH_API char *ch_runs_beside(const char *output);

/* ---- Its runs ---- */

/* A run. In what is read, texts are never NULL; in what is written, NULL means "". Numbers that are not known
 * are NaN or, when whole, -1. The JSON texts are objects. Zero-initialise it; members may be added in later
 * versions. */
typedef struct ch_run_record {
  int64_t id;            /* given by the file */
  const char *kind;      /* "train", "compare", "sweep" or "eval" */
  const char *name;      /* "gqa:4" */
  const char *directory; /* absolute */
  const char *status;    /* "done", "interrupted", "failed", "stopped" */
  /* When read: the usual name, e.g. "mha" for gqa with as many key-value heads as query heads. */
  const char *mechanism;
  const char *dataset;
  int64_t seed, tokens, parameters; /* tokens: trained on so far */
  double lr, loss, validation_loss; /* loss: the last training loss */
  double seconds;
  const char *started, *finished; /* UTC, ISO 8601 */
  const char *version, *commit;   /* of the program */
  const char *command;
  const char *config, *options, *machine, *results; /* JSON */
  const ch_curve_point *curve, *validation_curve; /* by rising tokens: [curve_points], [validation_points] */
  int64_t curve_points, validation_points;
} ch_run_record;

/* Facts about a run that its files do not hold; members may be NULL. */
typedef struct ch_run_labels {
  const char *kind;    /* NULL: "train", for an evaluation "eval" */
  const char *name;    /* NULL: the directory's last part */
  const char *dataset; /* what it was trained or evaluated on */
  const char *command, *commit;
  const char *status; /* instead of the log's status: "done", "interrupted", "failed", "stopped" */
} ch_run_labels;

/* Saves the training run of DIRECTORY: its log.jsonl, and result.json where there is one; labels may be NULL.
 * Curves of more than 1000 steps become means of equal stretches. *id (may be NULL) receives its
 * number. Errors: CH_ERROR_IO (no log), CH_ERROR_FORMAT (one that does not begin as logs do), and those of
 * ch_runs_put. */
CH_API ch_status ch_runs_record(ch_runs *runs, const char *directory, const ch_run_labels *labels,
                                int64_t *id, ch_error *error);

/* Saves an evaluation that has just ended on this machine: `json` is the object that ch_evaluate_text or
 * ch_evaluate_task gave for the model; its "loss" and "seconds" become the run's. labels may be NULL. *id
 * (may be NULL) receives its number. Errors: CH_ERROR_FORMAT for what is no JSON object, and those of
 * ch_runs_put. */
CH_API ch_status ch_runs_record_evaluation(ch_runs *runs, const ch_model *model, const char *json,
                                           const ch_run_labels *labels, int64_t *id, ch_error *error);

/* ---- Queries ---- */

/* A query for runs. Zero-initialise it; members may be added in later versions.
 *
 * A term is the number of a run (with several numbers, any of them is found), or KEY=VALUE with one of = != <
 * <= > >= ~ (contains); all of these must hold. KEY is the name of a text or number in ch_run_record, or a
 * member of its JSON texts: "config.hidden_size", "options.batch", "results.verdict". "mechanism=gqa" finds
 * gqa:4 too. "loss" is the validation loss, where a run has none the training loss, which is also
 * "training_loss".
 *
 *   ch_runs *runs;
 *   ch_run_list *found;
 *   const char *terms[] = {"mechanism=gqa", "config.hidden_size>=512"};
 *   ch_runs_query query = {.terms = terms, .count = 2, .sort = "loss", .limit = 10};
 *   if (ch_runs_open("runs.sqlite", 0, &runs, NULL) == CH_OK) {
 *     if (ch_runs_find(runs, &query, &found, NULL) == CH_OK) {
 *       for (int64_t i = 0; i < ch_run_list_count(found); i++) puts(ch_run_list_at(found, i)->name);
 *       ch_run_list_free(found);
 *     }
 *     ch_runs_close(runs);
 *   } */
typedef struct ch_runs_query {
  const char *const *terms; /* [count] */
  int32_t count;
  const char *sort; /* the key to sort by, with a '-' before it for the highest first; NULL: by number */
  int64_t limit;    /* 0: all */
  bool curves;      /* also read the loss curves; otherwise runs have no points */
} ch_runs_query;

/* Runs that a query found. They do not change when the file changes or is closed. */
typedef struct ch_run_list ch_run_list;

/* Finds the runs that match a query, all of them for NULL; release *found with ch_run_list_free. Errors:
 * CH_ERROR_ARGUMENT for invalid terms, unknown keys (the nearest is suggested) and the number of a run that
 * does not exist; CH_ERROR_IO and CH_ERROR_FORMAT. */
CH_API ch_status ch_runs_find(ch_runs *runs, const ch_runs_query *query, ch_run_list **found,
                              ch_error *error);

/* NULL is fine. */
CH_API void ch_run_list_free(ch_run_list *found);

/* Returns how many were found. */
CH_API int64_t ch_run_list_count(const ch_run_list *found);

/* Returns run `index` of 0 ... count - 1, in the requested order; it belongs to `found`. NULL for another
 * index. */
CH_API const ch_run_record *ch_run_list_at(const ch_run_list *found, int64_t index);

/* Writes one run as a JSON object: its members by their names, unknown numbers as null; with `curves` also
 * "curve" and "validation_curve", lists of [tokens, loss]. *json is NUL-terminated and the caller's: release
 * it with ch_free. */
CH_API ch_status ch_run_record_json(const ch_run_record *run, bool curves, char **json, ch_error *error);

/* ---- Saving and deleting single runs ---- */

/* Saves a run. It replaces the run with the same `directory` and `started`, if there is one; a text that is
 * empty then leaves the old one. *id (may be NULL) becomes its number.
 * Errors: CH_ERROR_IO, CH_ERROR_FORMAT. */
CH_API ch_status ch_runs_put(ch_runs *runs, const ch_run_record *run, int64_t *id, ch_error *error);

/* Removes the runs of numbers ids [count] from the file, all or none; models and logs stay. Numbers of no
 * run are ignored. Errors: CH_ERROR_IO, CH_ERROR_FORMAT. */
CH_API ch_status ch_runs_delete(ch_runs *runs, const int64_t *ids, int64_t count, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif
