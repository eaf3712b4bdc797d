/* Skinny GEMM with block-quantised weights by VNNI, which adds 64 products per instruction: y = x W^T with x
 * as small integers, at memory speed.
 *
 * An instruction multiplies unsigned bytes (weights + zero) with signed ones (x) and adds four neighbouring
 * products into each of 16 lanes. Weights are taken in the order in which they come out of their blocks with
 * the least work, and x is laid out in that order (place_of). The lanes' sums are then multiplied with whole
 * vectors: the scales of the weights times those of x. */
#include "tensor/kernels/vector/prefetch.h"
#include "tensor/kernels/vector/quantised_blocks.h"
#include "tensor/kernels/products/gemm_blocks.h"
#include "tensor/kernels/products/products.h"
#include "tensor/quantised.h"

#ifdef __AVX512VNNI__

enum {
  MOST_ROWS = 2,         /* rows of x that share a pass over the weights; gemm_blocks_vnni.c handles more */
  MOST_OUTS = 4,         /* rows of weights that share a pass over x */
  MOST_SUMS = 4,         /* maximum number of sums at once: rows of x times rows of weights */
  PREFETCH_BYTES = 8192, /* minimum prefetch distance of weights */
  BACK_BYTES = 6144,     /* distance between the prefetches into L2 and into L1, with two-step prefetch */
  PIECE = 16             /* values of a piece of x */
};

typedef struct blocks_call {
  int64_t in, out;
  const char *weight;
  size_t row_bytes;
  const float *bias;
  float *y;
  bool accumulate;
} blocks_call;

/* --- x -------------------------------------------------------------------------------------------------- */

/* A row of x in the order of its weights' vectors. */
typedef struct lanes_row {
  int8_t *q;      /* values as integers */
  int32_t *start; /* initial value of each lane's sum: -zero times the sum of the lane's values */
  float *scale;   /* Q8_0, Q4_0: scale of each lane. Q4_K: of each group of 32. Q6_K: of each 16 values */
  float *sum;     /* Q4_K: scale times the sum of each group's values */
} lanes_row;

static lanes_row lanes_of(const void *rows, int64_t n, int64_t r) {
  ch_quantised_row row = ch_quantised_row_of((void *)(uintptr_t)rows, n, r);
  return (lanes_row){row.q, row.start, row.scale, row.sum};
}

/* Returns the new place of a piece of 16 values. Eight pieces (Q4_0) or 16 pieces (other types) are reordered
   together. Q8_0: the order does not change. Q4_0: the first halves of four blocks, which are the low four
   bits of one vector, then their second halves. Q4_K: groups 0 and 2, the low bits of a vector, then 1 and 3,
   its high bits. Q6_K: group g of the first half, then group g of the second, because one shift of the vector
   with the upper two bits serves both. */
static inline int place_of(ch_dtype dtype, int piece) {
  int group = piece / 2, half = piece % 2;
  if (dtype == CH_Q4_0) return half * 4 + group;
  if (dtype == CH_Q4_K) return group / 4 * 8 + group % 2 * 4 + group % 4 / 2 * 2 + half;
  if (dtype == CH_Q6_K) return group % 4 * 4 + group / 4 * 2 + half;
  return piece;
}

/* Rounds 32 values of x to integers and writes the initial sums of every four (-zero times their sum). Sets
   *total to the sum of all integers. Returns the scale. */
static inline float round_group(const float *x, int zero, int8_t q[GROUP], int32_t start[GROUP / 4],
                                int32_t *total) {
  __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
  float most = largest_of_group(a, b);
  __m512 inverse = _mm512_set1_ps(most > 0 ? 127 / most : 0);
  __m256i bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, inverse))),
                                   _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, inverse))));
  __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), bytes);
  __m128i pairs = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
  pairs = _mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0x4e));
  *total = _mm_cvtsi128_si32(pairs) + _mm_extract_epi32(pairs, 1);
  _mm256_storeu_si256((__m256i *)(void *)q, bytes);
  _mm256_storeu_si256((__m256i *)(void *)start, _mm256_mullo_epi32(fours, _mm256_set1_epi32(-zero)));
  return most / 127;
}

