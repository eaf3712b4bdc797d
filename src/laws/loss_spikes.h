/* Loss spikes and other signs of unstable training, found in the losses of a run as they come.
 *
 * docs/sweep.md defines them, with reasons. */
#ifndef CH_LAWS_LOSS_SPIKES_H
#define CH_LAWS_LOSS_SPIKES_H

#include <crosshead/fit.h>

enum { CH_STABILITY_WINDOW = 128, CH_SPIKE_RECENT = 5 };

typedef struct ch_stability_watch {
  int64_t steps, window, step;
  /* ring: the last `window` losses outside spikes; recent: the last CH_SPIKE_RECENT of all losses */
  double ring[CH_STABILITY_WINDOW], recent[CH_SPIKE_RECENT];
  int64_t pushed, seen; /* losses ever pushed to `ring` and to `recent` */
  bool inside;          /* true inside a spike */
  ch_spike spike;
  double level, limit;         /* level before the spike, and the loss to return to */
  double lowest, lowest_limit; /* lowest median of `ring` so far, and the limit of an unusual rise above it */
  ch_stability found;
} ch_stability_watch;

/* Begins a run of `steps` steps. */
void ch_stability_begin(ch_stability_watch *watch, int64_t steps);
/* Takes the training loss of the next step. Returns true when the run has no hope of recovery and can be stopped: a
   spike has lasted a fifth of all steps, and at least 50. */
bool ch_stability_loss(ch_stability_watch *watch, double loss);
/* Returns the verdict on the losses so far. `finite` false: the next step had a loss or gradient that was not
 * finite. */
ch_stability ch_stability_end(const ch_stability_watch *watch, bool finite);

/* Judges the training losses [n] of every step of a run; losses after one that is not finite are ignored. */
ch_stability ch_judge_stability(const double *losses, int64_t n);

/* Names of verdicts, indexed by ch_stability_verdict. */
extern const char *const ch_stability_names[];

#endif
