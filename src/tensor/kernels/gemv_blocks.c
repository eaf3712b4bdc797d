/* Few rows, as small integers (tensor/quantised.h), times a matrix in blocks: y = x W^T at the speed the weights can be
 * read. With VNNI, 64 products an instruction; elsewhere what the compiler makes of the sums. */
#include "tensor/kernels/blocks.h"
#include "tensor/quantised.h"

enum { MOST_ROWS = 4, BLOCK_BYTES = 1 << 18 }; /* as in gemv.c */

typedef struct blocks_call {
  int64_t in, out;
  const char *weight;
  size_t row_bytes;
  const real *bias;
  real *y;
  bool accumulate;
} blocks_call;

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__) && !defined(CH_KERNEL_F64)

enum { PREFETCH_BYTES = 4096 };

/* What turns 64 bytes of packed values into 64 values, and picks scales out of them; constants of a call. */
typedef struct unpacking {
  __m512i scales, nibbles, shifts, ones, high_left, high_right;
} unpacking;

/* Bytes of the two blocks of `bytes` at the head of 64: their F16 scales, eight times each. */
static __m512i pairs_of_scales(int bytes) {
  unsigned char at[64] = {0};
  for (int i = 0; i < 32; i++) at[i] = (unsigned char)(i / 16 * bytes + i % 2);
  return _mm512_loadu_si512(at);
}

static unpacking unpacking_of(ch_dtype dtype) {
  unpacking u = {.scales = pairs_of_scales(dtype == CH_Q8_0 ? 34 : 18)};
  unsigned char at[64];
  for (int i = 0; i < 64; i++) at[i] = (unsigned char)(i / 32 * 18 + 2 + i % 16);
  u.nibbles = _mm512_loadu_si512(at);
  uint16_t shift[32];
  for (int i = 0; i < 32; i++) shift[i] = dtype == CH_Q4_0 ? i / 8 % 2 * 4 : i / 16 * 4;
  u.shifts = _mm512_loadu_si512(shift);
  for (int i = 0; i < 32; i++) shift[i] = i < 16 ? 4 : 2;
  u.high_left = _mm512_loadu_si512(shift);
  for (int i = 0; i < 32; i++) shift[i] = i < 16 ? 0 : 2;
  u.high_right = _mm512_loadu_si512(shift);
  return u;
}

/* sum[r] += scales times the products of 64 weights w with x of every row, from value `at` on. */
ALWAYS_INLINE void add_products(const int rows, __m512i w, __m512 scales, const ch_quantised_row *x,
                                int64_t at, bool starts, __m512 sum[MOST_ROWS]) {
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    __m512i start = starts ? _mm512_load_si512(x[r].start + at / 4) : _mm512_setzero_si512();
    __m512i products = _mm512_dpbusd_epi32(start, w, _mm512_load_si512(x[r].q + at));
    __m512 scale = _mm512_mul_ps(scales, _mm512_load_ps(x[r].scale + at / 4));
    sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, sum[r]);
  }
}

/* Two blocks of Q8_0 or Q4_0. */
ALWAYS_INLINE void add_two(const int rows, ch_dtype dtype, const unpacking *u, const unsigned char *w,
                           const ch_quantised_row *x, int64_t at, __m512 sum[MOST_ROWS]) {
  __m512i head = _mm512_loadu_si512(w), q;
  if (dtype == CH_Q8_0) {
    q = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)(w + 2)));
    q = _mm512_inserti64x4(q, _mm256_loadu_si256((const __m256i *)(const void *)(w + 36)), 1);
    q = _mm512_xor_si512(q, _mm512_set1_epi8((char)0x80));
  } else {
    q = _mm512_srlv_epi16(_mm512_permutexvar_epi8(u->nibbles, head), u->shifts);
    q = _mm512_and_si512(q, _mm512_set1_epi8(15));
  }
  __m512 scales = _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi8(u->scales, head)));
  add_products(rows, q, scales, x, at, true, sum);
}

