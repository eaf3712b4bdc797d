/* The results of a sweep over learning rates, as in results.json, and the conclusions from its runs. */
#ifndef CH_EXPERIMENT_FINDINGS_SWEEP_RESULTS_H
#define CH_EXPERIMENT_FINDINGS_SWEEP_RESULTS_H

#include <string.h>

#include <crosshead/sweep.h>

#include "experiment/findings/comparison_results.h"
#include "laws/loss_spikes.h"

struct ch_sweep {
  /* Command, version, data, training and machine. Its models are the runs at each mechanism's rate with the lowest
   * loss, for the verdict. Its arena holds the whole sweep. */
  ch_comparison about;
  double budget; /* number of tokens to which losses are extrapolated */
  int64_t skip;  /* number of tokens up to which points are left out of the laws */
  int64_t jobs, threads;
  ch_sweep_result *runs; /* [count] finished runs, ordered by mechanism, rate and seed */
  int count, planned;
  ch_sweep_choice *choices; /* [mechanisms] */
  int mechanisms;
};

/* Finds stuck runs, fits laws, chooses rates, and makes `about` a comparison of the mechanisms at their best rates. The
 * names in sweep->choices must be set. Errors: CH_ERROR_MEMORY. */
ch_status ch_sweep_judge(ch_sweep *sweep, ch_error *error);

/* Returns true if laws are fitted to the runs: L(D) holds along a run only if its rate stays constant. */
static inline bool ch_sweep_has_laws(const ch_sweep *sweep) {
  const char *schedule = sweep->about.training.schedule; /* NULL if the results do not name it */
  return !schedule || strcmp(schedule, "constant") == 0;
}

/* Returns true if the run has the choice's mechanism. */
static inline bool ch_sweep_is_of(const ch_sweep_result *run, const ch_sweep_choice *choice) {
  return strcmp(run->name, choice->name) == 0;
}

/* Converts a run to JSON, with the conclusions if `judged`. A run's result.json has measurements only, because
 * conclusions depend on the other runs. */
json_t *ch_sweep_result_to_json(const ch_sweep_result *run, bool judged);
ch_status ch_sweep_result_from_json(const json_t *object, const char *where, ch_arena *arena,
                                    ch_sweep_result *run, ch_error *error);
json_t *ch_sweep_to_json(const ch_sweep *sweep);
/* Converts a law to JSON, as in results.json. */
json_t *ch_scaling_law_to_json(const ch_scaling_law *law);
json_t *ch_stability_to_json(const ch_stability *stability);

#endif
