/* Moving values between lanes: transposing VL vectors, and summing the lanes of VL vectors at once. */
#ifndef CH_KERNELS_VECTOR_LANES_H
#define CH_KERNELS_VECTOR_LANES_H

#include "tensor/kernels/vector/variant.h"

/* Cut a and b into units of `unit` lanes, a0 a1 a2 … and b0 b1 b2 …: low = a0 b0 a2 b2 …, high = a1
   b1 a3 b3 … */
#define LANE_LOW(lane, unit) ((lane) / (unit) % 2 == 0 ? (lane) : VL + (lane) - (unit))
#define LANE_HIGH(lane, unit) ((lane) / (unit) % 2 == 0 ? (lane) + (unit) : VL + (lane))
#define LANES2(F, u) F(0, u), F(1, u)
#define LANES4(F, u) LANES2(F, u), F(2, u), F(3, u)
#define LANES8(F, u) LANES4(F, u), F(4, u), F(5, u), F(6, u), F(7, u)
#define LANES16(F, u)                                                                                        \
  LANES8(F, u), F(8, u), F(9, u), F(10, u), F(11, u), F(12, u), F(13, u), F(14, u), F(15, u)
#if VEC_BYTES == 64
#define LANES LANES16
#elif VEC_BYTES == 32
#define LANES LANES8
#elif defined(CH_KERNEL_F64)
#define LANES LANES2
#else
#define LANES LANES4
#endif

/* Selects lanes of a followed by b: MAP(lane, unit) is the index of the source of each lane. GCC 11 has only its own
   builtin for this. */
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(a, b, MAP, unit) __builtin_shufflevector(a, b, LANES(MAP, unit))
#else
#define SHUFFLE(a, b, MAP, unit) __builtin_shuffle(a, b, (ivec){LANES(MAP, unit)})
#endif

#define LANE_CASE(u)                                                                                         \
  case u:                                                                                                    \
    *low = SHUFFLE(a, b, LANE_LOW, (u < VL ? u : 1));                                                        \
    *high = SHUFFLE(a, b, LANE_HIGH, (u < VL ? u : 1));                                                      \
    break

ALWAYS_INLINE void interleave_units(const int unit, vec a, vec b, vec *low, vec *high) {
  switch (unit) {
    LANE_CASE(1);
    LANE_CASE(2);
    LANE_CASE(4);
    LANE_CASE(8);
  }
}

/* Swaps lane j of v[i] and lane i of v[j], in log2(VL) rounds that swap ever larger squares. */
ALWAYS_INLINE void transpose_lanes(vec v[VL]) {
#pragma GCC unroll 4
  for (int unit = 1; unit < VL; unit *= 2)
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
      if (!(i & unit)) {
        vec low, high;
        interleave_units(unit, v[i], v[i + unit], &low, &high);
        v[i] = low;
        v[i + unit] = high;
      }
}

#define EVEN_LANE(lane, unit) (2 * (lane) + 0 * (unit))
#define ODD_LANE(lane, unit) (2 * (lane) + 1 + 0 * (unit))

/* Returns the elements with even indices in the 2 VL lanes of a and b. */
ALWAYS_INLINE vec even_lanes(vec a, vec b) {
  return SHUFFLE(a, b, EVEN_LANE, 0);
}

/* Returns the elements with odd indices in the 2 VL lanes of a and b. */
ALWAYS_INLINE vec odd_lanes(vec a, vec b) {
  return SHUFFLE(a, b, ODD_LANE, 0);
}

/* Separates the elements of a followed by b: those at even places, then those at odd ones, in the order in
   which a shift and a mask widen a vector of BF16. */
ALWAYS_INLINE void store_split(real *to, vec a, vec b) {
  store(to, even_lanes(a, b));
  store(to + VL, odd_lanes(a, b));
}

#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE __m512 add_quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Returns the sums of each vector's quarters: lane j of quarter q is the sum of quarter q of v[j]. */
ALWAYS_INLINE __m512 sum_quarters(const vec v[4]) {
  __m512 a = (__m512)v[0], b = (__m512)v[1], c = (__m512)v[2], d = (__m512)v[3];
  __m512d ab = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  __m512d cd = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  return _mm512_add_ps((__m512)_mm512_unpacklo_pd(ab, cd), (__m512)_mm512_unpackhi_pd(ab, cd));
}
#endif

/* Sums `lanes` (a constant) vectors within pieces of `lanes` lanes: lane j of a piece of the result is the sum of
   that piece of v[j]. Overwrites v. */
ALWAYS_INLINE vec sum_pieces(const int lanes, vec *v) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  if (lanes == 8) { /* add_quarters interleaves the pieces' quarters */
    __m512 sum = add_quarters(sum_quarters(v), sum_quarters(v + 4));
    return (vec)_mm512_shuffle_f32x4(sum, sum, 0xd8);
  }
#endif
#pragma GCC unroll 4
  for (int unit = 1; unit < lanes; unit *= 2)
#pragma GCC unroll 16
    for (int i = 0; i < lanes; i += 2 * unit) {
      vec low, high;
      interleave_units(unit, v[i], v[i + unit], &low, &high);
      v[i] = low + high;
    }
  return v[0];
}

/* Returns the lane sum of v[i] in lane i. Overwrites v. */
ALWAYS_INLINE vec sum_lanes(vec v[VL]) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  __m512 quarters[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) quarters[i] = sum_quarters(v + 4 * i);
  return (vec)add_quarters(add_quarters(quarters[0], quarters[1]), add_quarters(quarters[2], quarters[3]));
#else
  return sum_pieces(VL, v);
#endif
}

/* Like sum_lanes for eight vectors, in lanes 0 ... 7 and the same order of sums. Overwrites v. */
ALWAYS_INLINE vec sum_lanes_of_eight(vec *v) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  __m512 sums = add_quarters(sum_quarters(v), sum_quarters(v + 4));
  return (vec)add_quarters(sums, sums);
#else
  return sum_lanes(v);
#endif
}

/* sums [4] = (or +=) the lane sums of four vectors. */
ALWAYS_INLINE void sum_four(vec v[4], real *sums, bool add) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  __m512 quarters = sum_quarters(v);
  __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm512_extractf32x8_ps(quarters, 1));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
  _mm_storeu_ps(sums, add ? _mm_add_ps(_mm_loadu_ps(sums), four) : four);
#elif defined(CH_KERNEL_F64)
  for (int i = 0; i < 4; i++) sums[i] = add ? sums[i] + lanes_sum(v[i]) : lanes_sum(v[i]);
#else
  real lane[VL];
  store(lane, sum_pieces(4, v));
  for (int i = 0; i < 4; i++) {
    for (int part = 4; part < VL; part += 4) lane[i] += lane[i + part];
    sums[i] = add ? sums[i] + lane[i] : lane[i];
  }
#endif
}

/* Returns true if a comparison held in any lane. */
ALWAYS_INLINE bool any_lane(ivec mask) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
  uint64_t words[VEC_BYTES / 8], any = 0;
  memcpy(words, &mask, sizeof words);
  for (int i = 0; i < VEC_BYTES / 8; i++) any |= words[i];
  return any != 0;
#endif
}

#endif