ALWAYS_INLINE void add_q4_k(const int rows, const unpacking *u, const unsigned char *w,
                            const ch_quantised_row *x, int64_t at, __m512 sum[MOST_ROWS],
                            __m256 minima[MOST_ROWS]) {
  uint64_t packed_scales, packed_minima;
  scales_of_q4_k(w + 4, &packed_scales, &packed_minima);
  __m256 scale = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)packed_scales)));
  __m256 least = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)packed_minima)));
  __m512 scales = _mm512_castps256_ps512(_mm256_mul_ps(scale, _mm256_set1_ps(half_at(w))));
  least = _mm256_mul_ps(least, _mm256_set1_ps(half_at(w + 2)));
  for (int r = 0; r < rows; r++)
    minima[r] = _mm256_fmadd_ps(least, _mm256_loadu_ps(x[r].sum + at / GROUP), minima[r]);
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; pair++) {
    __m512i q =
        _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(w + 16 + 32 * pair)));
    q = _mm512_and_si512(_mm512_srlv_epi16(q, u->shifts), _mm512_set1_epi8(15));
    __m512i lanes = _mm512_inserti64x4(_mm512_set1_epi32(2 * pair), _mm256_set1_epi32(2 * pair + 1), 1);
    add_products(rows, q, _mm512_permutexvar_ps(lanes, scales), x, at + 64 * pair, false, sum);
  }
}

ALWAYS_INLINE void add_q6_k(const int rows, const unpacking *u, const unsigned char *w,
                            const ch_quantised_row *x, int64_t at, __m512 sum[MOST_ROWS]) {
  const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi8(0x30);
  const __m512i quarters = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  __m512i bytes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(w + 192)));
  __m512 scales = _mm512_mul_ps(_mm512_cvtepi32_ps(bytes), _mm512_set1_ps(half_at(w + 208)));
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    __m512i four = _mm512_loadu_si512(w + 64 * half);
    __m512i two =
        _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)(w + 128 + 32 * half)));
    __m512i first = _mm512_or_si512(_mm512_and_si512(four, low),
                                    _mm512_and_si512(_mm512_sllv_epi16(two, u->high_left), high));
    __m512i second = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(four, 4), low),
                                     _mm512_and_si512(_mm512_srlv_epi16(two, u->high_right), high));
    __m512i lanes = _mm512_add_epi32(quarters, _mm512_set1_epi32(8 * half));
    add_products(rows, first, _mm512_permutexvar_ps(lanes, scales), x, at + 128 * half, true, sum);
    lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(4));
    add_products(rows, second, _mm512_permutexvar_ps(lanes, scales), x, at + 128 * half + 64, true, sum);
  }
}

/* The last block of a row of an odd number, with zeros behind it: nothing past the row is read. */
ALWAYS_INLINE void add_last(const int rows, ch_dtype dtype, const unpacking *u, const unsigned char *w,
                            const ch_quantised_row *x, int64_t at, __m512 sum[MOST_ROWS]) {
  unsigned char padded[128] = {0};
  _Alignas(64) int8_t q[MOST_ROWS][64];
  _Alignas(64) int32_t start[MOST_ROWS][16];
  _Alignas(64) float scale[MOST_ROWS][16];
  ch_quantised_row last[MOST_ROWS];
  memcpy(padded, w, dtype == CH_Q8_0 ? 34 : 18);
  memset(q, 0, sizeof q), memset(start, 0, sizeof start), memset(scale, 0, sizeof scale);
  for (int r = 0; r < rows; r++) {
    memcpy(q[r], x[r].q + at, GROUP);
    memcpy(start[r], x[r].start + at / 4, sizeof *start / 2);
    memcpy(scale[r], x[r].scale + at / 4, sizeof *scale / 2);
    last[r] = (ch_quantised_row){q[r], start[r], scale[r], NULL};
  }
  add_two(rows, dtype, u, padded, last, 0, sum);
}

