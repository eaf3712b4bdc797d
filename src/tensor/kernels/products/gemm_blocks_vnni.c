/* Products of several rows with block-quantised weights by VNNI: y = x W^T with x as small integers.
 *
 * Sixteen rows of weights at a time are unpacked into a panel, one row per lane: a vector has four
 * neighbouring values of each row, and is multiplied with the four corresponding values of a row of x. A panel
 * stays in L1 while all rows of x are multiplied with it. */
#include "tensor/kernels/vector/quantised_blocks.h"
#include "tensor/kernels/products/gemm_blocks.h"
#include "tensor/kernels/products/products.h"
#include "tensor/quantised.h"

#ifdef __AVX512VNNI__

enum {
  LANES = 16,            /* rows of weights in a panel */
  DEPTH = 1024,          /* values of a row in a panel */
  FOURS = GROUP / 4,     /* vectors in a panel's group: each has four values of every row */
  LEAST_ROWS = 3,        /* smallest number of rows of x in a call */
  MOST_ROWS = 8,         /* rows of x whose sums are in registers */
  GROUPS = DEPTH / GROUP /* groups of a row in a panel */
};

typedef struct panel {
  __m512i values[GROUPS * FOURS];
  __m512 scales[2 * GROUPS]; /* scale of every 32 values, or of every 16 in Q6_K */
  __m512 least[GROUPS];      /* Q4_K: factor of the sum of x that is subtracted */
} panel;

/* --- x -------------------------------------------------------------------------------------------------- */

/* A group of 32 values of MOST_ROWS rows of x. A multiplication reads four values of a row for all lanes. */
typedef struct group_of_rows {
  int32_t four[FOURS][MOST_ROWS]; /* four neighbouring values of a row, packed into one number */
  int32_t start[2][MOST_ROWS];    /* -zero times the sum of the values; Q6_K: of each half */
  float scale[MOST_ROWS];         /* scale of the 32 values */
  float sum[MOST_ROWS];           /* scale times the sum of the values */
} group_of_rows;

_Static_assert(sizeof(group_of_rows) <= (size_t)LEAST_ROWS * 4 * GROUP,
               "the rows that there are have room for MOST_ROWS");

/* Returns the groups of the MOST_ROWS rows that row r is one of. */
static group_of_rows *groups_of(const void *rows, int64_t n, int64_t r) {
  return (group_of_rows *)(uintptr_t)rows + r / MOST_ROWS * (n / GROUP);
}

static void round_group(const float *x, int zero, bool halves, group_of_rows *to, int64_t r) {
  __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
  float most = largest_of_group(a, b);
  __m512 inverse = _mm512_set1_ps(most > 0 ? 127 / most : 0);
  __m512i whole_a = _mm512_cvtps_epi32(_mm512_mul_ps(a, inverse)),
          whole_b = _mm512_cvtps_epi32(_mm512_mul_ps(b, inverse));
  int32_t left = _mm512_reduce_add_epi32(whole_a), right = _mm512_reduce_add_epi32(whole_b), four[FOURS];
  _mm_storeu_si128((__m128i *)(void *)four, _mm512_cvtepi32_epi8(whole_a));
  _mm_storeu_si128((__m128i *)(void *)(four + 4), _mm512_cvtepi32_epi8(whole_b));
  for (int j = 0; j < FOURS; j++) to->four[j][r] = four[j];
  to->scale[r] = most / 127;
  to->sum[r] = most / 127 * (float)(left + right);
  to->start[0][r] = -zero * (halves ? left : left + right);
  to->start[1][r] = -zero * right;
}

void KERNEL(quantise_many)(const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype,
                           void *quantised) {
  int zero = ch_quantised_zero(weight_dtype);
  FOR_RANGE(rows, rows * n >= CH_PARALLEL_ELEMENTS, {
    for (int64_t r = first; r < last; r++)
      for (int64_t g = 0; g < n / GROUP; g++)
        round_group((const float *)x + r * n + g * GROUP, zero, weight_dtype == CH_Q6_K,
                    groups_of(quantised, n, r) + g, r % MOST_ROWS);
  });
}

