/* Values in blocks to reals, and rows of x to what products with such weights take. */
#include "tensor/kernels/blocks.h"
#include "tensor/quantised.h"

/* One group of 32, or of 16: y = scale * (q - zero) - least. */
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

void KERNEL(widen_blocks)(int64_t n, const void *x, ch_dtype from, void *y) {
  int64_t values = ch_dtype_block(from), blocks = n / values;
  size_t bytes = ch_dtype_bytes(from, values);
#pragma omp parallel for schedule(static) if (n >= CH_PARALLEL_ELEMENTS && !omp_in_parallel())
  for (int64_t b = 0; b < blocks; b++)
    widen_block(from, (const unsigned char *)x + (size_t)b * bytes, (real *)y + b * values);
}

/* --- rows of x as small integers ------------------------------------------------------------------------------------ */

static void quantise_group(const real *restrict x, int zero, int8_t *restrict q, int32_t *restrict start,
                           float *restrict scale, float *restrict sum) {
  float most = 0, value[GROUP];
  for (int i = 0; i < GROUP; i++) value[i] = (float)x[i];
  for (int i = 0; i < GROUP; i++) most = fmaxf(most, fabsf(value[i]));
  float d = most / 127, inverse = most > 0 ? 127 / most : 0;
  int32_t total = 0;
  for (int i = 0; i < GROUP; i++) q[i] = (int8_t)rintf(value[i] * inverse);
  for (int j = 0; j < GROUP / 4; j++) {
    int32_t four = q[4 * j] + q[4 * j + 1] + q[4 * j + 2] + q[4 * j + 3];
    start[j] = -zero * four;
    scale[j] = d;
    total += four;
  }
  *sum = d * (float)total;
}

void KERNEL(quantise_rows)(int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype, void *quantised) {
  int zero = ch_quantised_zero(weight_dtype);
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS, {
    for (int64_t r = first; r < last; r++) {
      ch_quantised_row row = ch_quantised_row_of(quantised, n, r);
      for (int64_t b = 0; b < n / GROUP; b++)
        quantise_group((const real *)x + r * n + b * GROUP, zero, row.q + b * GROUP,
                       row.start + b * (GROUP / 4), row.scale + b * (GROUP / 4), row.sum + b);
    }
  });
}
