/* The learning rate of every step. */
#ifndef CH_TRAIN_SCHEDULE_H
#define CH_TRAIN_SCHEDULE_H

#include "train/options.h"

/* Returns the steps of warm-up; resolves options->warmup = -1. */
int64_t ch_schedule_warmup(const ch_train_options *options);
/* Returns the learning rate of step `step` = 1 … options->steps: lr step / (warmup + 1) while step <= warmup,
 * then the schedule. The first step after the warm-up has the peak; the last step of a cosine has 10 % of
 * it. */
double ch_schedule_lr(const ch_train_options *options, int64_t step);

#endif
