/* Initial weights: mechanisms.md section 7. */
#ifndef CH_TRAIN_INITIALISE_H
#define CH_TRAIN_INITIALISE_H

#include "config/params.h"

/* Fills weights [params->count] (F32 or F64, shapes of the table). What a tensor gets depends on `seed`, its name and
   its row of the table alone: not on the number of threads, nor on what other tensors the model has. */
void ch_initialise(const ch_params *params, uint64_t seed, const ch_tensor *weights);

#endif
