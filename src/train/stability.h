/* Loss spikes and other signs of unstable training, found in the losses of a run's steps as they come.
 *
 * The definitions, in words and with reasons, are those of docs/sweep.md. */
#ifndef CH_TRAIN_STABILITY_H
#define CH_TRAIN_STABILITY_H

#include <stdbool.h>
#include <stdint.h>

typedef enum ch_stability_verdict {
  CH_STABLE,
  CH_NOT_FINITE,  /* a loss or gradient was not finite */
  CH_UNRECOVERED, /* a spike that the loss did not come back from */
  CH_RISING,      /* the loss ends above where it was */
  CH_STUCK        /* it fell far less than at smaller rates; found by comparing runs (train/sweep.h) */
} ch_stability_verdict;

typedef struct ch_spike {
  int64_t first, last; /* steps; last: the highest step so far where it was not over */
  double height;       /* highest loss over the level before */
  bool recovered;
} ch_spike;

enum { CH_SPIKES_KEPT = 64, CH_STABILITY_WINDOW = 128, CH_SPIKE_RECENT = 5 };

/* What is known after the last loss. */
typedef struct ch_stability {
  ch_stability_verdict verdict;
  int64_t step;   /* what it is about: of the spike's first step, of the loss that was not finite; else 0 */
  int64_t spikes; /* all of them, recovered or not */
  int kept;       /* the first ones are kept */
  ch_spike list[CH_SPIKES_KEPT];
} ch_stability;

typedef struct ch_stability_watch {
  int64_t steps, window, step;
  double ring[CH_STABILITY_WINDOW], recent[CH_SPIKE_RECENT]; /* the last losses: outside spikes; all */
  int64_t pushed, seen;
  bool inside; /* a spike */
  ch_spike spike;
  double level, limit; /* of the spike: the level before it, and what ends it */
  double lowest, lowest_limit;
  ch_stability found;
} ch_stability_watch;

/* For a run of so many steps. */
void ch_stability_begin(ch_stability_watch *watch, int64_t steps);
/* The next step's training loss. True when the run is beyond hope and can be left: a spike has lasted a fifth of all
   steps, and at least 50. */
bool ch_stability_loss(ch_stability_watch *watch, double loss);
/* The verdict on what was seen; `finite` false: the step after the last one had a loss or gradient that was not finite. */
ch_stability ch_stability_end(const ch_stability_watch *watch, bool finite);

/* "stable", "not_finite", "unrecovered_spike", "rising", "stuck". */
const char *ch_stability_name(ch_stability_verdict verdict);

#endif
