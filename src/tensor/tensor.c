/* Element types and shapes. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  size_t size;
} types[CH_DTYPE_COUNT] = {{"F32", 4}, {"F64", 8}, {"F16", 2}, {"BF16", 2},
                           {"I32", 4}, {"I64", 8}, {"U8", 1}};

size_t ch_dtype_size(ch_dtype dtype) {
  return types[dtype].size;
}

const char *ch_dtype_name(ch_dtype dtype) {
  return types[dtype].name;
}

bool ch_dtype_parse(const char *name, ch_dtype *dtype) {
  for (int i = 0; i < CH_DTYPE_COUNT; i++) {
    if (strcmp(name, types[i].name) != 0) continue;
    *dtype = (ch_dtype)i;
    return true;
  }
  return false;
}

int64_t ch_tensor_count(const ch_tensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
  return count;
}

size_t ch_tensor_bytes(const ch_tensor *tensor) {
  return (size_t)ch_tensor_count(tensor) * ch_dtype_size(tensor->dtype);
}

const char *ch_shape_text(int rank, const int64_t *shape, char *buffer, size_t size) {
  size_t used = 0;
  buffer[0] = 0;
  for (int i = 0; i < rank && used < size; i++)
    used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i ? ", " : "[", (long long)shape[i]);
  if (used < size) snprintf(buffer + used, size - used, rank ? "]" : "[]");
  return buffer;
}
