/* Reads loss curves from files: tables of numbers, logs and results. */
#ifndef CH_EXPERIMENT_FINDINGS_CURVE_FILE_H
#define CH_EXPERIMENT_FINDINGS_CURVE_FILE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

/* A loss curve, with its points in the order of the file. */
typedef struct ch_loss_curve {
  const char *name;
  double *tokens, *losses; /* [count], in the arena */
  int count;
} ch_loss_curve;

/* Reads all curves of a file. Its format is recognised:
 * - log.jsonl of a run: one curve
 * - JSON with "models" or "runs" (results.json of compare and sweep, `runs --json --curves`): one curve for each
 * - a table with one row per point (experiment/findings/number_table.h): one curve. It has two columns of numbers, or
 *   more under a heading that names "tokens" (or "step", "images") and "loss" (or "validation_loss").
 *
 * validation: reads the validation losses of logs and JSON, not the training losses. *table, if not NULL, becomes true
 * for a table, which has no such choice. Curves are allocated in `arena`. Errors name the file and the line. */
ch_status ch_read_curves(const char *path, bool validation, ch_arena *arena, ch_loss_curve **curves,
                         int *count, bool *table, ch_error *error);

/* Models of several sizes, in the order of the file. */
typedef struct ch_sized_models {
  double *sizes, *tokens, *losses; /* [count] in the arena; `sizes` are parameters without embeddings */
  int count;
} ch_sized_models;

/* Reads the sizes, tokens and last losses of models. JSON has "models" or "runs" (results.json of compare, `runs
 * --json`); runs that have not ended or lack the loss are left out. A table is like that of a curve, with a third
 * column "parameters". validation: reads the validation losses of JSON, not the training losses. Errors name the file
 * and the line or run. */
ch_status ch_read_sized_models(const char *path, bool validation, ch_arena *arena, ch_sized_models *models,
                               ch_error *error);

#endif
