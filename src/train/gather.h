/* Brings the pieces of tensors that ranks hold together on rank 0, which writes them to files. */
#ifndef CH_TRAIN_GATHER_H
#define CH_TRAIN_GATHER_H

#include "train/trainer.h"
#include "train/parameter_set.h"

/* Returns true if rank 0 has to ask the others for a tensor of a group. */
bool ch_is_divided(const ch_trainer *trainer, ch_parameter_group group, int parameter);
/* Collects the pieces of all ranks in `whole` on rank 0. Every rank calls it. `room` fits the largest tensor;
 * NULL on other ranks. */
void ch_gather_tensor(const ch_trainer *trainer, ch_parameter_group group, int parameter, void *whole,
                      void *room);

/* All weights for the host of rank 0; others have none. */
typedef struct ch_gathered_weights {
  ch_tensor *tensors; /* [params] */
  ch_host_tensors host;
  void **made; /* [params] memory of those that were put together */
  int count;
} ch_gathered_weights;

/* Collects the weights on rank 0. Every rank calls it. Release with ch_gathered_weights_free. */
ch_status ch_gather_weights(const ch_trainer *trainer, ch_gathered_weights *gathered, ch_error *error);
void ch_gathered_weights_free(ch_gathered_weights *gathered);

#endif
