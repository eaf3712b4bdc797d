/* Gathers the pieces of tensors on rank 0, which writes them to files. */
#ifndef CH_TRAIN_GATHER_H
#define CH_TRAIN_GATHER_H

#include "train/trainer.h"
#include "train/parameter_set.h"

/* Returns true if rank 0 has to gather a tensor of a group from all ranks. */
bool ch_is_divided(const ch_trainer *trainer, ch_parameter_group group, int parameter);
/* Collects the pieces of all ranks in `whole` on rank 0. Every rank calls it. `room`: memory for one rank's piece.
 * `whole` and `room` are used on rank 0 only. */
void ch_gather_tensor(const ch_trainer *trainer, ch_parameter_group group, int parameter, void *whole,
                      void *room);

/* All weights in the host memory of rank 0; empty on other ranks. */
typedef struct ch_gathered_weights {
  ch_tensor *tensors; /* [count] */
  ch_host_tensors host;
  void **made; /* [count]: memory of gathered weights; NULL for others */
  int count;
} ch_gathered_weights;

/* Collects the weights on rank 0. Every rank calls it. Release with ch_gathered_weights_free. */
ch_status ch_gather_weights(const ch_trainer *trainer, ch_gathered_weights *gathered, ch_error *error);
void ch_gathered_weights_free(ch_gathered_weights *gathered);

#endif