/* --- panels --------------------------------------------------------------------------------------------- */

/* Loads 16 bytes of each of 16 rows as four vectors, each with four bytes of every row. */
ALWAYS_INLINE void gather_bytes(const unsigned char *w, size_t row_bytes, __m512i fours[4]) {
  __m512i rows[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) { /* rows i, 4 + i, 8 + i and 12 + i */
    const unsigned char *row = w + (size_t)i * row_bytes;
#define PART(k) _mm_loadu_si128((const __m128i *)(const void *)(row + 4 * (size_t)(k)*row_bytes))
    rows[i] = _mm512_castsi128_si512(PART(0));
    rows[i] = _mm512_inserti32x4(rows[i], PART(1), 1);
    rows[i] = _mm512_inserti32x4(rows[i], PART(2), 2);
    rows[i] = _mm512_inserti32x4(rows[i], PART(3), 3);
#undef PART
  }
  __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]), b = _mm512_unpacklo_epi32(rows[2], rows[3]);
  __m512i c = _mm512_unpackhi_epi32(rows[0], rows[1]), d = _mm512_unpackhi_epi32(rows[2], rows[3]);
  fours[0] = _mm512_unpacklo_epi64(a, b), fours[1] = _mm512_unpackhi_epi64(a, b);
  fours[2] = _mm512_unpacklo_epi64(c, d), fours[3] = _mm512_unpackhi_epi64(c, d);
}

/* Loads the F16 at `w` and at the same place in the next 15 rows. */
ALWAYS_INLINE __m512 gather_halves(const unsigned char *w, size_t row_bytes) {
  short half[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) memcpy(&half[i], w + (size_t)i * row_bytes, sizeof *half);
  return _mm512_cvtph_ps(_mm256_setr_epi16(half[0], half[1], half[2], half[3], half[4], half[5], half[6],
                                           half[7], half[8], half[9], half[10], half[11], half[12], half[13],
                                           half[14], half[15]));
}

ALWAYS_INLINE __m512i low_bits(__m512i v) {
  return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

ALWAYS_INLINE __m512i high_bits(__m512i v) {
  return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
}

static void unpack_q8_0(const unsigned char *w, size_t row_bytes, int64_t groups, panel *p) {
  for (int64_t g = 0; g < groups; g++, w += 34) {
    __m512i *to = p->values + g * FOURS;
    gather_bytes(w + 2, row_bytes, to);
    gather_bytes(w + 18, row_bytes, to + 4);
#pragma GCC unroll 8
    for (int j = 0; j < FOURS; j++) to[j] = _mm512_xor_si512(to[j], _mm512_set1_epi8((char)0x80));
    p->scales[g] = gather_halves(w, row_bytes);
  }
}

static void unpack_q4_0(const unsigned char *w, size_t row_bytes, int64_t groups, panel *p) {
  for (int64_t g = 0; g < groups; g++, w += 18) {
    __m512i *to = p->values + g * FOURS, bytes[4];
    gather_bytes(w + 2, row_bytes, bytes);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) to[j] = low_bits(bytes[j]), to[4 + j] = high_bits(bytes[j]);
    p->scales[g] = gather_halves(w, row_bytes);
  }
}

/* Returns byte `i` of each lane as a number. */
ALWAYS_INLINE __m512 byte_of(__m512i v, int i) {
  return _mm512_cvtepi32_ps(
      _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)(8 * i)), _mm512_set1_epi32(255)));
}

