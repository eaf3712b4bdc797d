/* The learning rate of every step. */
#ifndef CH_TRAIN_SCHEDULE_H
#define CH_TRAIN_SCHEDULE_H

#include "train/options.h"

/* Returns the steps of warm-up; resolves options->warmup = -1. */
int64_t ch_schedule_warmup(const ch_train_options *options);
/* Returns the learning rate of step `step` = 1 … options->steps: lr step / (warmup + 1) while step <= warmup,
 * then the schedule. The first step after the warm-up has the peak. The last step of CH_TRAIN_COSINE has 10 % of it;
 * CH_TRAIN_COSINE_TO_ZERO would reach 0 one step after the last. */
double ch_schedule_lr(const ch_train_options *options, int64_t step);

#endif
