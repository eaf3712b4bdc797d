/* Copies of the host's data in the memory of kernels that compute elsewhere. */
#ifndef CH_MODEL_ENGINE_COPIES_H
#define CH_MODEL_ENGINE_COPIES_H

#include "tensor/value_memory.h"

/* Zero-initialise it. Of kernels that compute in the host's memory it stays empty. */
typedef struct ch_engine_copies {
  const ch_value_memory *memory;
  const ch_tensor *given; /* the weights that were placed last */
  ch_tensor *tensors;     /* those, with their copies */
  void **copies;          /* [count], NULL: it was there already */
  int count;
  void *block; /* one more buffer, for a run's inputs */
  size_t block_bytes;
  void *result; /* and one of the host's, for its value */
  size_t result_bytes;
} ch_engine_copies;

/* The tensors in `memory`: those that are there already as they are, others as copies, created on the first
   call with this `given`. */
ch_status ch_engine_copies_tensors(ch_engine_copies *placed, const ch_value_memory *memory, int count,
                                   const ch_tensor *given, const ch_tensor **tensors, ch_error *error);
/* Room for `bytes` in `memory`, and for `result_bytes` on the host: placed->block, placed->result. What they
   held is lost when they have to grow. */
ch_status ch_engine_copies_reserve(ch_engine_copies *placed, const ch_value_memory *memory, size_t bytes,
                                   size_t result_bytes, ch_error *error);
void ch_engine_copies_free(ch_engine_copies *placed);

#endif
