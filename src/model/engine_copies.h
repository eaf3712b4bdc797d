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

/* Returns the tensors in `memory`. Those that are already there are used in place; others are copied on the
   first call with this `given`. */
ch_status ch_engine_copies_tensors(ch_engine_copies *placed, const ch_value_memory *memory, int count,
                                   const ch_tensor *given, const ch_tensor **tensors, ch_error *error);
/* Reserves `bytes` in `memory` and `result_bytes` on the host: placed->block, placed->result. Their contents
   are lost when they grow. */
ch_status ch_engine_copies_reserve(ch_engine_copies *placed, const ch_value_memory *memory, size_t bytes,
                                   size_t result_bytes, ch_error *error);
void ch_engine_copies_free(ch_engine_copies *placed);

#endif
