/* Copies weights into an engine's memory, and reuses the copies while the same weights are given. */
#include "model/engine_copies.h"

#include <stdlib.h>

static void free_copies(ch_engine_copies *placed) {
  for (int i = 0; i < placed->count; i++)
    if (placed->copies[i]) placed->memory->release(placed->copies[i], ch_tensor_bytes(&placed->tensors[i]));
  free(placed->copies);
  free(placed->tensors);
  placed->copies = NULL;
  placed->tensors = NULL;
  placed->given = NULL;
  placed->count = 0;
}

static ch_status copy_all(ch_engine_copies *placed, int count, const ch_tensor *given, ch_error *error) {
  placed->tensors = calloc((size_t)count + 1, sizeof *placed->tensors);
  placed->copies = calloc((size_t)count + 1, sizeof *placed->copies);
  if (!placed->tensors || !placed->copies) return ch_no_memory(error);
  placed->count = count;
  for (int i = 0; i < count; i++) {
    placed->tensors[i] = given[i];
    if (placed->memory->holds(given[i].data)) continue;
    size_t bytes = ch_tensor_bytes(&given[i]);
    void *copy = placed->copies[i] = placed->memory->allocate(bytes);
    if (!copy) return ch_no_memory(error);
    placed->memory->write(copy, given[i].data, bytes);
    placed->tensors[i].data = copy;
  }
  placed->given = given;
  return CH_OK;
}

ch_status ch_engine_copies_tensors(ch_engine_copies *placed, const ch_value_memory *memory, int count,
                                   const ch_tensor *given, const ch_tensor **tensors, ch_error *error) {
  *tensors = given;
  if (memory->host) return CH_OK;
  if (placed->given != given || placed->count != count) {
    free_copies(placed);
    placed->memory = memory;
    ch_status status = copy_all(placed, count, given, error);
    if (status != CH_OK) free_copies(placed);
    CH_TRY(status);
  }
  *tensors = placed->tensors;
  return CH_OK;
}

ch_status ch_engine_copies_reserve(ch_engine_copies *placed, const ch_value_memory *memory, size_t bytes,
                                   size_t result_bytes, ch_error *error) {
  placed->memory = memory;
  if (bytes > placed->block_bytes) {
    void *block = memory->allocate(bytes);
    if (!block) return ch_no_memory(error);
    if (placed->block) memory->release(placed->block, placed->block_bytes);
    placed->block = block;
    placed->block_bytes = bytes;
  }
  if (result_bytes > placed->result_bytes) {
    void *result = realloc(placed->result, result_bytes);
    if (!result) return ch_no_memory(error);
    placed->result = result;
    placed->result_bytes = result_bytes;
  }
  return CH_OK;
}

void ch_engine_copies_free(ch_engine_copies *placed) {
  free_copies(placed);
  if (placed->block) placed->memory->release(placed->block, placed->block_bytes);
  free(placed->result);
  *placed = (ch_engine_copies){0};
}
