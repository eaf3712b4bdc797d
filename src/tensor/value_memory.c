/* The memory of values on the host, and copies of values in other memories. */
#include "tensor/value_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static bool holds(const void *address) {
  (void)address;
  return true;
}

static void copy(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
}

const ch_value_memory ch_host_memory = {.host = true,
                                        .allocate = ch_pages_alloc,
                                        .release = ch_pages_free,
                                        .allocate_sparse = ch_sparse_alloc,
                                        .release_sparse = ch_sparse_free,
                                        .holds = holds,
                                        .copy = copy,
                                        .write = copy,
                                        .read = copy};

ch_status ch_host_tensors_read(const ch_value_memory *memory, int count, const ch_tensor *tensors,
                               ch_host_tensors *host, ch_error *error) {
  *host = (ch_host_tensors){.tensors = tensors};
  if (memory->host) return CH_OK;
  size_t bytes = 0, at = 0;
  for (int i = 0; i < count; i++) bytes += ch_tensor_bytes(&tensors[i]);
  host->copies = malloc(((size_t)count + 1) * sizeof *host->copies);
  host->data = malloc(bytes + 1);
  if (!host->copies || !host->data) {
    ch_host_tensors_free(host);
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for a copy of %d tensors (%zu MiB)", count,
                   bytes >> 20);
  }
  for (int i = 0; i < count; i++) {
    host->copies[i] = tensors[i];
    host->copies[i].data = (char *)host->data + at;
    memory->read(host->copies[i].data, tensors[i].data, ch_tensor_bytes(&tensors[i]));
    at += ch_tensor_bytes(&tensors[i]);
  }
  host->tensors = host->copies;
  return CH_OK;
}

void ch_host_tensors_write(const ch_host_tensors *host, const ch_value_memory *memory, int count,
                           const ch_tensor *tensors) {
  for (int i = 0; i < count && host->copies; i++)
    memory->write(tensors[i].data, host->copies[i].data, ch_tensor_bytes(&tensors[i]));
}

void ch_host_tensors_free(ch_host_tensors *host) {
  free(host->copies);
  free(host->data);
  *host = (ch_host_tensors){0};
}
