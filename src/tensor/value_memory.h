/* The memory that holds the values of a table of kernels.
 *
 * Values are what a graph computes with: weights, gradients, activations, states in a cache. Only kernels,
 * products (tensor/gemm.h) and the functions below read or write them; everything else handles their
 * addresses. The host is the processor that runs this program. Kernels that run on it use its own memory
 * (ch_host_memory), and the program may use values in place. The arguments of a call are always in the host's
 * memory: ch_attend and similar structs, numbers of tokens, groups of ids. */
#ifndef CH_TENSOR_VALUE_MEMORY_H
#define CH_TENSOR_VALUE_MEMORY_H

#include "base/error.h"
#include "tensor/tensor.h"

typedef struct ch_value_memory {
  bool host; /* true if this is the host's memory, whose values the program may use in place */
  /* Returns zeroed memory aligned to pages, or NULL if out of memory. */
  void *(*allocate)(size_t bytes);
  /* Frees memory of `allocate`; `bytes` is the size that was allocated. */
  void (*release)(void *memory, size_t bytes);
  /* Like `allocate`, for memory whose pages are taken only when they are first written. */
  void *(*allocate_sparse)(size_t bytes);
  /* Like `release`, for memory of `allocate_sparse`. */
  void (*release_sparse)(void *memory, size_t bytes);
  /* Returns true if an address is in this memory. */
  bool (*holds)(const void *address);
  /* Copies inside this memory; the ranges do not overlap. */
  void (*copy)(void *to, const void *from, size_t bytes);
  /* Copies from the host's memory into this memory. */
  void (*write)(void *to, const void *host, size_t bytes);
  /* Copies from this memory into the host's. */
  void (*read)(void *host, const void *from, size_t bytes);
} ch_value_memory;

extern const ch_value_memory ch_host_memory;

/* Tensors that the host can read: the given ones if their memory is the host's, else copies of them. */
typedef struct ch_host_tensors {
  const ch_tensor *tensors; /* [count] tensors in host memory */
  ch_tensor *copies;        /* [count] copied tensors; NULL if the memory is the host's */
  void *data;               /* values of `copies`, or NULL */
} ch_host_tensors;

/* Makes tensors readable by the host: copies them unless `memory` is the host's. Release them with
   ch_host_tensors_free; after a failure there is nothing to release. */
ch_status ch_host_tensors_read(const ch_value_memory *memory, int count, const ch_tensor *tensors,
                               ch_host_tensors *host, ch_error *error);
/* Writes copies back to the tensors that they were read from. */
void ch_host_tensors_write(const ch_host_tensors *host, const ch_value_memory *memory, int count,
                           const ch_tensor *tensors);
void ch_host_tensors_free(ch_host_tensors *host);

#endif
