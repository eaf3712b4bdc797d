/* Copies of the host's data in the memory of kernels, if that is not the host's memory. */
#ifndef CH_MODEL_ENGINE_COPIES_H
#define CH_MODEL_ENGINE_COPIES_H

#include "tensor/value_memory.h"

/* Copies of weights, and buffers for a run's inputs and value. It must be zero at first. It stays empty for kernels
   that compute in the host's memory. */
typedef struct ch_engine_copies {
  const ch_value_memory *memory;
  const ch_tensor *given; /* [count] weights that were copied last */
  ch_tensor *tensors;     /* [count] the weights in `memory` */
  void **copies;          /* [count] allocated copies; NULL: the weight was in `memory` already */
  int count;
  void *block; /* buffer in `memory` for a run's inputs */
  size_t block_bytes;
  void *result; /* buffer on the host for a run's value */
  size_t result_bytes;
} ch_engine_copies;

/* Sets *tensors to the tensors in `memory`. Tensors that are already there are used in place. The others are copied if
   `given` or `count` differs from the last call's. */
ch_status ch_engine_copies_tensors(ch_engine_copies *placed, const ch_value_memory *memory, int count,
                                   const ch_tensor *given, const ch_tensor **tensors, ch_error *error);
/* Reserves placed->block, `bytes` in `memory`, and placed->result, `result_bytes` on the host. The contents of `block`
   are lost when it grows. */
ch_status ch_engine_copies_reserve(ch_engine_copies *placed, const ch_value_memory *memory, size_t bytes,
                                   size_t result_bytes, ch_error *error);
void ch_engine_copies_free(ch_engine_copies *placed);

#endif
