/* A file of training runs and evaluations: their settings, machines and results. `crosshead runs` shows it. Link
 * libcrosshead-train.
 *
 * The file is an SQLite database (docs/runs.md describes its tables). Any number of processes may read and
 * write it at once: a run is one transaction, and a second writer waits for up to a minute. One thread at a
 * time may use a ch_runs.
 *
 *   ch_runs *runs;
 *   if (ch_runs_open("runs.sqlite", CH_RUNS_CREATE, &runs, NULL) == CH_OK) {
 *     ch_runs_record(runs, "model", NULL, NULL, NULL); // what ch_train wrote to "model"
 *     ch_runs_close(runs);
 *   }
 *
 * From simple to advanced: the file, its runs, queries; saving and deleting single runs. */
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

/* Opens the file PATH; `flags` are of ch_runs_flags. Release *runs with ch_runs_close. Errors, which leave the
 * contents of the file unchanged: CH_ERROR_IO for a file that does not exist, cannot be read or is locked by another
 * program; CH_ERROR_FORMAT for a file that is empty, damaged, of a newer version or not a file of runs;
 * CH_ERROR_ARGUMENT for NULL; CH_ERROR_MEMORY. */
CH_API ch_status ch_runs_open(const char *path, unsigned flags, ch_runs **runs, ch_error *error);

/* Closes the file. NULL is fine. */
CH_API void ch_runs_close(ch_runs *runs);

/* Returns "PARENT/runs.sqlite", where PARENT is the directory that contains OUTPUT: the file in which the program
 * records a run that it writes to OUTPUT. The text is the caller's: release it with ch_free. NULL when out of
 * memory. */
CH_API char *ch_runs_beside(const char *output);

/* ---- Its runs ---- */

/* A run. If a query found it, its texts are never NULL. In a run to save, a NULL text means "", or "{}" for JSON.
 * Numbers that are not known are NaN or, when whole, -1. Zero-initialise it; later versions may add members. */
typedef struct ch_run_record {
  int64_t id;            /* number of the run, which the file gives; ignored when a run is saved */
  const char *kind;      /* "train", "compare", "sweep" or "eval" */
  const char *name;      /* name of the run: "gqa:4" */
  const char *directory; /* absolute path of the run or the evaluated model */
  const char *status;    /* "done", "interrupted", "failed" or "stopped" */
  /* name of the mechanism; a run that was found has the usual one, e.g. "mha" for gqa with as many key-value
   * heads as query heads */
  const char *mechanism;
  const char *dataset;              /* data of the training or the evaluation */
  int64_t seed, tokens, parameters; /* seed; number of tokens trained on so far; number of parameters */
  double lr, loss, validation_loss; /* peak learning rate, last training loss, validation loss */
  double seconds;                   /* seconds of training, or of the evaluation */
  const char *started, *finished;   /* times in UTC, ISO 8601 */
  const char *version, *commit;     /* version and commit of the program */
  const char *command;              /* command line */
  const char *config, *options, *machine, *results; /* JSON objects */
  /* [curve_points] training losses and [validation_points] validation losses, by rising tokens; NULL without
   * points */
  const ch_curve_point *curve, *validation_curve;
  int64_t curve_points, validation_points;
} ch_run_record;

/* Facts about a run that its files do not contain. Members may be NULL. */
typedef struct ch_run_labels {
  const char *kind;             /* kind of the run; NULL: "train", of an evaluation "eval" */
  const char *name;             /* name of the run; NULL: the last part of its directory */
  const char *dataset;          /* data of the training or the evaluation */
  const char *command, *commit; /* command line, and commit of the program */
  const char *status;           /* status in place of the log's: "done", "interrupted", "failed", "stopped" */
} ch_run_labels;

/* Saves the training run of DIRECTORY: its log.jsonl, and result.json if it exists; labels may be NULL. Curves of
 * more than 1000 points become means of equal stretches. *id (id may be NULL) becomes the run's number. Errors:
 * CH_ERROR_ARGUMENT for NULL, CH_ERROR_IO for a directory without log, CH_ERROR_FORMAT for a log that does not begin
 * with a run, and those of ch_runs_put. */
