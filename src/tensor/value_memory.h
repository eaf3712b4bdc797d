/* The memory that holds the values of a table of kernels.
 *
 * Values are what a graph computes with: weights, gradients, activations, states in a cache. Only kernels,
 * products (tensor/gemm.h) and the functions below read or write them; everything else handles their
 * addresses. For kernels that run on the host, the processor that runs this program, that memory is the
 * host's own (ch_host_memory), and `host` says that the program may use values in place. What describes a
 * call is always in the host's memory: ch_attend and the like, numbers of tokens, groups of ids. */
#ifndef CH_TENSOR_VALUE_MEMORY_H
#define CH_TENSOR_VALUE_MEMORY_H

#include "base/error.h"
#include "tensor/tensor.h"

typedef struct ch_value_memory {
  bool host;
  /* Zeroed and aligned to pages; NULL when there is none left. `bytes` of release are those that were
     allocated. */
  void *(*allocate)(size_t bytes);
  void (*release)(void *memory, size_t bytes);
  /* Like allocate and release, for memory whose pages are taken only once they are written. */
  void *(*allocate_sparse)(size_t bytes);
  void (*release_sparse)(void *memory, size_t bytes);
  /* Returns true if an address is in this memory. */
  bool (*holds)(const void *address);
  /* Copies of `bytes` that do not overlap: inside this memory, from the host into it, and from it to the
     host. */
  void (*copy)(void *to, const void *from, size_t bytes);
  void (*write)(void *to, const void *host, size_t bytes);
  void (*read)(void *host, const void *from, size_t bytes);
} ch_value_memory;

extern const ch_value_memory ch_host_memory;

/* Tensors for the host to use: those given where their memory is the host's, else copies of them. */
typedef struct ch_host_tensors {
  const ch_tensor *tensors; /* [count] */
  ch_tensor *copies;        /* NULL where the memory is the host's */
  void *data;
} ch_host_tensors;

/* Copies tensors to host memory. Release them with ch_host_tensors_free; after a failure there is nothing to
   release. */
ch_status ch_host_tensors_read(const ch_value_memory *memory, int count, const ch_tensor *tensors,
                               ch_host_tensors *host, ch_error *error);
/* Writes copies back to the tensors that they were read from. */
void ch_host_tensors_write(const ch_host_tensors *host, const ch_value_memory *memory, int count,
                           const ch_tensor *tensors);
void ch_host_tensors_free(ch_host_tensors *host);

#endif
