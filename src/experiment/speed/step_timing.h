/* Times training steps of a configuration. The trained weights are discarded, and no file is written. */
#ifndef CH_EXPERIMENT_SPEED_STEP_TIMING_H
#define CH_EXPERIMENT_SPEED_STEP_TIMING_H

#include "train/trainer.h"

typedef struct ch_step_timing {
  double seconds;     /* median duration of a step */
  double quick, slow; /* lower and upper quartile of the durations, in seconds */
  /* peak memory of the process: weights, gradients, moments, activations and the program itself */
  size_t memory_bytes;
  size_t weight_bytes;
} ch_step_timing;

/* Trains a new model with these options and batches, and times steps for about `enough_seconds`: at least three, or one
 * if steps are slow, and at most 64 or training->steps. The first step is not timed unless it is the only one.
 * CH_ERROR_INTERRUPTED: `stop` ended the training. */
ch_status ch_time_steps(const ch_config *config, const ch_train_options *training,
                        const ch_batch_source *source, double enough_seconds, ch_stop_test stop,
                        void *stop_context, ch_step_timing *timing, ch_error *error);

#endif
