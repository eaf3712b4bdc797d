/* Initial weights, as docs/train.md describes them. */
#ifndef CH_TRAIN_INITIALISE_H
#define CH_TRAIN_INITIALISE_H

#include <crosshead/common.h>

#include "config/params.h"

/* Fills weights [params->count] (F32 or F64, shapes of the table). The values of a tensor depend only on
   `seed`, its name and its row of the table: not on the number of threads or on the model's other tensors. */
void ch_initialise(const ch_params *params, uint64_t seed, const ch_tensor *weights);
/* Initialises one weight. The calling thread calls `stop` (or NULL) between pieces of the tensor. Returns false if
 * `stop` returned true before the last piece; the weight is then incomplete. */
bool ch_initialise_one(const ch_param *param, uint64_t seed, const ch_tensor *weight, ch_stop_test stop,
                       void *context);

#endif
