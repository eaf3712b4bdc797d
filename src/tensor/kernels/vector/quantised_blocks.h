/* ggml's blocks, piece by piece: the places of their integers and scales. */
#ifndef CH_KERNELS_VECTOR_QUANTISED_BLOCKS_H
#define CH_KERNELS_VECTOR_QUANTISED_BLOCKS_H

#include "tensor/kernels/vector/halves.h"

enum { GROUP = 32, SUPER = 256 };

static inline float half_at(const unsigned char *p) {
  uint16_t half;
  memcpy(&half, p, sizeof half);
  return float_from_f16(half);
}

/* Unpacks Q4_K's scales and minima of its eight groups, of 6 bits each in 12 bytes, to bytes. */
static inline void scales_of_q4_k(const unsigned char *p, uint64_t *scales, uint64_t *minima) {
  uint32_t a, b, c;
  memcpy(&a, p, 4), memcpy(&b, p + 4, 4), memcpy(&c, p + 8, 4);
  uint32_t high_scales = (c & 0x0f0f0f0f) | ((a >> 6) & 0x03030303) << 4;
  uint32_t high_minima = ((c >> 4) & 0x0f0f0f0f) | ((b >> 6) & 0x03030303) << 4;
  *scales = (a & 0x3f3f3f3f) | (uint64_t)high_scales << 32;
  *minima = (b & 0x3f3f3f3f) | (uint64_t)high_minima << 32;
}

/* Unpacks the integers of `dtype` at `block`, before the subtraction of 8 (Q4_0) or 32 (Q6_K): 32 values of
   Q8_0 and Q4_0, 256 of the others. */
static inline void integers_of(ch_dtype dtype, const unsigned char *block, int8_t *restrict q) {
  switch (dtype) {
  case CH_Q8_0:
    memcpy(q, block + 2, GROUP);
    break;
  case CH_Q4_0:
    for (int i = 0; i < GROUP / 2; i++) {
      q[i] = block[2 + i] & 15;
      q[i + GROUP / 2] = block[2 + i] >> 4;
    }
    break;
  case CH_Q4_K: /* two groups share 32 bytes */
    for (int g = 0; g < SUPER; g += 2 * GROUP)
      for (int i = 0; i < GROUP; i++) {
        q[g + i] = block[16 + g / 2 + i] & 15;
        q[g + GROUP + i] = block[16 + g / 2 + i] >> 4;
      }
    break;
  default: /* Q6_K: low four bits of two halves of 64, high two bits of four quarters */
    for (int h = 0; h < 2; h++)
      for (int i = 0; i < GROUP; i++) {
        const unsigned char *low = block + 64 * h, high = block[128 + 32 * h + i];
        q[128 * h + i] = (int8_t)((low[i] & 15) | (high & 3) << 4);
        q[128 * h + 32 + i] = (int8_t)((low[32 + i] & 15) | (high >> 2 & 3) << 4);
        q[128 * h + 64 + i] = (int8_t)(low[i] >> 4 | (high >> 4 & 3) << 4);
        q[128 * h + 96 + i] = (int8_t)(low[32 + i] >> 4 | (high >> 6) << 4);
      }
  }
}

/* Loads the F16 at p into all lanes. */
ALWAYS_INLINE vec splat_half(const void *p) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  int16_t half;
  memcpy(&half, p, sizeof half);
  return (vec)_mm512_cvtph_ps(_mm256_set1_epi16(half));
#elif defined(__F16C__) && !defined(CH_KERNEL_F64)
  int16_t half;
  memcpy(&half, p, sizeof half);
  return (vec)_mm256_cvtph_ps(_mm_set1_epi16(half));
#else
  return splat((real)half_at(p));
#endif
}

/* block_integers unpacks the integers of a block of CH_Q8_0 or CH_Q4_0 as signed numbers. */
#if defined(__AVX2__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE void put_bytes(__m128i bytes, vec *x) {
#if defined(__AVX512F__)
  x[0] = (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
#else
  x[0] = (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  x[1] = (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
#endif
}

/* Unpacks the integers from element `at` (a constant) of a block on; `bytes` are those at bytes_at. */
ALWAYS_INLINE __m128i signed_bytes(const ch_dtype dtype, __m128i bytes, const int at) {
  if (dtype == CH_Q8_0) return bytes;
  if (at >= GROUP / 2) bytes = _mm_srli_epi16(bytes, 4);
  return _mm_sub_epi8(_mm_and_si128(bytes, _mm_set1_epi8(15)), _mm_set1_epi8(8));
}

/* Returns the address of the bytes that signed_bytes unpacks. */
ALWAYS_INLINE const void *bytes_at(const ch_dtype dtype, const char *block, const int at) {
  return block + 2 + (dtype == CH_Q8_0 ? at : at % (GROUP / 2));
}

ALWAYS_INLINE void block_integers(const ch_dtype dtype, const unsigned char *block, vec x[GROUP / VL]) {
  const __m128i first = _mm_loadu_si128((const void *)(block + 2)),
                second = dtype == CH_Q8_0 ? _mm_loadu_si128((const void *)(block + 18)) : first;
  put_bytes(signed_bytes(dtype, first, 0), x);
  put_bytes(signed_bytes(dtype, second, GROUP / 2), x + GROUP / VL / 2);
}

/* Returns VL integers of a block from element `at` (a constant) on. */
ALWAYS_INLINE vec vector_of_integers(const ch_dtype dtype, const char *block, const int at) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(bytes_at(dtype, block, at));
  return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(signed_bytes(dtype, bytes, at)));
#else
  const __m128i bytes = _mm_loadl_epi64(bytes_at(dtype, block, at));
  return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(signed_bytes(dtype, bytes, at)));
#endif
}
#else
ALWAYS_INLINE void block_integers(const ch_dtype dtype, const unsigned char *block, vec x[GROUP / VL]) {
  real q[GROUP];
  for (int i = 0; i < GROUP; i++)
    q[i] = dtype == CH_Q8_0 ? (real)(int8_t)block[2 + i] : (real)((block[2 + i % 16] >> i / 16 * 4 & 15) - 8);
  memcpy(x, q, sizeof q);
}

ALWAYS_INLINE vec vector_of_integers(const ch_dtype dtype, const char *block, const int at) {
  real q[VL];
  for (int i = 0; i < VL; i++)
    q[i] = dtype == CH_Q8_0 ? (real)(signed char)block[2 + at + i]
                            : (real)(((unsigned char)block[2 + (at + i) % 16] >> (at + i) / 16 * 4 & 15) - 8);
  return load(q);
}
#endif

#endif