/* Rounds group `g` of 32 values and stores it in the order of `dtype`. */
static inline void place_group(ch_dtype dtype, int zero, const float *x, int64_t g, const lanes_row *row) {
  _Alignas(32) int8_t q[GROUP];
  _Alignas(32) int32_t start[GROUP / 4];
  int32_t total;
  float scale = round_group(x, zero, q, start, &total);
  const int64_t pieces = dtype == CH_Q4_0 ? 8 : SUPER / PIECE;
  for (int h = 0; h < 2; h++) {
    int64_t piece = 2 * g + h, to = piece / pieces * pieces + place_of(dtype, (int)(piece % pieces));
    memcpy(row->q + to * PIECE, q + h * PIECE, PIECE);
    if (dtype == CH_Q8_0 || dtype == CH_Q6_K)
      memcpy(row->start + to * PIECE / 4, start + h * PIECE / 4, sizeof *start * PIECE / 4);
  }
  if (dtype == CH_Q4_0) {
    for (int i = 0; i < 4; i++) row->start[4 * g + i] = start[i] + start[4 + i];
    _mm_storeu_ps(row->scale + 4 * g, _mm_set1_ps(scale));
  } else if (dtype == CH_Q8_0) {
    _mm256_storeu_ps(row->scale + 8 * g, _mm256_set1_ps(scale));
  } else if (dtype == CH_Q6_K) {
    row->scale[2 * g] = row->scale[2 * g + 1] = scale;
  } else {
    row->scale[g] = scale;
    row->sum[g] = scale * (float)total;
  }
}

static void round_row(const float *x, int64_t n, ch_dtype dtype, const lanes_row *row) {
  const float zeros[GROUP] = {0};
  const int zero = ch_quantised_zero(dtype);
  int64_t groups = n / GROUP, whole = dtype == CH_Q4_0 ? (groups + 3) / 4 * 4 : (groups + 1) / 2 * 2;
  for (int64_t g = 0; g < whole; g++) place_group(dtype, zero, g < groups ? x + g * GROUP : zeros, g, row);
}

void KERNEL(quantise_rows)(const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype,
                           void *quantised) {
  if (rows > MOST_ROWS) {
    KERNEL(quantise_many)(team, rows, n, x, weight_dtype, quantised);
    return;
  }
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS, {
    for (int64_t r = first; r < last; r++) {
      const lanes_row row = lanes_of(quantised, n, r);
      round_row((const float *)x + r * n, n, weight_dtype, &row);
    }
  });
}

/* --- weights -------------------------------------------------------------------------------------------- */

/* Permutations that extract values and scales from bytes. They are constant during a call. */
typedef struct unpacking {
  __m512i scales, values; /* Q8_0, Q4_0: indices of bytes, counted from the first block's scale */
  __m512i groups[4];      /* Q4_K, Q6_K: index of the superblock's scale for each lane of a vector */
} unpacking;

#define FOUR(x) x, x, x, x

