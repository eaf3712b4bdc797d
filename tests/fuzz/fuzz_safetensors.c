/* Fuzz target: safetensors. Every tensor of an accepted file must be inside the file and be found by its name, and all
 * tensors together must not exceed the file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ch_safetensors file;
  ch_error error = {0};
  ch_status status = ch_safetensors_parse(data, size, "input", &file, &error);
  if (status != CH_OK && (status != error.status || !error.message[0])) abort();
  size_t total = 0;
  for (int64_t i = 0; i < file.count; i++) {
    const ch_stored_tensor *stored = &file.tensors[i];
    size_t bytes = ch_tensor_bytes(&stored->tensor);
    const uint8_t *first = stored->tensor.data;
    if (first < data || bytes > size || first + bytes > data + size) abort();
    if (ch_safetensors_find(&file, stored->name) != stored) abort();
    total += bytes;
  }
  if (total > size) abort();
  if (status != CH_OK && file.count) abort();
  ch_safetensors_close(&file);
  return 0;
}
