/* Element types and shapes. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  size_t bytes;   /* bytes of a block; of a value for types without blocks */
  int64_t values; /* values in a block */
} types[CH_DTYPE_COUNT] = {{"F32", 4, 1},    {"F64", 8, 1},      {"F16", 2, 1},     {"BF16", 2, 1},
                           {"I32", 4, 1},    {"I64", 8, 1},      {"U8", 1, 1},      {"Q8_0", 34, 32},
                           {"Q4_0", 18, 32}, {"Q4_K", 144, 256}, {"Q6_K", 210, 256}};

size_t ch_dtype_size(ch_dtype dtype) {
  return ch_dtype_is_block_quantised(dtype) ? 0 : types[dtype].bytes;
}

size_t ch_dtype_bytes(ch_dtype dtype, int64_t count) {
  return (size_t)(count / types[dtype].values) * types[dtype].bytes;
}

int64_t ch_dtype_block(ch_dtype dtype) {
  return types[dtype].values;
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
  return ch_dtype_bytes(tensor->dtype, ch_tensor_count(tensor));
}

const char *ch_shape_text(int rank, const int64_t *shape, char *buffer, size_t size) {
  size_t used = 0;
  buffer[0] = 0;
  for (int i = 0; i < rank && used < size; i++)
    used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i ? ", " : "[", (long long)shape[i]);
  if (used < size) snprintf(buffer + used, size - used, rank ? "]" : "[]");
  return buffer;
}
