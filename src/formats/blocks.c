/* Decodes ggml's blocks. Kernels decode the block-quantised types that inference reads in place. A scale times
   a small integer is exact in F32, so there is at most one rounding. */
#include "formats/blocks.h"

#include <math.h>
#include <string.h>

#include "tensor/kernels.h"

enum { GROUP = 32, SUPER = 256 };

/* --- pieces of blocks ----------------------------------------------------------------------------------- */

/* Returns the F16 at p. */
static float half(const unsigned char *p) {
  unsigned bits = p[0] | (unsigned)p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                    : exponent == 0 ? ldexpf((float)fraction, -24)
                                    : ldexpf((float)(fraction + 1024), (int)exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

/* Returns the four bits of value i of a group that stores its lower halves first. */
static int nibble(const unsigned char *q, int i) {
  return i < GROUP / 2 ? q[i] & 15 : q[i - GROUP / 2] >> 4;
}

static int bit(const unsigned char *bits, int i) {
  return bits[i / 8] >> i % 8 & 1;
}

static const signed char nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

/* --- groups of 32 --------------------------------------------------------------------------------------- */

static void q4_1(const unsigned char *b, float *y) {
  float d = half(b), least = half(b + 2);
  for (int i = 0; i < GROUP; i++) y[i] = d * (float)nibble(b + 4, i) + least;
}

static void q5_0(const unsigned char *b, float *y) {
  float d = half(b);
  for (int i = 0; i < GROUP; i++) y[i] = d * (float)((nibble(b + 6, i) | bit(b + 2, i) << 4) - 16);
}

static void q5_1(const unsigned char *b, float *y) {
  float d = half(b), least = half(b + 2);
  for (int i = 0; i < GROUP; i++) y[i] = d * (float)(nibble(b + 8, i) | bit(b + 4, i) << 4) + least;
}

static void iq4_nl(const unsigned char *b, float *y) {
  float d = half(b);
  for (int i = 0; i < GROUP; i++) y[i] = d * (float)nonlinear[nibble(b + 2, i)];
}

/* Decodes MXFP4: an exponent in a byte, and 32 numbers of 4 bits. */
static void mxfp4(const unsigned char *b, float *y) {
  static const float numbers[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (int i = 0; i < GROUP; i++) {
    int bits = nibble(b + 1, i);
    float size = b[0] == 255 ? NAN : ldexpf(numbers[bits & 7], b[0] - 127);
    y[i] = bits & 8 ? -size : size;
  }
}

/* --- superblocks of 256, whose groups have small scales ------------------------------------------------- */

/* Decodes 16 groups of 16 values of 2 bits. Scales and minima have 4 bits. */
static void q2_k(const unsigned char *b, float *y) {
  const unsigned char *scales = b, *q = b + 16;
  float d = half(b + 80), least = half(b + 82);
  for (int i = 0; i < SUPER; i++) {
    int value = q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3, scale = scales[i / 16];
    y[i] = d * (float)(scale & 15) * (float)value - least * (float)(scale >> 4);
  }
}

/* Returns scale `group` of 16, of 6 bits: the low four in 8 bytes, the high two in the 4 after them. */
static int scale_of_q3(const unsigned char *scales, int group) {
  int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
  return (low | (scales[8 + group % 4] >> (group / 4 * 2) & 3) << 4) - 32;
}

static void q3_k(const unsigned char *b, float *y) {
  const unsigned char *high = b, *q = b + 32, *scales = b + 96;
  float d = half(b + 108);
  for (int i = 0; i < SUPER; i++) {
    int value = q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    value -= high[i % 32] >> (i / 32) & 1 ? 0 : 4;
    y[i] = d * (float)scale_of_q3(scales, i / 16) * (float)value;
  }
}

/* Reads scale and minimum of group `group` of 8, of 6 bits each, in 12 bytes. */
static void scale_of_q5_k(const unsigned char *p, int group, float *scale, float *least) {
  if (group < 4) {
    *scale = (float)(p[group] & 63);
    *least = (float)(p[group + 4] & 63);
  } else {
    *scale = (float)((p[group + 4] & 15) | (p[group - 4] >> 6) << 4);
    *least = (float)(p[group + 4] >> 4 | (p[group] >> 6) << 4);
  }
}

/* Decodes groups of 32 whose values have a fifth bit, stored separately. */
static void q5_k(const unsigned char *b, float *y) {
  const unsigned char *high = b + 16, *q = b + 48;
  float d = half(b), least = half(b + 2), scale, shift;
  for (int group = 0; group < SUPER / GROUP; group++) {
    scale_of_q5_k(b + 4, group, &scale, &shift);
    for (int i = 0; i < GROUP; i++) {
      int value = (q[group / 2 * GROUP + i] >> (group % 2 * 4) & 15) | (high[i] >> group & 1) << 4;
      y[group * GROUP + i] = d * scale * (float)value - least * shift;
    }
  }
}

static void iq4_xs(const unsigned char *b, float *y) {
  float d = half(b);
  unsigned high = b[2] | (unsigned)b[3] << 8;
  for (int group = 0; group < SUPER / GROUP; group++) {
    int low = b[4 + group / 2] >> (group % 2 * 4) & 15;
    int scale = (low | (int)(high >> 2 * group & 3) << 4) - 32;
    for (int i = 0; i < GROUP; i++)
      y[group * GROUP + i] = d * (float)scale * (float)nonlinear[nibble(b + 8 + group * 16, i)];
  }
}

/* --- the table ------------------------------------------------------------------------------------------ */

static const ch_block_format formats[] = {
    {CH_BLOCK_F32, "F32", 1, 4, CH_F32, NULL},
    {CH_BLOCK_F16, "F16", 1, 2, CH_F16, NULL},
    {CH_BLOCK_BF16, "BF16", 1, 2, CH_BF16, NULL},
    {CH_BLOCK_Q4_0, "Q4_0", 32, 18, CH_Q4_0, NULL},
    {CH_BLOCK_Q4_1, "Q4_1", 32, 20, CH_U8, q4_1},
    {CH_BLOCK_Q5_0, "Q5_0", 32, 22, CH_U8, q5_0},
    {CH_BLOCK_Q5_1, "Q5_1", 32, 24, CH_U8, q5_1},
    {CH_BLOCK_Q8_0, "Q8_0", 32, 34, CH_Q8_0, NULL},
    {CH_BLOCK_Q2_K, "Q2_K", 256, 84, CH_U8, q2_k},
    {CH_BLOCK_Q3_K, "Q3_K", 256, 110, CH_U8, q3_k},
    {CH_BLOCK_Q4_K, "Q4_K", 256, 144, CH_Q4_K, NULL},
    {CH_BLOCK_Q5_K, "Q5_K", 256, 176, CH_U8, q5_k},
    {CH_BLOCK_Q6_K, "Q6_K", 256, 210, CH_Q6_K, NULL},
    {CH_BLOCK_IQ4_NL, "IQ4_NL", 32, 18, CH_U8, iq4_nl},
    {CH_BLOCK_IQ4_XS, "IQ4_XS", 256, 136, CH_U8, iq4_xs},
    {CH_BLOCK_MXFP4, "MXFP4", 32, 17, CH_U8, mxfp4},
};

const char ch_block_names[] =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4";

const ch_block_format *ch_block_format_for(ch_dtype dtype) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].dtype == dtype && !formats[i].decode) return &formats[i];
  return NULL;
}

const ch_block_format *ch_block_format_of(uint32_t type) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if ((uint32_t)formats[i].type == type) return &formats[i];
  return NULL;
}

/* Decodes plain floats that are not aligned. */
static void decode_unaligned(ch_block_type type, const unsigned char *data, int64_t count, float *values) {
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    if (type == CH_BLOCK_F16) {
      values[i] = half(data + 2 * i);
      continue;
    }
    if (type == CH_BLOCK_F32)
      memcpy(&bits, data + 4 * i, 4);
    else
      bits = ((uint32_t)data[2 * i] | (uint32_t)data[2 * i + 1] << 8) << 16;
    memcpy(&values[i], &bits, 4);
  }
}

void ch_blocks_decode(const ch_block_format *format, const unsigned char *data, int64_t count,
                      float *values) {
  if (format->decode)
    for (int64_t i = 0; i < count; i += format->values, data += format->bytes)
      format->decode(data, values + i);
  else if (ch_dtype_is_block_quantised(format->dtype) || (uintptr_t)data % format->bytes == 0)
    ch_kernels_best(CH_F32)->convert_from(ch_team_here(), count, data, format->dtype, values);
  else
    decode_unaligned(format->type, data, count, values);
}
