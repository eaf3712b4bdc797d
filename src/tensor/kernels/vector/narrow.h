/* Loads and stores of parts of vectors, for loops over heads that are narrower than a vector. Such loops spend
 * most of their time on loads and stores. */
#ifndef CH_KERNELS_VECTOR_NARROW_H
#define CH_KERNELS_VECTOR_NARROW_H

#include "tensor/kernels/vector/variant.h"

#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(CH_KERNEL_F64)

/* Like load_some, but without load_part, which would call the C library's copy. */
ALWAYS_INLINE vec load_narrow(const real *p, int64_t left) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  if (left >= VL) return load(p);
  return (vec)_mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), lane));
}

/* Like store_some, in pieces of 4, 2 and 1: AMD's cores need dozens of cycles for a masked store. */
ALWAYS_INLINE void store_narrow(real *p, vec v, int64_t left) {
  __m128 rest = _mm256_castps256_ps128((__m256)v);
  if (left >= VL) {
    store(p, v);
    return;
  }
  if (left & 4) {
    _mm_storeu_ps(p, rest);
    rest = _mm256_extractf128_ps((__m256)v, 1);
    p += 4;
  }
  if (left & 2) {
    _mm_storel_pi((__m64 *)(void *)p, rest);
    rest = _mm_movehl_ps(rest, rest);
    p += 2;
  }
  if (left & 1) _mm_store_ss(p, rest);
}

#else

ALWAYS_INLINE vec load_narrow(const real *p, int64_t left) {
  return load_some(p, left);
}

ALWAYS_INLINE void store_narrow(real *p, vec v, int64_t left) {
  store_some(p, v, left);
}

#endif

#endif