CH_API ch_status ch_runs_record(ch_runs *runs, const char *directory, const ch_run_labels *labels,
                                int64_t *id, ch_error *error);

/* Saves an evaluation that has just ended on this machine. json: the object that ch_evaluate_text, ch_evaluate_task
 * or ch_evaluate_images wrote for the model; its "loss" becomes validation_loss, and its "seconds" become `seconds`.
 * labels may be NULL. *id (id may be NULL) becomes the run's number. Errors: CH_ERROR_ARGUMENT for NULL,
 * CH_ERROR_FORMAT for a text that is not a JSON object, CH_ERROR_IO for a model whose directory is gone, and those of
 * ch_runs_put. */
CH_API ch_status ch_runs_record_evaluation(ch_runs *runs, const ch_model *model, const char *json,
                                           const ch_run_labels *labels, int64_t *id, ch_error *error);

/* ---- Queries ---- */

/* A query for runs. Zero-initialise it; members may be added in later versions.
 *
 * A term is the number of a run or a condition, KEY=VALUE with one of = != < <= > >= ~ (contains). A run matches
 * if it has one of the numbers, should there be any, and meets all conditions. KEY is the name of a text or
 * number in ch_run_record, or a member of its JSON texts: "config.hidden_size", "options.batch",
 * "results.verdict". "mechanism=gqa" finds gqa:4 and gqa+masa too. "loss" is the validation loss or, if a run
 * has none, the training loss; "training_loss" is always the latter.
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
  const char *const *terms; /* [count] terms */
  int32_t count;
  const char *sort; /* key to sort by, after a '-' for the highest first; NULL: the number of the run */
  int64_t limit;    /* maximum number of runs to return; 0: all */
  bool curves;      /* true: also read the loss curves; otherwise runs have no points */
} ch_runs_query;

/* Runs that a query found. They stay valid when the file changes or is closed. */
typedef struct ch_run_list ch_run_list;

/* Finds the runs that match a query, all of them for NULL; release *found with ch_run_list_free. Errors:
 * CH_ERROR_ARGUMENT for invalid terms, unknown keys (the nearest is suggested) and the number of a run that
 * does not exist; CH_ERROR_IO, CH_ERROR_FORMAT and CH_ERROR_MEMORY. */
CH_API ch_status ch_runs_find(ch_runs *runs, const ch_runs_query *query, ch_run_list **found,
                              ch_error *error);

/* Releases the runs. NULL is fine. */
CH_API void ch_run_list_free(ch_run_list *found);

/* Returns the number of runs that were found. */
CH_API int64_t ch_run_list_count(const ch_run_list *found);

/* Returns run `index`, 0 ... count - 1, in the requested order; it belongs to `found`. NULL for another index. */
CH_API const ch_run_record *ch_run_list_at(const ch_run_list *found, int64_t index);

/* *json becomes a run as a JSON object: its members by their names, unknown numbers as null; with `curves` also
 * "curve" and "validation_curve", lists of [tokens, loss]. *json is NUL-terminated and the caller's: release it with
 * ch_free. Errors: CH_ERROR_ARGUMENT for NULL, CH_ERROR_MEMORY. */
CH_API ch_status ch_run_record_json(const ch_run_record *run, bool curves, char **json, ch_error *error);

/* ---- Saving and deleting single runs ---- */

/* Saves a run. If the file has a run with the same `directory` and `started`, that run is updated: its number, kind
 * and name stay, an empty text other than the status leaves the old one, and all else is replaced. *id (id may be
 * NULL) becomes the run's number. Errors: CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_MEMORY. */
CH_API ch_status ch_runs_put(ch_runs *runs, const ch_run_record *run, int64_t *id, ch_error *error);

/* Removes the runs with the numbers ids [count] from the file, all or none. Models and logs stay. Numbers without a
 * run are ignored. Errors: CH_ERROR_IO, CH_ERROR_FORMAT, CH_ERROR_MEMORY. */
CH_API ch_status ch_runs_delete(ch_runs *runs, const int64_t *ids, int64_t count, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif
