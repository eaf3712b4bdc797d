/* Products of several rows of x with block-quantised weights. gemv_blocks_vnni.c passes calls with more than
 * two rows to them. */
#ifndef CH_KERNELS_PRODUCTS_GEMM_BLOCKS_H
#define CH_KERNELS_PRODUCTS_GEMM_BLOCKS_H

#include <math.h>
#ifdef __AVX512VNNI__
#include <immintrin.h>
#endif

#include "tensor/kernels/vector/variant.h"

/* These functions do the work of quantise_rows and gemv_blocks with another layout of the quantised rows. */
void KERNEL(quantise_many)(const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype,
                           void *quantised);
void KERNEL(gemm_blocks)(const ch_team *team, int64_t rows, int64_t in, const void *quantised,
                         ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate);

#ifdef __AVX512VNNI__
/* Returns the largest magnitude of a group of 32 values of x, or NaN if one of them is not finite, so that
   the result shows it. */
static inline float largest_of_group(__m512 a, __m512 b) {
  const __m512 zero = _mm512_setzero_ps(), broken = _mm512_fmadd_ps(a, zero, _mm512_mul_ps(b, zero));
  if (_mm512_cmp_ps_mask(broken, broken, _CMP_UNORD_Q)) return NAN;
  return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
}
#endif

#endif
