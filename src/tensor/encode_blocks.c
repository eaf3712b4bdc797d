/* Encodes values into ggml's blocks. Where the format leaves a choice of scales, it tries several and uses the
 * one with the smallest sum of squared errors. */
#include <math.h>
#include <string.h>

#include "tensor/encode_blocks.h"
#include "tensor/kernels.h"

enum { GROUP = 32, SUPER = 256, HALF_GROUP = 16, TRIALS = 19 };

/* Stores `value` as F16 at p. Returns the rounded value. */
static float put_half(float value, unsigned char *p) {
  const ch_kernels *kernels = ch_kernels_best(CH_F32);
  uint16_t half;
  kernels->convert_to(&ch_alone, 1, &value, CH_F16, &half);
  memcpy(p, &half, sizeof half);
  kernels->convert_from(&ch_alone, 1, &half, CH_F16, &value);
  return value;
}

static int nearest(float value, int least, int most) {
  float rounded = rintf(value);
  return rounded < (float)least ? least : rounded > (float)most ? most : (int)rounded;
}

/* Returns the factor, close to 1, that trial i of a search applies to the first guess. */
static float trial(int i) {
  return 1 + 0.02f * (float)(i - TRIALS / 2);
}

/* Returns the scale s for which s * q is nearest to x, with whole q from least to most. The value of largest
   magnitude is mapped to about `least`. */
static float symmetric_scale(const float *x, int count, int least, int most) {
  float extreme = 0, best = 0, best_gain = -1;
  for (int i = 0; i < count; i++)
    if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
  if (extreme == 0) return 0;
  for (int t = 0; t < TRIALS; t++) {
    float inverse = (float)least / extreme * trial(t), along = 0, square = 0;
    for (int i = 0; i < count; i++) {
      float q = (float)nearest(x[i] * inverse, least, most);
      along += q * x[i];
      square += q * q;
    }
    /* With s = along / square the error is |x|^2 - along^2 / square. */
    if (square == 0 || along * along / square <= best_gain) continue;
    best_gain = along * along / square;
    best = along / square;
  }
  return best;
}

/* Finds scale s and shift m for which s * q - m is nearest to x, with whole q from 0 to most; s and m are not
   negative. */
static void shifted_scale(const float *x, int count, int most, float *scale, float *shift) {
  float low = 0, high = 0, sum_x = 0, best = INFINITY;
  for (int i = 0; i < count; i++) {
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
    sum_x += x[i];
  }
  *scale = (high - low) / (float)most;
  *shift = -low;
  if (high == low) return;
  for (int t = 0; t < TRIALS; t++) {
    float inverse = (float)most / (high - low) * trial(t), sum_q = 0, square = 0, along = 0;
    for (int i = 0; i < count; i++) {
      float q = (float)nearest((x[i] - low) * inverse, 0, most);
      sum_q += q, square += q * q, along += q * x[i];
    }
    float n = (float)count, determinant = n * square - sum_q * sum_q;
    if (determinant <= 0) continue;
    float s = (n * along - sum_q * sum_x) / determinant, m = (sum_q * along - square * sum_x) / determinant;
    if (m < 0) m = 0, s = along / square; /* without a shift */
    if (s <= 0) continue;
    float error = 0;
    for (int i = 0; i < count; i++) {
      float d = s * (float)nearest((x[i] + m) / s, 0, most) - m - x[i];
      error += d * d;
    }
    if (error < best) best = error, *scale = s, *shift = m;
  }
}

static void encode_q8_0(const float *x, unsigned char *block) {
  float most = 0;
  for (int i = 0; i < GROUP; i++) most = fmaxf(most, fabsf(x[i]));
  float d = most / 127, inverse = d > 0 ? 1 / d : 0;
  put_half(d, block);
  for (int i = 0; i < GROUP; i++) block[2 + i] = (unsigned char)(signed char)roundf(x[i] * inverse);
}

static void encode_q4_0(const float *x, unsigned char *block) {
  float d = put_half(symmetric_scale(x, GROUP, -8, 7), block), inverse = d != 0 ? 1 / d : 0;
  for (int i = 0; i < GROUP / 2; i++) {
    int low = nearest(x[i] * inverse, -8, 7) + 8, high = nearest(x[i + GROUP / 2] * inverse, -8, 7) + 8;
    block[2 + i] = (unsigned char)(low | high << 4);
  }
}

