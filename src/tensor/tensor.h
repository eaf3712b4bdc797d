/* Element types, and tensors: typed, shaped views of memory that they do not own. */
#ifndef CH_TENSOR_TENSOR_H
#define CH_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CH_MAX_RANK = 4 };

/* CH_Q8_0 and the types after it are ggml's block-quantised types, for matrices that inference reads: blocks
   of 32 (or 256) small integers with scales, laid out as in GGUF files. A row of such a matrix is whole
   blocks. */
typedef enum ch_dtype {
  CH_F32,
  CH_F64,
  CH_F16,
  CH_BF16,
  CH_I32,
  CH_I64,
  CH_U8,
  CH_Q8_0,
  CH_Q4_0,
  CH_Q4_K,
  CH_Q6_K,
  CH_DTYPE_COUNT
} ch_dtype;

/* Elements are row-major, so the last dimension is contiguous. */
typedef struct ch_tensor {
  ch_dtype dtype;
  int rank;
  int64_t shape[CH_MAX_RANK];
  void *data;
} ch_tensor;

/* Returns the bytes of an element, or 0 for block-quantised types. */
size_t ch_dtype_size(ch_dtype dtype);
/* Returns the bytes of `count` values. For block-quantised types, they must be whole blocks. */
size_t ch_dtype_bytes(ch_dtype dtype, int64_t count);
/* Returns the number of values in a block, or 1 for types that are not block-quantised. */
int64_t ch_dtype_block(ch_dtype dtype);
static inline bool ch_dtype_is_block_quantised(ch_dtype dtype) {
  return dtype >= CH_Q8_0;
}
/* Returns "F32" as in safetensors, or "Q4_K" as in the names of GGUF files. */
const char *ch_dtype_name(ch_dtype dtype);
/* Finds the type of a name; returns false if there is none. */
bool ch_dtype_parse(const char *name, ch_dtype *dtype);

int64_t ch_tensor_count(const ch_tensor *tensor);
size_t ch_tensor_bytes(const ch_tensor *tensor);
/* Writes "[2, 16]" to buffer and returns it. */
const char *ch_shape_text(int rank, const int64_t *shape, char *buffer, size_t size);

#endif