static void unpack_q4_k(const unsigned char *w, size_t row_bytes, int64_t groups, panel *p) {
  const __m512i six = _mm512_set1_epi8(63), four = _mm512_set1_epi8(15), two = _mm512_set1_epi8(0x30);
  for (int64_t first = 0; first < groups; first += SUPER / GROUP, w += 144) {
    /* head: two F16, then 12 bytes of scales and minima (quantised_blocks.h) */
    __m512i head[4], bytes[FOURS];
    gather_bytes(w, row_bytes, head);
    __m512 d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(head[0])),
           least = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(head[0], 16)));
    const __m512i scales[2] = {_mm512_and_si512(head[1], six),
                               _mm512_or_si512(_mm512_and_si512(head[3], four),
                                               _mm512_and_si512(_mm512_srli_epi16(head[1], 2), two))};
    const __m512i minima[2] = {_mm512_and_si512(head[2], six),
                               _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(head[3], 4), four),
                                               _mm512_and_si512(_mm512_srli_epi16(head[2], 2), two))};
    for (int g = 0; g < SUPER / GROUP; g++) {
      p->scales[first + g] = _mm512_mul_ps(d, byte_of(scales[g / 4], g % 4));
      p->least[first + g] = _mm512_mul_ps(least, byte_of(minima[g / 4], g % 4));
    }
    for (int g = 0; g < SUPER / GROUP; g += 2) {
      __m512i *to = p->values + (first + g) * FOURS;
      gather_bytes(w + 16 + 16 * g, row_bytes, bytes);
      gather_bytes(w + 32 + 16 * g, row_bytes, bytes + 4);
      for (int j = 0; j < FOURS; j++) to[j] = low_bits(bytes[j]), to[FOURS + j] = high_bits(bytes[j]);
    }
  }
}

static void unpack_q6_k(const unsigned char *w, size_t row_bytes, int64_t groups, panel *p) {
  const __m512i two = _mm512_set1_epi8(0x30);
  for (int64_t first = 0; first < groups; first += SUPER / GROUP, w += 210) {
    __m512i bytes[4], low[2 * FOURS], high[FOURS];
    __m512 d = gather_halves(w + 208, row_bytes);
    gather_bytes(w + 192, row_bytes, bytes);
    for (int g = 0; g < 16; g++) {
      __m512i byte = _mm512_srai_epi32(_mm512_slli_epi32(bytes[g / 4], (unsigned)(24 - g % 4 * 8)), 24);
      p->scales[2 * first + g] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(byte));
    }
    for (int half = 0; half < 2; half++) {
      for (int i = 0; i < 4; i++) gather_bytes(w + 64 * half + 16 * i, row_bytes, low + 4 * i);
      for (int i = 0; i < 2; i++) gather_bytes(w + 128 + 32 * half + 16 * i, row_bytes, high + 4 * i);
      __m512i *to = p->values + (first + 4 * half) * FOURS;
      for (int j = 0; j < FOURS; j++) {
        to[j] = _mm512_or_si512(low_bits(low[j]), _mm512_and_si512(_mm512_slli_epi16(high[j], 4), two));
        to[FOURS + j] =
            _mm512_or_si512(low_bits(low[FOURS + j]), _mm512_and_si512(_mm512_slli_epi16(high[j], 2), two));
        to[2 * FOURS + j] = _mm512_or_si512(high_bits(low[j]), _mm512_and_si512(high[j], two));
        to[3 * FOURS + j] =
            _mm512_or_si512(high_bits(low[FOURS + j]), _mm512_and_si512(_mm512_srli_epi16(high[j], 2), two));
      }
    }
  }
}

static void unpack(ch_dtype dtype, const unsigned char *w, size_t row_bytes, int64_t groups, panel *p) {
  switch (dtype) {
  case CH_Q8_0:
    unpack_q8_0(w, row_bytes, groups, p);
    break;
  case CH_Q4_0:
    unpack_q4_0(w, row_bytes, groups, p);
    break;
  case CH_Q4_K:
    unpack_q4_k(w, row_bytes, groups, p);
    break;
  default:
    unpack_q6_k(w, row_bytes, groups, p);
    break;
  }
}

/* --- products ------------------------------------------------------------------------------------------- */

/* The weights to prefetch while a panel is multiplied: `bytes` bytes of each of 16 rows from `at` on, one line
   of each row at a time. */