static inline unpacking unpacking_of(ch_dtype dtype) {
  /* The bytes of an F16 scale, repeated for every lane that it multiplies. Only the first 32 entries are
     read. */
#define TWICE(a) a, (a) + 1, a, (a) + 1, a, (a) + 1, a, (a) + 1
  static const unsigned char scales_q8_0[64] = {TWICE(0), TWICE(0), TWICE(34), TWICE(34)},
                             scales_q4_0[64] = {TWICE(0), TWICE(18), TWICE(36), TWICE(54)};
#undef TWICE
#define EIGHT(a) a, (a) + 1, (a) + 2, (a) + 3, (a) + 4, (a) + 5, (a) + 6, (a) + 7
  /* Indices from 64 on are bytes of the second vector. */
  static const unsigned char values_q8_0[64] = {EIGHT(2),  EIGHT(10), EIGHT(18), EIGHT(26),
                                                EIGHT(36), EIGHT(44), EIGHT(52), EIGHT(60)},
                             values_q4_0[64] = {EIGHT(2),  EIGHT(10), EIGHT(20), EIGHT(28),
                                                EIGHT(38), EIGHT(46), EIGHT(56), EIGHT(64)};
#undef EIGHT
#define LANES(a, b, c, d)                                                                                    \
  { FOUR(a), FOUR(b), FOUR(c), FOUR(d) }
  static const int32_t groups_q4_k[4][16] = {LANES(0, 0, 2, 2), LANES(1, 1, 3, 3), LANES(4, 4, 6, 6),
                                             LANES(5, 5, 7, 7)},
                       groups_q6_k[4][16] = {LANES(0, 1, 8, 9), LANES(2, 3, 10, 11), LANES(4, 5, 12, 13),
                                             LANES(6, 7, 14, 15)};
#undef LANES
  const int32_t(*groups)[16] = dtype == CH_Q6_K ? groups_q6_k : groups_q4_k;
  unpacking u;
  u.scales = _mm512_loadu_si512(dtype == CH_Q8_0 ? scales_q8_0 : scales_q4_0);
  u.values = _mm512_loadu_si512(dtype == CH_Q8_0 ? values_q8_0 : values_q4_0);
  for (int v = 0; v < 4; v++) u.groups[v] = _mm512_loadu_si512(groups[v]);
  return u;
}

/* Replaces _mm_loadu_si32, which puts the bytes at the wrong end in the headers of GCC 11.2. */
ALWAYS_INLINE __m128i load_four_bytes(const unsigned char *p) {
  int32_t bytes;
  memcpy(&bytes, p, sizeof bytes);
  return _mm_cvtsi32_si128(bytes);
}

/* Returns `start` plus the sums of 64 products. */
ALWAYS_INLINE __m512i products(__m512i w, const int8_t *x, __m512i start) {
  return _mm512_dpbusd_epi32(start, w, _mm512_load_si512(x));
}

/* The sums of one row of x with one row of weights. Two sums alternate, because an addition has a latency of
   several cycles. */
typedef struct sums {
  __m512 part[2];
  __m256 minima;
} sums;

/* Adds the products of two blocks of Q8_0 (64 values) or four of Q4_0 (128). Loads are the bottleneck,
   because most 64-byte loads straddle two cache lines. */
ALWAYS_INLINE void add_blocks(const int rows, const int outs, ch_dtype dtype, const unpacking *u,
                              const unsigned char *w, size_t row_bytes, const lanes_row *x, int64_t at,
                              const int part, sums *sum) {
  const __m512i low = _mm512_set1_epi8(15);
  const int64_t lane = dtype == CH_Q8_0 ? at / 4 : at / 8;
  __m512i first[MOST_OUTS], second[MOST_OUTS];
  __m512 scales[MOST_OUTS];
#pragma GCC unroll 4
  for (int o = 0; o < outs; o++, w += row_bytes) {
    __m512i head = _mm512_loadu_si512(w);
    KEEP_LOADED(head);
    __m128i rest = dtype == CH_Q8_0 ? load_four_bytes(w + 64) : _mm_loadu_si64(w + 64);
    __m512i q = _mm512_permutex2var_epi8(head, u->values, _mm512_castsi128_si512(rest));
    first[o] =
        dtype == CH_Q8_0 ? _mm512_xor_si512(q, _mm512_set1_epi8((char)0x80)) : _mm512_and_si512(q, low);
    second[o] = _mm512_and_si512(_mm512_srli_epi16(q, 4), low);
    scales[o] = _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi8(u->scales, head)));
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    __m512i start = _mm512_load_si512(x[r].start + lane);
    __m512 scale = _mm512_load_ps(x[r].scale + lane);
