/* Training mechanisms at several learning rates: which are stable, and where their losses go. Runs are a comparison's, each
 * with its own rate; several go on at once, each on threads of its own. */
#ifndef CH_TRAIN_SWEEP_H
#define CH_TRAIN_SWEEP_H

#include "train/compare.h"
#include "train/sweep_results.h"

enum { CH_SWEEP_MOST_RATES = 32, CH_SWEEP_MOST_SEEDS = 32 };

typedef struct ch_sweep_options {
  ch_compare_options compare; /* on text; lr and tolerance do not count */
  double rates[CH_SWEEP_MOST_RATES];
  int rate_count;
  int64_t seeds;       /* runs of each mechanism and rate: compare.seed and those that follow it */
  int64_t jobs;        /* runs at a time; 0: as many as there are threads, and memory for */
  int64_t evaluations; /* of each run */
  double budget;       /* tokens to extrapolate to; 0: ten times those trained on */
} ch_sweep_options;

/* What a sweep tells its caller; every member may be NULL. Called by one thread at a time, not always the same. */
typedef struct ch_sweep_events {
  void *context;
  void (*preparing)(void *context, const char *stage, double done, double total);
  /* Once, when the text is ready and it is known how many runs go on at once. */
  void (*prepared)(void *context, const ch_sweep *sweep);
  void (*begins)(void *context, const ch_swept *run);
  /* A step of a run: its number of all, and the steps of all runs. */
  void (*step)(void *context, const ch_swept *run, const ch_step_report *report, int64_t steps);
  void (*finished)(void *context, const ch_swept *run, bool earlier);
  ch_status (*written)(void *context, const ch_sweep *sweep, ch_error *error);
  ch_stop_test interrupted; /* may be called by several threads at once */
} ch_sweep_events;

#define CH_SWEEP_RESULTS "results.json"

/* The defaults; data, out and what the report needs must be set. */
void ch_sweep_options_default(ch_sweep_options *options);

/* Reads a grid: "1e-4,5e-4,1e-3", or "1e-4..1e-2:5", as many rates in equal ratios, or both mixed. Sorted, without
   repetitions. */
ch_status ch_sweep_rates(const char *text, ch_sweep_options *options, ch_error *error);

/* Runs the sweep, or continues one that was stopped: finished runs are kept, and more rates and seeds may join them. *sweep
   is filled with what is done, also on failure; release its about.arena. */
ch_status ch_sweep_run(const ch_sweep_options *options, const ch_sweep_events *events, ch_sweep *sweep,
                       ch_error *error);

#endif
