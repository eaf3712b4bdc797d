/* Pairs of BF16 in the 32 bits of a float: one instruction multiplies them with as many others and adds both products to F32.
 * Where processors lack it, nobody has pairs and none of these is called.
 */
#ifndef CH_KERNELS_PAIRS_H
#define CH_KERNELS_PAIRS_H

#include "tensor/kernels/variant.h"

#ifdef __AVX512BF16__

enum { HAVE_PAIRS = 1 };

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

/* sum + both products of every lane. */
ALWAYS_INLINE vec add_pairs(vec sum, vec a, vec b) {
  return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/* Each lane rounded. */
ALWAYS_INLINE vec rounded(vec x) {
  const __m512i halves = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x));
  return (vec)_mm512_slli_epi32(halves, 16);
}

/* VL / 2 pairs: x's lanes, rounded. */
ALWAYS_INLINE void store_rounded(real *pairs, vec x) {
  const __m256bh halves = _mm512_cvtneps_pbh((__m512)x);
  memcpy(pairs, &halves, sizeof halves);
}

#else

enum { HAVE_PAIRS = 0 };

ALWAYS_INLINE vec paired(vec x, vec y) {
  return x + y;
}

ALWAYS_INLINE vec pair_at(const void *p) {
  return load(p);
}

ALWAYS_INLINE vec add_pairs(vec sum, vec a, vec b) {
  return sum + a * b;
}

ALWAYS_INLINE vec rounded(vec x) {
  return x;
}

ALWAYS_INLINE void store_rounded(real *pairs, vec x) {
  store(pairs, x);
}

#endif

/* Rounded rows of `dim` elements lie this far apart, in pairs: whole vectors. */
static inline int64_t pairs_of(int64_t dim) {
  return (dim + 2 * VL - 1) / (2 * VL) * VL;
}

/* pairs [count, pairs_of(dim)]: rows x [count, dim], rounded, with zeros to the end. */
static inline void round_rows(const real *x, int64_t stride, int64_t count, int64_t dim, real *pairs) {
  for (int64_t r = 0; r < count; r++, x += stride)
    for (int64_t k = 0; k < 2 * pairs_of(dim); k += VL, pairs += VL / 2)
      store_rounded(pairs, k < dim ? load_some(x + k, dim - k) : splat(0));
}

/* pairs [ceil(count / 2), dim padded to whole vectors]: rows 2 r and 2 r + 1 of x [count, dim] side by side, with a row of
   zeros where there is no second one. */
static inline void pair_up_rows(const real *x, int64_t stride, int64_t count, int64_t dim, real *pairs) {
  for (int64_t r = 0; r < count; r += 2, x += 2 * stride)
    for (int64_t k = 0; k < dim; k += VL, pairs += VL)
      store(pairs, (vec)paired(load_some(x + k, dim - k),
                               r + 1 < count ? load_some(x + stride + k, dim - k) : splat(0)));
}

#endif