typedef struct coming {
  const unsigned char *at;
  size_t row_bytes;
  int64_t bytes, prefetched;
} coming;

ALWAYS_INLINE void ask_until(coming *next, int64_t bytes) {
  for (; next->prefetched < bytes && next->prefetched < next->bytes; next->prefetched += 64)
    for (int i = 0; i < LANES; i++)
      __builtin_prefetch(next->at + (size_t)i * next->row_bytes + next->prefetched, 0, 2);
}

/* sum += the products of a vector of weights with four values of x, which are the same for all lanes. Without
   assembly, compilers load the four values into a register first and copy the sum. */
ALWAYS_INLINE void add_four(__m512i *sum, __m512i weights, const int32_t *four) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(*sum) : "v"(weights), "m"(*four));
}

/* sum[r] = start[r] + the products of vectors first ... last - 1 of the group. If `start` is NULL, the sums begin
   at 0. */
ALWAYS_INLINE void add_fours(const int rows, const int first, const int last, const __m512i *values,
                             const group_of_rows *x, const int32_t *start, __m512i sum[MOST_ROWS]) {
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) sum[r] = start ? _mm512_set1_epi32(start[r]) : _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int j = first; j < last; j++) {
    __m512i weights = values[j];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) add_four(&sum[r], weights, &x->four[j][r]);
  }
}

/* sum[r] += products[r] times the scales of the weights and of x. */
ALWAYS_INLINE void add_scaled(const int rows, const __m512i *products, __m512 scale, const group_of_rows *x,
                              __m512 sum[MOST_ROWS]) {
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
    sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[r]),
                             _mm512_mul_ps(scale, _mm512_set1_ps(x->scale[r])), sum[r]);
}

/* Multiplies `rows` rows of x with a panel, for `groups` groups. */
ALWAYS_INLINE void multiply(const int rows, ch_dtype dtype, const panel *p, const group_of_rows *x,
                            int64_t groups, coming *next, __m512 sum[MOST_ROWS]) {
  const int64_t group_bytes = dtype == CH_Q8_0 ? 34 : dtype == CH_Q6_K ? 27 : 18;
  for (int64_t g = 0; g < groups; g++, x++) {
    const __m512i *values = p->values + g * FOURS;
    __m512i products[MOST_ROWS];
    ask_until(next, (g + 1) * group_bytes);
    if (dtype == CH_Q6_K) {
      add_fours(rows, 0, 4, values, x, x->start[0], products);
      add_scaled(rows, products, p->scales[2 * g], x, sum);
      add_fours(rows, 4, 8, values, x, x->start[1], products);
      add_scaled(rows, products, p->scales[2 * g + 1], x, sum);
    } else {
      add_fours(rows, 0, 8, values, x, dtype == CH_Q4_K ? NULL : x->start[0], products);
      add_scaled(rows, products, p->scales[g], x, sum);
    }
    if (dtype == CH_Q4_K)
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
        sum[r] = _mm512_fnmadd_ps(p->least[g], _mm512_set1_ps(x->sum[r]), sum[r]);
  }
}

typedef struct blocks_call {
  int64_t rows, in, out;
  const void *quantised;
  const unsigned char *weight;
  size_t row_bytes;
  const float *bias;
  float *y;
  bool accumulate;
} blocks_call;

/* Multiplies rows r … r+rows-1 of x with the panel of weight rows from o on, for values `from` to `to` - 1, into
   y. */
ALWAYS_INLINE void multiply_rows(const blocks_call *c, const int rows, ch_dtype dtype, const panel *p,
                                 int64_t r, int64_t o, int64_t from, int64_t to, coming *next) {
  const group_of_rows *x = groups_of(c->quantised, c->in, r) + from / GROUP;
  __m512 sum[MOST_ROWS];
  const __mmask16 there = (__mmask16)(c->out - o < LANES ? (1 << (c->out - o)) - 1 : 0xffff);
  __m512 begin = from == 0 && c->bias ? _mm512_maskz_loadu_ps(there, c->bias + o) : _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) sum[i] = begin;
  multiply(rows, dtype, p, x, (to - from) / GROUP, next, sum);
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) {
    float *y = c->y + (r + i) * c->out + o;
    if (from > 0 || c->accumulate) sum[i] = _mm512_add_ps(sum[i], _mm512_maskz_loadu_ps(there, y));
    _mm512_mask_storeu_ps(y, there, sum[i]);
  }
}

