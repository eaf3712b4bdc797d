/* Loss curves from files: tables of numbers, logs, results. */
#ifndef CH_EXPERIMENT_FINDINGS_CURVE_FILE_H
#define CH_EXPERIMENT_FINDINGS_CURVE_FILE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

/* A curve, in the order of rising tokens. */
typedef struct ch_loss_curve {
  const char *name;
  double *tokens, *losses; /* [count], in the arena */
  int count;
} ch_loss_curve;

/* Reads every curve of a file, by what it holds: - a run's log.jsonl: one curve; - JSON with "models" or "runs"
 * (results.json of compare and sweep, `runs --json --curves`): one for each; - else a table, one row a point
 * (experiment/findings/number_table.h): two columns of numbers, or more under a heading that names "tokens" (or
 * "step", "images") and "loss" or "validation_loss". validation: of logs and JSON, the validation losses, else those
 * of training; *table (may be NULL) says that there was no such choice. Errors name the file and the line. */
ch_status ch_read_curves(const char *path, bool validation, ch_arena *arena, ch_loss_curve **curves,
                         int *count, bool *table, ch_error *error);

/* Models of several sizes, in the order of the file. */
typedef struct ch_sized_models {
  double *sizes, *tokens, *losses; /* [count], in the arena; sizes: parameters without embeddings */
  int count;
} ch_sized_models;

/* Reads the sizes, tokens and last losses of models: of JSON with "models" or "runs" (results.json of compare, `runs
 * --json`), where runs that have not ended or have no such loss are left out; else of a table like that of a curve,
 * with a third column "parameters". validation: of JSON, the validation losses, else those of training. Errors as
 * above. */
ch_status ch_read_sized_models(const char *path, bool validation, ch_arena *arena, ch_sized_models *models,
                               ch_error *error);

#endif