#pragma GCC unroll 4
    for (int o = 0; o < outs; o++) {
      __m512i p = products(first[o], x[r].q + at, start);
      if (dtype == CH_Q4_0) p = products(second[o], x[r].q + at + 64, p);
      __m512 *to = &sum[r * outs + o].part[part];
      *to = _mm512_fmadd_ps(_mm512_cvtepi32_ps(p), _mm512_mul_ps(scales[o], scale), *to);
    }
  }
}

/* Adds the products of a superblock's four vectors. Lane g of scales[r] is the scale of the superblock's group g
   times the scale of that group in row r of x. */
ALWAYS_INLINE void add_vectors(const int rows, const int outs, const unpacking *u, const __m512i q[4],
                               const __m512 *scales, const lanes_row *x, int64_t at, bool starts, const int o,
                               sums *sum) {
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++)
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
      int64_t from = at + 64 * v;
      __m512i start = starts ? _mm512_load_si512(x[r].start + from / 4) : _mm512_setzero_si512();
      __m512 p = _mm512_cvtepi32_ps(products(q[v], x[r].q + from, start));
      __m512 *to = &sum[r * outs + o].part[v % 2];
      *to = _mm512_fmadd_ps(p, _mm512_permutexvar_ps(u->groups[v], scales[r]), *to);
    }
}

static inline __m256 bytes_to_floats(uint64_t bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)bytes)));
}

ALWAYS_INLINE void add_q4_k(const int rows, const int outs, const unpacking *u, const unsigned char *w,
                            const lanes_row *x, int64_t at, const int o, sums *sum) {
  const __m512i low = _mm512_set1_epi8(15);
  uint64_t packed_scales, packed_minima;
  scales_of_q4_k(w + 4, &packed_scales, &packed_minima);
  __m128 both = _mm_cvtph_ps(load_four_bytes(w));
  __m256 scale = _mm256_mul_ps(bytes_to_floats(packed_scales), _mm256_broadcastss_ps(both));
  __m256 least = _mm256_mul_ps(bytes_to_floats(packed_minima), _mm256_broadcastss_ps(_mm_movehdup_ps(both)));
  __m512i a = _mm512_loadu_si512(w + 16), b = _mm512_loadu_si512(w + 80);
  KEEP_LOADED(a);
  KEEP_LOADED(b);
  const __m512i q[4] = {_mm512_and_si512(a, low), _mm512_and_si512(_mm512_srli_epi16(a, 4), low),
                        _mm512_and_si512(b, low), _mm512_and_si512(_mm512_srli_epi16(b, 4), low)};
  __m512 scales[MOST_ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    __m256 *minima = &sum[r * outs + o].minima;
    scales[r] = _mm512_castps256_ps512(_mm256_mul_ps(scale, _mm256_loadu_ps(x[r].scale + at / GROUP)));
    *minima = _mm256_fmadd_ps(least, _mm256_loadu_ps(x[r].sum + at / GROUP), *minima);
  }
  add_vectors(rows, outs, u, q, scales, x, at, false, o, sum);
}

/* Returns (low & 15) | (high & 0x30). */
ALWAYS_INLINE __m512i joined(__m512i low, __m512i high) {
  return _mm512_ternarylogic_epi32(_mm512_and_si512(low, _mm512_set1_epi8(15)), high, _mm512_set1_epi8(0x30),
                                   0xf8);
}

ALWAYS_INLINE void add_q6_k(const int rows, const int outs, const unpacking *u, const unsigned char *w,
                            const lanes_row *x, int64_t at, const int o, sums *sum) {
  __m512i a = _mm512_loadu_si512(w), b = _mm512_loadu_si512(w + 64), two = _mm512_loadu_si512(w + 128);
  KEEP_LOADED(a);
  KEEP_LOADED(b);
  KEEP_LOADED(two);
  __m512i even = _mm512_shuffle_i64x2(a, b, 0x44), odd = _mm512_shuffle_i64x2(a, b, 0xee);
  const __m512i q[4] = {joined(even, _mm512_slli_epi16(two, 4)), joined(odd, _mm512_slli_epi16(two, 2)),
                        joined(_mm512_srli_epi16(even, 4), two),
                        joined(_mm512_srli_epi16(odd, 4), _mm512_srli_epi16(two, 2))};
  __m512i bytes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(w + 192)));
  uint16_t d;
  memcpy(&d, w + 208, sizeof d);
  __m512 scale =
      _mm512_mul_ps(_mm512_cvtepi32_ps(bytes), _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(d))));
  __m512 scales[MOST_ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) scales[r] = _mm512_mul_ps(scale, _mm512_loadu_ps(x[r].scale + at / 16));
  add_vectors(rows, outs, u, q, scales, x, at, true, o, sum);
}