ALWAYS_INLINE void multiply_some(const blocks_call *c, int64_t rows, ch_dtype dtype, const panel *p,
                                 int64_t r, int64_t o, int64_t from, int64_t to, coming *next) {
  switch (rows) {
#define CASE(n)                                                                                              \
  case n:                                                                                                    \
    multiply_rows(c, n, dtype, p, r, o, from, to, next);                                                     \
    break
    CASE(1);
    CASE(2);
    CASE(3);
    CASE(4);
    CASE(5);
    CASE(6);
    CASE(7);
#undef CASE
  default:
    multiply_rows(c, 8, dtype, p, r, o, from, to, next);
    break;
  }
}

/* Multiplies all rows of x with the panel of weight rows from o on. After the last row of a matrix, a panel is
   filled up with copies of row o. */
ALWAYS_INLINE void multiply_panel(const blocks_call *c, ch_dtype dtype, int64_t o, panel *p) {
  _Alignas(64) unsigned char copy[LANES * 1088]; /* 1024 values of Q8_0, the widest type */
  for (int64_t from = 0; from < c->in; from += DEPTH) {
    int64_t to = c->in - from < DEPTH ? c->in : from + DEPTH;
    const unsigned char *w = c->weight + (size_t)o * c->row_bytes + ch_dtype_bytes(dtype, from);
    size_t row_bytes = c->row_bytes, bytes = ch_dtype_bytes(dtype, to - from);
    coming next = {w + LANES * row_bytes, row_bytes, c->out - o > 2 * LANES ? (int64_t)bytes : 0, 0};
    if (c->out - o < LANES) {
      for (int i = 0; i < LANES; i++)
        memcpy(copy + (size_t)i * bytes, w + (o + i < c->out ? (size_t)i * row_bytes : 0), bytes);
      w = copy, row_bytes = bytes;
    }
    unpack(dtype, w, row_bytes, (to - from) / GROUP, p);
    for (int64_t r = 0; r < c->rows; r += MOST_ROWS)
      multiply_some(c, c->rows - r, dtype, p, r, o, from, to, &next);
  }
}

/* Computes panels first ... last - 1, numbered through the products. */
static void multiply_range(const blocks_call *call, ch_dtype dtype, const ch_product *products, int64_t first,
                           int64_t last) {
  panel p;
  for (product_part part; take_part(products, LANES, &first, last, &part);) {
    blocks_call c = *call;
    c.out = part.product->out, c.weight = part.product->weight, c.bias = part.product->bias;
    c.y = part.product->y;
    for (int64_t o = part.first * LANES; o < part.last * LANES && o < c.out; o += LANES) {
      if (dtype == CH_Q8_0)
        multiply_panel(&c, CH_Q8_0, o, &p);
      else if (dtype == CH_Q4_0)
        multiply_panel(&c, CH_Q4_0, o, &p);
      else if (dtype == CH_Q4_K)
        multiply_panel(&c, CH_Q4_K, o, &p);
      else
        multiply_panel(&c, CH_Q6_K, o, &p);
    }
  }
}

void KERNEL(gemm_blocks)(const ch_team *team, int64_t rows, int64_t in, const void *quantised,
                         ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate) {
  const blocks_call call = {.rows = rows,
                            .in = in,
                            .quantised = quantised,
                            .row_bytes = ch_dtype_bytes(weight_dtype, in),
                            .accumulate = accumulate};
  FOR_RANGE(units_of_products(count, products, LANES), share_products(rows, in, count, products),
            { multiply_range(&call, weight_dtype, products, first, last); });
}

#endif
