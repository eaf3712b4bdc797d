/* Warnings about results that do not answer the question of the experiment. */
#ifndef CH_EXPERIMENT_FINDINGS_WARNINGS_H
#define CH_EXPERIMENT_FINDINGS_WARNINGS_H

#include "experiment/findings/summary.h"
#include "experiment/findings/sweep_results.h"

enum { CH_MOST_WARNINGS = 5 };

typedef struct ch_warning {
  const char *kind;         /* "diverged", "first_plateau", "reread", "edge_of_grid", "loose_law" */
  const char *const *names; /* [count] names of the mechanisms that the warning is about */
  int count;
  const char *sentence;
} ch_warning;

typedef struct ch_warnings {
  ch_warning list[CH_MOST_WARNINGS];
  int count;
} ch_warnings;

/* Collects warnings about a comparison's models and runs. Strings go into the arena.
 * - diverged: a run of the model ended worse than guessing (ch_group)
 * - first_plateau: the validation loss of a run is less than 5 % below data.token_entropy
 * - reread: a run read its training text more than 4 times, and its validation loss ends more than 0.1 % above its
 *   lowest value
 * - edge_of_grid: the model's best learning rate of those tried is the smallest or the largest of them
 * - loose_law: the curve of a fitted law has no more independent points than the law has parameters (correlated
 *   neighbours count as fewer points), an interval is open, or the ends of the exponent's interval differ by more than
 *   a factor of 10 */
ch_status ch_comparison_warnings(const ch_comparison *comparison, const ch_summary *summary, ch_arena *arena,
                                 ch_warnings *warnings, ch_error *error);

/* Collects warnings about a sweep's mechanisms.
 * - edge_of_grid: the largest stable rate is the largest of the grid, or the lowest loss is at an end of the grid
 * - loose_law: the law of a run at the chosen rate is loose as in ch_comparison_warnings */
ch_status ch_sweep_warnings(const ch_sweep *sweep, ch_arena *arena, ch_warnings *warnings, ch_error *error);

/* Returns a list of objects with "kind", "names" and "sentence", or NULL when out of memory. The caller releases it
 * with json_decref. */
json_t *ch_warnings_to_json(const ch_warnings *warnings);

#endif