/* --- products ------------------------------------------------------------------------------------------- */

ALWAYS_INLINE void prefetch_head(const unsigned char *w, int bytes) {
#pragma GCC unroll 4
  for (int line = 0; line < bytes; line += 64) prefetch_line(w + line, BACK_BYTES, false);
}

ALWAYS_INLINE void dot_small_blocks(const int rows, const int outs, ch_dtype dtype, const unpacking *u,
                                    const unsigned char *w, size_t row_bytes, size_t ahead, int64_t in,
                                    const lanes_row *x, sums *sum) {
  const int64_t values = dtype == CH_Q8_0 ? 64 : 128;
  const int bytes = dtype == CH_Q8_0 ? 68 : 72, block = bytes * GROUP / (int)values;
  int64_t at = 0;
  for (; at + 2 * values <= in; at += 2 * values, w += 2 * bytes) {
#pragma GCC unroll 4
    for (int o = 0; o < outs; o++) prefetch_head(w + ahead + (size_t)o * row_bytes, 2 * bytes);
    add_blocks(rows, outs, dtype, u, w, row_bytes, x, at, 0, sum);
    add_blocks(rows, outs, dtype, u, w + bytes, row_bytes, x, at + values, 1, sum);
  }
  for (; at + values <= in; at += values, w += bytes)
    add_blocks(rows, outs, dtype, u, w, row_bytes, x, at, 0, sum);
  if (at == in) return;
  /* The last blocks are copied and padded with zeros, so that nothing past the row is read. */
  unsigned char padded[MOST_OUTS][72] = {0};
  for (int o = 0; o < outs; o++)
    memcpy(padded[o], w + (size_t)o * row_bytes, (size_t)(in - at) / GROUP * (size_t)block);
  add_blocks(rows, outs, dtype, u, padded[0], sizeof *padded, x, at, 0, sum);
}

ALWAYS_INLINE void dot_superblocks(const int rows, const int outs, ch_dtype dtype, const unpacking *u,
                                   const unsigned char *w, size_t row_bytes, size_t ahead, int64_t in,
                                   const lanes_row *x, sums *sum) {
  const int bytes = dtype == CH_Q4_K ? 144 : 210;
  for (int64_t at = 0; at < in; at += SUPER, w += bytes)
#pragma GCC unroll 4
    for (int o = 0; o < outs; o++) {
      const unsigned char *block = w + (size_t)o * row_bytes;
      prefetch_head(block + ahead, bytes);
      if (dtype == CH_Q4_K)
        add_q4_k(rows, outs, u, block, x, at, o, sum);
      else
        add_q6_k(rows, outs, u, block, x, at, o, sum);
    }
}

/* Multiplies weight rows *first … last-1, `outs` at a time, with `rows` rows of x. Moves *first past them;
   fewer than `outs` rows are left. */
