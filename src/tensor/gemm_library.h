/* Products by oneDNN: prepared matmul primitives, one per shape, and its sgemm. */
#ifndef CH_TENSOR_GEMM_LIBRARY_H
#define CH_TENSOR_GEMM_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* One product: C [m, n] = op(A) op(B) (+ C); see ch_gemm_run. */
typedef struct ch_gemm_shape {
  int64_t m, n, k, lda, ldb, ldc;
  bool transpose_a, transpose_b, accumulate;
  bool rounded; /* true if A and B are BF16; C is F32 */
  bool packed;  /* true if B has the layout of kernels->pack_bf16; ldb and transpose_b are ignored */
  bool is_rare; /* true if the shape is not worth a matmul primitive: uses sgemm */
} ch_gemm_shape;

bool ch_gemm_same_shape(const ch_gemm_shape *x, const ch_gemm_shape *y);

typedef struct ch_gemm_library ch_gemm_library;

ch_status ch_gemm_library_create(ch_gemm_library **library, ch_error *error);
void ch_gemm_library_free(ch_gemm_library *library);

/* Returns true if the library multiplies BF16 (`rounded`) faster than F32 on this processor: with a matrix unit for
   BF16 or, if `bf16_dots_are_fast`, with instructions for BF16 dot products. */
bool ch_gemm_library_rounds(bool bf16_dots_are_fast);

/* Multiplies with a matmul primitive. The first call with a shape and number of threads prepares it. */
ch_status ch_gemm_library_matmul(ch_gemm_library *library, const ch_gemm_shape *shape, const void *a,
                                 const void *b, float *c, ch_error *error);
/* Returns the number of BF16 elements of a packed B [k, n]: whole blocks of 32 x 64. */
int64_t ch_gemm_library_packed_count(int64_t k, int64_t n);
/* Multiplies with the library's sgemm; not for `rounded`. */
ch_status ch_gemm_library_sgemm(ch_gemm_library *library, const ch_gemm_shape *shape, const float *a,
                                const float *b, float *c, ch_error *error);

#endif
