/* Converts block-quantised values to reals. */
#include "tensor/kernels/vector/quantised_blocks.h"

/* Widens a group of 32 or 16: y = scale * (q - zero) - least. */
static inline void widen_group(int count, const int8_t *restrict q, int zero, float scale, float least,
                               real *restrict y) {
  for (int i = 0; i < count; i++) y[i] = (real)(scale * (float)(q[i] - zero) - least);
}

static void widen_block(ch_dtype dtype, const unsigned char *block, real *y) {
  int8_t q[SUPER];
  integers_of(dtype, block, q);
  if (dtype == CH_Q8_0) {
    widen_group(GROUP, q, 0, half_at(block), 0, y);
  } else if (dtype == CH_Q4_0) {
    widen_group(GROUP, q, 8, half_at(block), 0, y);
  } else if (dtype == CH_Q4_K) {
    uint64_t scales, minima;
    scales_of_q4_k(block + 4, &scales, &minima);
    float d = half_at(block), least = half_at(block + 2);
    for (int g = 0; g < SUPER / GROUP; g++)
      widen_group(GROUP, q + g * GROUP, 0, d * (float)(scales >> 8 * g & 63),
                  least * (float)(minima >> 8 * g & 63), y + g * GROUP);
  } else {
    float d = half_at(block + 208);
    for (int g = 0; g < SUPER / 16; g++)
      widen_group(16, q + 16 * g, 32, d * (float)(int8_t)block[192 + g], 0, y + 16 * g);
  }
}

void KERNEL(widen_blocks)(const ch_team *team, int64_t n, const void *x, ch_dtype from, void *y) {
  int64_t values = ch_dtype_block(from), blocks = n / values;
  size_t bytes = ch_dtype_bytes(from, values);
#pragma omp parallel for schedule(static)                                                                    \
    num_threads(team->workers) if (n >= CH_PARALLEL_ELEMENTS && !omp_in_parallel())
  for (int64_t b = 0; b < blocks; b++)
    widen_block(from, (const unsigned char *)x + (size_t)b * bytes, (real *)y + b * values);
}
