/* Block-quantised states (CH_Q8_0, CH_Q4_0). They are written as tokens come, and read when tiles of attention
 * are produced. */
#include "tensor/kernels/vector/quantised_blocks.h"

/* --- writing -------------------------------------------------------------------------------------------- */

enum { VECTORS = GROUP / VL };

/* Returns the whole numbers nearest to x, for |x| < 2^22. It adds a number so large that fractions are rounded
   off, and subtracts it again. */
ALWAYS_INLINE vec nearest(vec x) {
#ifdef CH_KERNEL_F64
  const vec room = splat(0x1.8p52);
#else
  const vec room = splat(0x1.8p23f);
#endif
  return (x + room) - room;
}

/* Returns x * inverse, rounded to whole numbers from least to most. */
ALWAYS_INLINE vec in_steps(vec x, real inverse, real least, real most) {
  return nearest(vec_max(vec_min(x * inverse, splat(most)), splat(least)));
}

/* Returns NaN if a value is not finite, else 0. Broken numbers thus stay visible. */
static inline real brokenness(const vec x[VECTORS]) {
  vec sum = splat(0);
  for (int i = 0; i < VECTORS; i++) sum += x[i] * 0;
  return lanes_sum(sum);
}

/* Stores the scale as F16 and returns its value. */
static inline real put_scale(real scale, unsigned char *block) {
  uint16_t half = f16_from_float(narrow_odd(scale));
  memcpy(block, &half, sizeof half);
  return (real)float_from_f16(half);
}

/* Packs a block of CH_Q8_0. The values are scaled so that the largest magnitude becomes 127. */
static inline void pack_q8_0(const vec x[VECTORS], unsigned char *block) {
  vec high = x[0], low = x[0];
  for (int i = 1; i < VECTORS; i++) {
    high = vec_max(high, x[i]);
    low = vec_max(low, -x[i]);
  }
  low = vec_max(low, -x[0]);
  real scale = put_scale(lanes_max(vec_max(high, low)) / 127 + brokenness(x), block), q[GROUP];
  real inverse = scale > 0 ? 1 / scale : 0;
  for (int i = 0; i < VECTORS; i++) store(q + i * VL, in_steps(x[i], inverse, -127, 127));
  for (int i = 0; i < GROUP; i++) block[2 + i] = (unsigned char)(int8_t)(int)q[i];
}

/* Returns the scale s for which s * q, with whole q from -8 to 7, is nearest to x in least squares. It tries a
   few scales that map the value of largest magnitude to about -8. With s = (x . q) / (q . q) the error is
   |x|^2 - (x . q)^2 / (q . q). */
static inline real scale_of_fours(const vec x[VECTORS]) {
  vec highest = x[0], lowest = x[0];
  for (int i = 1; i < VECTORS; i++) {
    highest = vec_max(highest, x[i]);
    lowest = vec_min(lowest, x[i]);
  }
  real high = lanes_max(highest), low = -lanes_max(-lowest), extreme = high > -low ? high : low;
  real best = 0, gain = -1;
  for (int trial = -3; extreme != 0 && trial <= 3; trial++) {
    real inverse = -8 / extreme * (1 + (real)0.04 * (real)trial);
    vec along = splat(0), square = splat(0);
    for (int i = 0; i < VECTORS; i++) {
      vec q = in_steps(x[i], inverse, -8, 7);
      along += q * x[i];
      square += q * q;
    }
    real a = lanes_sum(along), s = lanes_sum(square);
    if (s == 0 || a * a / s <= gain) continue;
    gain = a * a / s;
    best = a / s;
  }
  return best;
}

/* Packs a block of CH_Q4_0. Values i and i + 16 share a byte. */
static inline void pack_q4_0(const vec x[VECTORS], unsigned char *block) {
  real scale = put_scale(scale_of_fours(x) + brokenness(x), block), q[GROUP];
  real inverse = scale != 0 ? 1 / scale : 0;
  for (int i = 0; i < VECTORS; i++) store(q + i * VL, in_steps(x[i], inverse, -8, 7));
  for (int i = 0; i < GROUP / 2; i++)
    block[2 + i] = (unsigned char)((int)q[i] + 8) | (unsigned char)(((int)q[i + GROUP / 2] + 8) << 4);
}

static void pack_row(int64_t n, const real *x, ch_dtype to, unsigned char *block) {
  size_t bytes = ch_dtype_bytes(to, GROUP);
  for (int64_t k = 0; k < n; k += GROUP, block += bytes) {
    vec group[VECTORS];
    for (int i = 0; i < VECTORS; i++) {
      int64_t left = n - k - i * VL;
      group[i] = left > 0 ? load_some(x + k + i * VL, left) : splat(0);
    }
    if (to == CH_Q8_0)
      pack_q8_0(group, block);
    else
      pack_q4_0(group, block);
  }
}

void KERNEL(pack_states)(const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype to,
                         void *blocks) {
  size_t bytes = ch_dtype_bytes(to, (n + GROUP - 1) / GROUP * GROUP);
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS, {
    for (int64_t r = first; r < last; r++)
      pack_row(n, (const real *)x + r * n, to, (unsigned char *)blocks + (size_t)r * bytes);
  });
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* The prefetch distance in bytes. */
enum { AHEAD = 4096 };

ALWAYS_INLINE void unpack_rows(const ch_dtype from, int64_t rows, int64_t n, const unsigned char *blocks,
                               int64_t stride, real *y) {
  const int64_t bytes = from == CH_Q8_0 ? 34 : 18;
  for (int64_t r = 0; r < rows; r++, y += n) {
    const unsigned char *block = blocks + r * stride;
    for (int64_t k = 0; k < n; k += GROUP, block += bytes) {
      __builtin_prefetch(block + AHEAD, 0, 2);
      vec x[VECTORS];
      block_integers(from, block, x);
      const vec scale = splat_half(block);
      for (int i = 0; i < VECTORS; i++) store(y + k + i * VL, x[i] * scale);
    }
  }
}

void KERNEL(unpack_states)(int64_t rows, int64_t n, const void *blocks, int64_t stride, ch_dtype from,
                           void *y) {
  if (from == CH_Q8_0)
    unpack_rows(CH_Q8_0, rows, n, blocks, stride, y);
  else
    unpack_rows(CH_Q4_0, rows, n, blocks, stride, y);
}
