/* The end of a product y = x W^T: sums along rows that are still vectors become elements of y. */
#ifndef CH_KERNELS_PRODUCTS_ROW_SUMS_H
#define CH_KERNELS_PRODUCTS_ROW_SUMS_H

#include "tensor/kernels/vector/lanes.h"
#include "tensor/kernels/vector/variant.h"

/* MOST_SUMS is the number of a tile's sums that stay in registers besides its factors. */
enum { MOST_SUMS = VEC_BYTES == 64 ? 24 : 8, SUM_VECTORS = (MOST_SUMS + VL - 1) / VL };

/* Computes the lane sums of `count` vectors, all in the order of sum_lanes: lane j of sums is that of
   v[j]. */
ALWAYS_INLINE void sum_rows_of_lanes(const int count, const vec *v, vec sums[SUM_VECTORS]) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  if (count <= 4) {
    vec four[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) four[j] = j < count ? v[j] : splat(0);
    __m512 quarters = sum_quarters(four);
    quarters = add_quarters(quarters, quarters);
    sums[0] = (vec)add_quarters(quarters, quarters);
    return;
  }
#endif
#pragma GCC unroll 16
  for (int first = 0; first < count; first += VL) {
    const int some = count - first < VL ? count - first : VL;
    vec group[VL];
#pragma GCC unroll 16
    for (int j = 0; j < VL; j++) group[j] = j < some ? v[first + j] : splat(0);
    sums[first / VL] = VL > 8 && some <= 8 ? sum_lanes_of_eight(group) : sum_lanes(group);
  }
}

/* Returns lanes first ... first + VL - 1 of the sums. */
ALWAYS_INLINE vec sums_from(const int first, const vec sums[SUM_VECTORS]) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  const __m512i lane = _mm512_add_epi32(
      _mm512_set1_epi32(first), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  return (vec)_mm512_permutex2var_ps((__m512)sums[0], lane, (__m512)sums[SUM_VECTORS - 1]);
#else
  real value[(SUM_VECTORS + 1) * VL] = {0};
  for (int i = 0; i < SUM_VECTORS; i++) store(value + i * VL, sums[i]);
  return load(value + first);
#endif
}

/* Writes the lane sums of v [rows * outs], plus bias [outs] (or NULL), to y [rows, outs], with rows y_row
   elements apart. */
ALWAYS_INLINE void write_row_sums(const int rows, const int outs, const vec *v, const real *bias, real *y,
                                  int64_t y_row, bool accumulate) {
  vec sums[SUM_VECTORS] = {0};
  sum_rows_of_lanes(rows * outs, v, sums);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++, y += y_row) {
    vec value = sums_from(r * outs, sums);
    if (bias) value += load_part(bias, outs);
    if (accumulate) value += load_part(y, outs);
    store_part(y, value, outs);
  }
}

#endif
