/* BF16 dot products: the 32 bits of a lane hold a pair of BF16, and one instruction multiplies pairs with
 * pairs and adds both products to an F32 sum. Without that instruction HAVE_BF16_DOT is 0, and the other
 * functions only have to compile: none is called. */
#ifndef CH_KERNELS_VECTOR_BF16_DOT_H
#define CH_KERNELS_VECTOR_BF16_DOT_H

#include "tensor/kernels/vector/variant.h"

#ifdef __AVX512BF16__

enum { HAVE_BF16_DOT = 1 };

/* Rounds x and y. Lane i has x[i] in its lower half and y[i] in its upper half. */
ALWAYS_INLINE __m512i paired(vec x, vec y) {
  const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(turns, (__m512i)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x));
}

/* Loads the pair at p into all lanes. */
ALWAYS_INLINE __m512bh pair_at(const void *p) {
  int32_t pair;
  memcpy(&pair, p, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

/* Returns sum + the dot product of the pairs in every lane. */
ALWAYS_INLINE vec add_bf16_dot(vec sum, vec a, vec b) {
  return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/* Rounds each lane to BF16; the result is F32. */
ALWAYS_INLINE vec rounded(vec x) {
  const __m512i halves = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x));
  return (vec)_mm512_slli_epi32(halves, 16);
}

/* Stores x's lanes, rounded, as VL / 2 pairs. */
ALWAYS_INLINE void store_rounded(real *pairs, vec x) {
  const __m256bh halves = _mm512_cvtneps_pbh((__m512)x);
  memcpy(pairs, &halves, sizeof halves);
}

#else

enum { HAVE_BF16_DOT = 0 };

ALWAYS_INLINE vec paired(vec x, vec y) {
  return x + y;
}

ALWAYS_INLINE vec pair_at(const void *p) {
  return load(p);
}

ALWAYS_INLINE vec add_bf16_dot(vec sum, vec a, vec b) {
  return vec_fma(a, b, sum);
}

ALWAYS_INLINE vec rounded(vec x) {
  return x;
}

ALWAYS_INLINE void store_rounded(real *pairs, vec x) {
  store(pairs, x);
}

#endif

/* Returns the number of lanes of a rounded row of `dim` elements. The row fills whole vectors of pairs. */
static inline int64_t pairs_of(int64_t dim) {
  return (dim + 2 * VL - 1) / (2 * VL) * VL;
}

/* Rounds the rows x [count, dim] to pairs [count, pairs_of(dim)]. Neighbouring elements share a lane; the
   rest is zeros. */
static inline void round_rows(const real *x, int64_t stride, int64_t count, int64_t dim, real *pairs) {
  for (int64_t r = 0; r < count; r++, x += stride)
    for (int64_t k = 0; k < 2 * pairs_of(dim); k += VL, pairs += VL / 2)
      store_rounded(pairs, k < dim ? load_some(x + k, dim - k) : splat(0));
}

/* Rounds rows to pairs [ceil(count / 2), dim padded to whole vectors]. Rows 2r and 2r + 1 of x [count, dim]
   share lanes; a row without a partner is paired with zeros. */
static inline void pair_up_rows(const real *x, int64_t stride, int64_t count, int64_t dim, real *pairs) {
  for (int64_t r = 0; r < count; r += 2, x += 2 * stride)
    for (int64_t k = 0; k < dim; k += VL, pairs += VL)
      store(pairs, (vec)paired(load_some(x + k, dim - k),
                               r + 1 < count ? load_some(x + stride + k, dim - k) : splat(0)));
}

#endif
