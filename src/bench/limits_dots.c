/* Loops of dot instructions on registers, for BF16 and for 8-bit integers. */
#include "bench/limits_dots.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* CHAINS independent sums cover the latency of two units. */
enum { CHAINS = 16, LANES = 16 };

/* ONES: lanes of two ones in BF16. SMALL: lanes of four 8-bit integers; the first is seed + 1, the others are 0. */
#define ONES _mm512_set1_epi32(0x3f803f80)
#define SMALL(seed) _mm512_set1_epi32((seed) + 1)

__attribute__((target("avx512f,avx512bf16"))) static double bf16_loop(int64_t rounds, int seed,
                                                                      double *operations) {
  __m512 sum[CHAINS];
  __m512bh ones = (__m512bh)ONES;
  for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps((float)(i + seed));
  for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_dpbf16_ps(sum[i], ones, ones);
  }
  for (int i = 1; i < CHAINS; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  *operations = (double)rounds * CHAINS * LANES * 2 * 2;
  return (double)_mm512_reduce_add_ps(sum[0]);
}

__attribute__((target("avx512f,avx512vnni"))) static double int8_loop(int64_t rounds, int seed,
                                                                      double *operations) {
  __m512i sum[CHAINS], small = SMALL(seed);
  for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_epi32(i);
  for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], small, small);
  }
  for (int i = 1; i < CHAINS; i++) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  *operations = (double)rounds * CHAINS * LANES * 4 * 2;
  /* the integers may overflow; the sum then has no meaning */
  return (double)_mm512_reduce_add_ps(_mm512_cvtepi32_ps(sum[0]));
}

ch_dot_loop ch_dot_loop_bf16(void) {
  return __builtin_cpu_supports("avx512bf16") ? bf16_loop : NULL;
}

ch_dot_loop ch_dot_loop_int8(void) {
  return __builtin_cpu_supports("avx512vnni") ? int8_loop : NULL;
}
#else
ch_dot_loop ch_dot_loop_bf16(void) {
  return NULL;
}

ch_dot_loop ch_dot_loop_int8(void) {
  return NULL;
}
#endif
