/* The results of a sweep over learning rates: the contents of results.json, and the conclusions from the runs. */
#ifndef CH_EXPERIMENT_FINDINGS_SWEEP_RESULTS_H
#define CH_EXPERIMENT_FINDINGS_SWEEP_RESULTS_H

#include <string.h>

#include <crosshead/sweep.h>

#include "experiment/findings/comparison_results.h"
#include "laws/loss_spikes.h"

struct ch_sweep {
  /* Command, version, data, training, machine; and as models the runs at each mechanism's rate of the lowest loss,
   * from which the verdict follows. Its arena holds everything. */
  ch_comparison about;
  double budget; /* tokens that losses are extrapolated to */
  int64_t skip;  /* tokens before the first point that laws are fitted to */
  int64_t jobs, threads;
  ch_sweep_result *runs; /* [count], in the order of mechanisms, rates, seeds */
  int count, planned;
  ch_sweep_choice *choices; /* [mechanisms] */
  int mechanisms;
};

/* Fits laws, tells which runs are stuck, chooses rates, and compares the mechanisms at their best rates; choices
 * [mechanisms] have their names. Fails without memory. */
ch_status ch_sweep_judge(ch_sweep *sweep, ch_error *error);

/* Returns true if the run is of the choice's mechanism. */
static inline bool ch_sweep_is_of(const ch_sweep_result *run, const ch_sweep_choice *choice) {
  return strcmp(run->name, choice->name) == 0;
}

/* Converts a run to JSON. A run's result.json holds measurements only; conclusions (`judged`) are drawn
 * again. */
json_t *ch_sweep_result_to_json(const ch_sweep_result *run, bool judged);
ch_status ch_sweep_result_from_json(const json_t *object, const char *where, ch_arena *arena,
                                    ch_sweep_result *run, ch_error *error);
json_t *ch_sweep_to_json(const ch_sweep *sweep);
/* Converts a law to JSON as in results.json. */
json_t *ch_scaling_law_to_json(const ch_scaling_law *law);
json_t *ch_stability_to_json(const ch_stability *stability);

#endif
