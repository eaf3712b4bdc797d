/* Pairs of BF16 in the 32 bits of a float: one instruction multiplies them with as many others and adds both products to F32. */
#ifndef CH_KERNELS_PAIRS_H
#define CH_KERNELS_PAIRS_H

#include "tensor/kernels/variant.h"

#ifdef __AVX512BF16__

/* Lane i: x[i] and above it y[i], rounded. */
ALWAYS_INLINE __m512i paired(vec x, vec y) {
  const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(turns, (__m512i)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x));
}

/* The pair at p in all lanes. */
ALWAYS_INLINE __m512bh pair_at(const void *p) {
  int32_t pair;
  memcpy(&pair, p, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

#endif
#endif