ALWAYS_INLINE void dot_range(const blocks_call *c, const int rows, const int outs, ch_dtype dtype,
                             const lanes_row *x, int64_t *first, int64_t last) {
  const unpacking u = unpacking_of(dtype);
  /* The rows that follow are prefetched. Past the end of the matrix, a prefetch does no harm. */
  const size_t turn = (size_t)outs * c->row_bytes, ahead = turn * (1 + PREFETCH_BYTES / (turn + 1));
  for (; *first + outs <= last; *first += outs) {
    int64_t o = *first;
    const unsigned char *w = (const unsigned char *)c->weight + (size_t)o * c->row_bytes;
    sums sum[MOST_SUMS];
#pragma GCC unroll 8
    for (int i = 0; i < rows * outs; i++)
      sum[i] = (sums){{_mm512_setzero_ps(), _mm512_setzero_ps()}, _mm256_setzero_ps()};
    if (dtype == CH_Q8_0 || dtype == CH_Q4_0)
      dot_small_blocks(rows, outs, dtype, &u, w, c->row_bytes, ahead, c->in, x, sum);
    else
      dot_superblocks(rows, outs, dtype, &u, w, c->row_bytes, ahead, c->in, x, sum);
#pragma GCC unroll 8
    for (int i = 0; i < rows * outs; i++) {
      __m512 total = _mm512_add_ps(sum[i].part[0], sum[i].part[1]);
      if (dtype == CH_Q4_K) total = _mm512_sub_ps(total, _mm512_zextps256_ps512(sum[i].minima));
      float *y = c->y + i / outs * c->out + o + i % outs;
      *y = (c->accumulate ? *y : 0) + (_mm512_reduce_add_ps(total) + (c->bias ? c->bias[o + i % outs] : 0));
    }
  }
}

ALWAYS_INLINE void dot_rows_of(const blocks_call *c, int64_t rows, ch_dtype dtype, const lanes_row *x,
                               int64_t first, int64_t last) {
  if (rows == 1) {
    /* With two-step prefetch, several rows at a time are fastest. Without it, reading row after row in the order
       of memory is fastest, except for Q4_K: it has so much arithmetic that sharing x's part of it pays. */
    if (dtype == CH_Q4_K || PREFETCH_TWO_STEPS) dot_range(c, 1, MOST_OUTS, dtype, x, &first, last);
    dot_range(c, 1, 1, dtype, x, &first, last);
  } else {
    dot_range(c, 2, MOST_OUTS / 2, dtype, x, &first, last);
    dot_range(c, 2, 1, dtype, x, &first, last);
  }
}

static void dot_some(const blocks_call *c, int64_t rows, ch_dtype dtype, const lanes_row *x, int64_t first,
                     int64_t last) {
  if (dtype == CH_Q8_0)
    dot_rows_of(c, rows, CH_Q8_0, x, first, last);
  else if (dtype == CH_Q4_0)
    dot_rows_of(c, rows, CH_Q4_0, x, first, last);
  else if (dtype == CH_Q4_K)
    dot_rows_of(c, rows, CH_Q4_K, x, first, last);
  else
    dot_rows_of(c, rows, CH_Q6_K, x, first, last);
}

static void dot_products(const blocks_call *call, int64_t rows, ch_dtype dtype, const lanes_row *x,
                         const ch_product *products, int64_t first, int64_t last) {
  for (product_part part; take_part(products, 1, &first, last, &part);) {
    const ch_product *p = part.product;
    const blocks_call own = {call->in, p->out, p->weight, call->row_bytes, p->bias, p->y, call->accumulate};
    dot_some(&own, rows, dtype, x, part.first, part.last);
  }
}

void KERNEL(gemv_blocks)(const ch_team *team, int64_t rows, int64_t in, const void *quantised,
                         ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate) {
  if (rows > MOST_ROWS) {
    KERNEL(gemm_blocks)(team, rows, in, quantised, weight_dtype, count, products, accumulate);
    return;
  }
  const blocks_call call = {
      .in = in, .row_bytes = ch_dtype_bytes(weight_dtype, in), .accumulate = accumulate};
  lanes_row x[MOST_ROWS];
  for (int64_t r = 0; r < rows; r++) x[r] = lanes_of(quantised, in, r);
  FOR_RANGE(units_of_products(count, products, 1), share_products(rows, in, count, products),
            { dot_products(&call, rows, weight_dtype, x, products, first, last); });
}

#endif