/* Packs the scale and the minimum of group g, 6 bits each, into the 12 bytes at p. */
static void put_q4_k_scale(unsigned char *p, int g, int scale, int least) {
  if (g < 4) {
    p[g] |= (unsigned char)scale;
    p[g + 4] |= (unsigned char)least;
    return;
  }
  p[g + 4] |= (unsigned char)((scale & 15) | (least & 15) << 4);
  p[g - 4] |= (unsigned char)(scale >> 4 << 6);
  p[g] |= (unsigned char)(least >> 4 << 6);
}

static void encode_q4_k(const float *x, unsigned char *block) {
  enum { GROUPS = SUPER / GROUP };
  float scale[GROUPS], shift[GROUPS], most_scale = 0, most_shift = 0;
  unsigned char q[SUPER];
  for (int g = 0; g < GROUPS; g++) {
    shifted_scale(x + g * GROUP, GROUP, 15, &scale[g], &shift[g]);
    most_scale = fmaxf(most_scale, scale[g]);
    most_shift = fmaxf(most_shift, shift[g]);
  }
  memset(block, 0, 144);
  float d = put_half(most_scale / 63, block), least = put_half(most_shift / 63, block + 2);
  for (int g = 0; g < GROUPS; g++) {
    int s = d > 0 ? nearest(scale[g] / d, 0, 63) : 0, m = least > 0 ? nearest(shift[g] / least, 0, 63) : 0;
    float step = d * (float)s, from = least * (float)m;
    put_q4_k_scale(block + 4, g, s, m);
    for (int i = 0; i < GROUP; i++)
      q[g * GROUP + i] = (unsigned char)(step > 0 ? nearest((x[g * GROUP + i] + from) / step, 0, 15) : 0);
  }
  for (int pair = 0; pair < SUPER; pair += 2 * GROUP)
    for (int i = 0; i < GROUP; i++)
      block[16 + pair / 2 + i] = (unsigned char)(q[pair + i] | q[pair + GROUP + i] << 4);
}

static void encode_q6_k(const float *x, unsigned char *block) {
  enum { GROUPS = SUPER / HALF_GROUP };
  float scale[GROUPS], most = 0;
  unsigned char q[SUPER];
  for (int g = 0; g < GROUPS; g++) {
    scale[g] = symmetric_scale(x + g * HALF_GROUP, HALF_GROUP, -32, 31);
    most = fmaxf(most, fabsf(scale[g]));
  }
  float d = put_half(most / 127, block + 208);
  for (int g = 0; g < GROUPS; g++) {
    int s = d > 0 ? nearest(scale[g] / d, -127, 127) : 0;
    float inverse = s ? 1 / (d * (float)s) : 0;
    block[192 + g] = (unsigned char)(signed char)s;
    for (int i = 0; i < HALF_GROUP; i++)
      q[g * HALF_GROUP + i] = (unsigned char)(nearest(x[g * HALF_GROUP + i] * inverse, -32, 31) + 32);
  }
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < GROUP; i++) {
      const unsigned char *p = q + 128 * half + i;
      block[64 * half + i] = (unsigned char)((p[0] & 15) | (p[64] & 15) << 4);
      block[64 * half + 32 + i] = (unsigned char)((p[32] & 15) | (p[96] & 15) << 4);
      block[128 + 32 * half + i] =
          (unsigned char)(p[0] >> 4 | p[32] >> 4 << 2 | p[64] >> 4 << 4 | p[96] >> 4 << 6);
    }
}

void ch_encode_blocks(ch_dtype dtype, const float *values, int64_t count, void *blocks) {
  unsigned char *data = blocks;
  int64_t block = ch_dtype_block(dtype);
  size_t bytes = ch_dtype_bytes(dtype, block);
  for (int64_t i = 0; i < count; i += block, data += bytes) switch (dtype) {
    case CH_Q8_0:
      encode_q8_0(values + i, data);
      break;
    case CH_Q4_0:
      encode_q4_0(values + i, data);
      break;
    case CH_Q4_K:
      encode_q4_k(values + i, data);
      break;
    default:
      encode_q6_k(values + i, data);
    }
}
