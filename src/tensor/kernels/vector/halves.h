/* The 16-bit element types, IEEE half (F16) and bfloat16 (BF16): conversion of values to float and back, and
 * loads of vectors. */
#ifndef CH_KERNELS_VECTOR_HALVES_H
#define CH_KERNELS_VECTOR_HALVES_H

#include "tensor/kernels/vector/variant.h"

static inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_from_bf16(uint16_t half) {
  return float_of_bits((uint32_t)half << 16);
}

/* Rounds to nearest even. A NaN keeps its sign and top bits and becomes quiet. */
static inline uint16_t bf16_from_float(float value) {
  uint32_t bits = bits_of_float(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline float float_from_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;
  /* A normal value's exponent moves from bias 15 to 127. Infinity and NaN get an exponent of all ones. A
     subnormal value is a whole number of 2^-24, which a subtraction normalises. */
  uint32_t normal = rest + ((127u - 15u) << 23);
  uint32_t special = rest + ((255u - 31u) << 23);
  special |= (rest & 0x007fffff) ? 0x00400000 : 0; /* quiet */
  uint32_t tiny = bits_of_float(float_of_bits(rest + (113u << 23)) - float_of_bits(113u << 23));
  uint32_t bits = rest >= (31u << 23) ? special : rest < (1u << 23) ? tiny : normal;
  return float_of_bits(bits | sign);
}

/* Rounds to nearest even. Too large a value becomes infinity. A NaN keeps its sign and top bits and becomes
   quiet. */
static inline uint16_t f16_from_float(float value) {
  uint32_t bits = bits_of_float(value), sign = (bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  /* Below 2^-14 the result is a whole number of 2^-24: adding 0.5 puts it, rounded, in the low bits. */
  uint32_t tiny = bits_of_float(float_of_bits(bits) + 0.5f) - bits_of_float(0.5f);
  uint32_t normal = (bits - ((127u - 15u) << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
  uint32_t nan = 0x7e00 | ((bits >> 13) & 0x3ff);
  /* 0x47800000 is 65536, from which values are infinite. `normal` rounds 65520 … 65535 to infinity too. */
  uint32_t half = bits > 0x7f800000 ? nan : bits >= 0x47800000 ? 0x7c00 : bits < 0x38800000 ? tiny : normal;
  return (uint16_t)(half | sign);
}

/* load_f16 and load_bf16 load the first `left` values, at most VL, and zeros in the other lanes. */
#ifdef CH_KERNEL_F64

ALWAYS_INLINE vec load_f16(const uint16_t *halves, int64_t left) {
  vec v = splat(0);
  for (int i = 0; i < VL && i < left; i++) v[i] = (real)float_from_f16(halves[i]);
  return v;
}

ALWAYS_INLINE vec load_bf16(const uint16_t *halves, int64_t left) {
  vec v = splat(0);
  for (int i = 0; i < VL && i < left; i++) v[i] = (real)float_from_bf16(halves[i]);
  return v;
}

#else

typedef uint16_t half_vec __attribute__((vector_size(2 * VL)));

ALWAYS_INLINE half_vec load_halves(const uint16_t *halves, int64_t left) {
  half_vec v = {0};
  memcpy(&v, halves, left < VL ? (size_t)left * sizeof *halves : sizeof v);
  return v;
}

ALWAYS_INLINE vec load_bf16(const uint16_t *halves, int64_t left) {
  half_vec v = load_halves(halves, left);
#if defined(__AVX512F__) /* GCC 12 would widen the vector's two halves separately */
  return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)v), 16);
#elif defined(__AVX2__)
  return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)v), 16);
#else
  return (vec)(__builtin_convertvector(v, ivec) << 16);
#endif
}

ALWAYS_INLINE vec load_f16(const uint16_t *halves, int64_t left) {
  half_vec v = load_halves(halves, left);
#if defined(__AVX512F__)
  return (vec)_mm512_cvtph_ps((__m256i)v);
#elif defined(__AVX2__)
  return (vec)_mm256_cvtph_ps((__m128i)v);
#else /* computes like float_from_f16 */
  ivec wide = __builtin_convertvector(v, ivec), sign = (wide & 0x8000) << 16, rest = (wide & 0x7fff) << 13;
  vec tiny = (vec)(rest + (113 << 23)) - splat(0x1p-14f);
  vec normal = choose(rest < (1 << 23), tiny, (vec)(rest + (112 << 23)));
  vec value = choose(rest >= (31 << 23), (vec)(rest + (224 << 23)), normal);
  return (vec)((ivec)value | sign);
#endif
}

#endif

#if defined(__AVX512BW__) && !defined(CH_KERNEL_F64)
/* Loads 2 VL elements of 16 bits, two in each lane, or `left` of them and zeros. */
ALWAYS_INLINE vec load_pairs(const void *from, int64_t left) {
  if (left >= 2 * VL) return (vec)_mm512_loadu_si512(from);
  return (vec)_mm512_maskz_loadu_epi16((__mmask32)((1ull << left) - 1), from);
}
#else
ALWAYS_INLINE vec load_pairs(const void *from, int64_t left) {
  (void)from, (void)left;
  return splat(0);
}
#endif

/* Rounds a double to a float that rounds to 16 bits as the double itself would: an inexact result gets an odd
   last bit. Leaves a float unchanged. */
static inline float narrow_odd(real value) {
#ifdef CH_KERNEL_F64
  float nearest = (float)value;
  uint32_t bits = bits_of_float(nearest);
  if ((double)nearest == value || nearest != nearest) return nearest;
  if (fabs((double)nearest) > fabs(value)) bits--; /* toward zero; infinity becomes the largest float */
  return float_of_bits(bits | 1);
#else
  return value;
#endif
}

#endif