/* The products of one row of weights with `rows` rows of x. */
ALWAYS_INLINE void dot_blocks(const int rows, ch_dtype dtype, const unpacking *u, const unsigned char *w,
                              int64_t in, const ch_quantised_row *x, bool last_row, float value[MOST_ROWS]) {
  __m512 sum[MOST_ROWS];
  __m256 minima[MOST_ROWS];
  for (int r = 0; r < rows; r++) sum[r] = _mm512_setzero_ps(), minima[r] = _mm256_setzero_ps();
  if (dtype == CH_Q8_0 || dtype == CH_Q4_0) {
    const size_t two = 2 * (dtype == CH_Q8_0 ? 34 : 18);
    /* Two blocks of Q4_0 are 36 bytes, of which 64 are loaded: not at the matrix's end. */
    int64_t at = 0, whole = in / 64 * 64 - (last_row && dtype == CH_Q4_0 ? 64 : 0);
    for (; at < whole; at += 64, w += two) {
      __builtin_prefetch(w + PREFETCH_BYTES);
      add_two(rows, dtype, u, w, x, at, sum);
    }
    for (; at < in; at += GROUP, w += two / 2) add_last(rows, dtype, u, w, x, at, sum);
  } else if (dtype == CH_Q4_K) {
    for (int64_t at = 0; at < in; at += SUPER, w += 144) {
      for (int line = 0; line < 144; line += 64) __builtin_prefetch(w + PREFETCH_BYTES + line);
      add_q4_k(rows, u, w, x, at, sum, minima);
    }
  } else {
    for (int64_t at = 0; at < in; at += SUPER, w += 210) {
      for (int line = 0; line < 210; line += 64) __builtin_prefetch(w + PREFETCH_BYTES + line);
      add_q6_k(rows, u, w, x, at, sum);
    }
  }
  for (int r = 0; r < rows; r++) {
    value[r] = _mm512_reduce_add_ps(sum[r]);
    if (dtype == CH_Q4_K) value[r] -= _mm512_reduce_add_ps(_mm512_zextps256_ps512(minima[r]));
  }
}

#else

typedef struct unpacking {
  ch_dtype dtype;
} unpacking;

static unpacking unpacking_of(ch_dtype dtype) {
  return (unpacking){dtype};
}

/* The sum of `count` products of small integers. */
static inline int32_t dot_integers(int count, const int8_t *restrict w, const int8_t *restrict x, int zero) {
  int32_t sum = 0;
  for (int i = 0; i < count; i++) sum += (int32_t)(int16_t)(w[i] - zero) * (int32_t)x[i];
  return sum;
}

ALWAYS_INLINE void dot_blocks(const int rows, ch_dtype dtype, const unpacking *u, const unsigned char *w,
                              int64_t in, const ch_quantised_row *x, bool last_row, float value[MOST_ROWS]) {
  (void)u, (void)last_row;
  const int64_t values = dtype == CH_Q8_0 || dtype == CH_Q4_0 ? GROUP : SUPER;
  const size_t bytes = dtype == CH_Q8_0 ? 34 : dtype == CH_Q4_0 ? 18 : dtype == CH_Q4_K ? 144 : 210;
  for (int r = 0; r < rows; r++) value[r] = 0;
  for (int64_t at = 0; at < in; at += values, w += bytes) {
    int8_t q[SUPER];
    integers_of(dtype, w, q);
    if (values == GROUP) {
      float d = half_at(w);
      for (int r = 0; r < rows; r++)
        value[r] +=
            d * x[r].scale[at / 4] * (float)dot_integers(GROUP, q, x[r].q + at, dtype == CH_Q4_0 ? 8 : 0);
    } else if (dtype == CH_Q4_K) {
      uint64_t scales, minima;
      float d = half_at(w), least = half_at(w + 2);
      scales_of_q4_k(w + 4, &scales, &minima);
      for (int g = 0; g < SUPER; g += GROUP, scales >>= 8, minima >>= 8)
        for (int r = 0; r < rows; r++)
          value[r] += d * (float)(scales & 63) * x[r].scale[(at + g) / 4] *
                          (float)dot_integers(GROUP, q + g, x[r].q + at + g, 0) -
                      least * (float)(minima & 63) * x[r].sum[(at + g) / GROUP];
    } else {
      float d = half_at(w + 208);
      for (int g = 0; g < SUPER; g += 16)
        for (int r = 0; r < rows; r++)
          value[r] += d * (float)(int8_t)w[192 + g / 16] * x[r].scale[(at + g) / 4] *
                      (float)dot_integers(16, q + g, x[r].q + at + g, 32);
    }
  }
}

