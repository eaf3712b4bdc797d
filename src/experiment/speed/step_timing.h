/* Timing training steps of a configuration. The trained weights are discarded; no file is written. */
#ifndef CH_EXPERIMENT_SPEED_STEP_TIMING_H
#define CH_EXPERIMENT_SPEED_STEP_TIMING_H

#include "train/trainer.h"

typedef struct ch_step_timing {
  double seconds;     /* median seconds of a step */
  double quick, slow; /* quartiles */
  /* The most that the process held: weights, gradients, moments, activations and the program itself. */
  size_t memory_bytes;
  size_t weight_bytes;
} ch_step_timing;

/* Takes some steps of a new model with these options and batches for about `enough_seconds`: at least three unless
 * steps are slow, and no more than options->steps. The first is not timed. `stop` ends it (CH_ERROR_INTERRUPTED). */
ch_status ch_time_steps(const ch_config *config, const ch_train_options *training,
                        const ch_batch_source *source, double enough_seconds, ch_stop_test stop,
                        void *stop_context, ch_step_timing *timing, ch_error *error);

#endif