#endif

/* Weight rows first … last-1 with `rows` rows of x from x_row on. */
ALWAYS_INLINE void dot_range(const blocks_call *c, const int rows, ch_dtype dtype, const ch_quantised_row *x,
                             int64_t x_row, int64_t first, int64_t last) {
  const unpacking u = unpacking_of(dtype);
  for (int64_t o = first; o < last; o++) {
    float value[MOST_ROWS];
    dot_blocks(rows, dtype, &u, (const unsigned char *)c->weight + (size_t)o * c->row_bytes, c->in, x,
               o + 1 == c->out, value);
    for (int r = 0; r < rows; r++) {
      real *y = c->y + (x_row + r) * c->out + o;
      *y = (c->accumulate ? *y : 0) + ((real)value[r] + (c->bias ? c->bias[o] : 0));
    }
  }
}

ALWAYS_INLINE void dot_rows_of(const blocks_call *c, int rows, ch_dtype dtype, const ch_quantised_row *x,
                               int64_t x_row, int64_t first, int64_t last) {
  switch (rows) {
  case 1:
    dot_range(c, 1, dtype, x, x_row, first, last);
    break;
  case 2:
    dot_range(c, 2, dtype, x, x_row, first, last);
    break;
  case 3:
    dot_range(c, 3, dtype, x, x_row, first, last);
    break;
  default:
    dot_range(c, 4, dtype, x, x_row, first, last);
    break;
  }
}

static void dot_some(const blocks_call *c, int rows, ch_dtype dtype, const ch_quantised_row *x, int64_t x_row,
                     int64_t first, int64_t last) {
  switch (dtype) {
  case CH_Q8_0:
    dot_rows_of(c, rows, CH_Q8_0, x, x_row, first, last);
    break;
  case CH_Q4_0:
    dot_rows_of(c, rows, CH_Q4_0, x, x_row, first, last);
    break;
  case CH_Q4_K:
    dot_rows_of(c, rows, CH_Q4_K, x, x_row, first, last);
    break;
  default:
    dot_rows_of(c, rows, CH_Q6_K, x, x_row, first, last);
    break;
  }
}

void KERNEL(gemv_blocks)(int64_t rows, int64_t in, int64_t out, const void *quantised, const void *weight,
                         ch_dtype weight_dtype, const void *bias, void *y, bool accumulate) {
  const blocks_call call = {in, out, weight, ch_dtype_bytes(weight_dtype, in), bias, y, accumulate};
  int64_t block = rows <= MOST_ROWS ? out : BLOCK_BYTES / (int64_t)(call.row_bytes + 1) + 1;
  FOR_RANGE(out, rows * in * out >= CH_PARALLEL_ELEMENTS, {
    for (int64_t o = first; o < last; o += block)
      for (int64_t r = 0; r < rows; r += MOST_ROWS) {
        ch_quantised_row x[MOST_ROWS];
        int count = rows - r < MOST_ROWS ? (int)(rows - r) : MOST_ROWS;
        for (int i = 0; i < count; i++) x[i] = ch_quantised_row_of((void *)(uintptr_t)quantised, in, r + i);
        dot_some(&call, count, weight_dtype, x, r, o, last - o < block ? last : o + block);
      }
  });
}
