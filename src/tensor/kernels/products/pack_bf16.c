/* Packs matrices as BF16 in the layout of a product's second factor. One pass over the matrix packs it and its
 * transpose. */
#include "tensor/kernels/vector/variant.h"
#include "tensor/kernels/vector/halves.h"
#include "tensor/kernels/vector/lanes.h"

/* A factor [k, n] is divided into blocks of BLOCK_K rows and BLOCK_N columns, with zeros past its ends. Blocks
   of the same columns follow each other. In a block, every two rows are interleaved: the two elements of a
   column are adjacent. */
enum { BLOCK_K = 32, BLOCK_N = 64, PAIR = 2 * BLOCK_N };

/* Elements that are packed at once: whole lines of a block both for W and for W^T. */
enum { PIECE_ROWS = 16, PIECE_COLUMNS = 32 };
/* The prefetch distance: the hardware prefetcher does not follow many short rows in turn. */
enum { PREFETCH_BYTES = 512 };

typedef struct packing {
  int64_t rows, columns, ld;
  const char *w;
  ch_dtype dtype;
  uint16_t *factor, *transposed;
} packing;

/* Returns the index of column n of rows k and k + 1 in a factor of `factor_rows` rows. */
static inline int64_t place_of_pair(int64_t factor_rows, int64_t k, int64_t n) {
  int64_t block = n / BLOCK_N * ((factor_rows + BLOCK_K - 1) / BLOCK_K) + k / BLOCK_K;
  return block * BLOCK_K * BLOCK_N + k % BLOCK_K / 2 * PAIR + n % BLOCK_N * 2;
}

/* Returns true if row k is inside the factor [k, n] rounded up to whole blocks. */
static inline bool is_inside(const uint16_t *factor, int64_t factor_rows, int64_t k) {
  return factor && k < (factor_rows + BLOCK_K - 1) / BLOCK_K * BLOCK_K;
}

#if defined(__AVX512BF16__) && !defined(CH_KERNEL_F64)

/* Loads PIECE_COLUMNS elements of a row. `left` of them exist; the others are zeros. */
ALWAYS_INLINE __m512i load_row(const packing *p, int64_t row, int64_t column, int64_t left) {
  const int64_t at = row * p->ld + column;
  const __mmask32 there = left >= PIECE_COLUMNS ? ~(__mmask32)0 : left > 0 ? (1u << left) - 1 : 0;
  if (p->dtype == CH_BF16) {
    const uint16_t *halves = (const uint16_t *)p->w + at;
    __builtin_prefetch((const char *)halves + PREFETCH_BYTES);
    return _mm512_maskz_loadu_epi16(there, halves);
  }
  const float *from = (const float *)p->w + at;
  __builtin_prefetch((const char *)from + PREFETCH_BYTES);
  __builtin_prefetch((const char *)from + PREFETCH_BYTES + 64);
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps((__mmask16)(there >> 16), from + 16),
                                      _mm512_maskz_loadu_ps((__mmask16)there, from));
}

/* Orders the non-temporal stores before later stores. */
static inline void finish_writing(void) {
  _mm_sfence();
}

static void pack_piece(const packing *p, int64_t row, int64_t column) {
  __m512i line[PIECE_ROWS];
  vec square[PIECE_ROWS];
  for (int i = 0; i < PIECE_ROWS; i++) {
    line[i] = row + i < p->rows ? load_row(p, row + i, column, p->columns - column) : _mm512_setzero_si512();
    square[i] = (vec)line[i];
  }
  if (is_inside(p->factor, p->rows, row)) {
    const __m512i evens = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                                           7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i odds = _mm512_add_epi16(evens, _mm512_set1_epi16(16));
    uint16_t *to = p->factor + place_of_pair(p->rows, row, column);
    for (int i = 0; i < PIECE_ROWS; i += 2, to += PAIR) {
      _mm512_stream_si512((void *)to, _mm512_permutex2var_epi16(line[i], evens, line[i + 1]));
      _mm512_stream_si512((void *)(to + PIECE_COLUMNS),
                          _mm512_permutex2var_epi16(line[i], odds, line[i + 1]));
    }
  }
  if (is_inside(p->transposed, p->columns, column)) {
    uint16_t *to = p->transposed + place_of_pair(p->columns, column, row);
    transpose_lanes(square);
    for (int i = 0; i < PIECE_ROWS; i++, to += PAIR) _mm512_stream_si512((void *)to, (__m512i)square[i]);
  }
}

#else

static inline void finish_writing(void) {}

static uint16_t element(const packing *p, int64_t row, int64_t column) {
  if (row >= p->rows || column >= p->columns) return 0;
  if (p->dtype == CH_BF16) return ((const uint16_t *)p->w)[row * p->ld + column];
  return bf16_from_float(narrow_odd(((const real *)p->w)[row * p->ld + column]));
}

static void pack_piece(const packing *p, int64_t row, int64_t column) {
  for (int64_t i = 0; i < PIECE_ROWS; i++)
    for (int64_t j = 0; j < PIECE_COLUMNS; j++) {
      uint16_t value = element(p, row + i, column + j);
      if (is_inside(p->factor, p->rows, row))
        p->factor[place_of_pair(p->rows, row + i, column + j) + i % 2] = value;
      if (is_inside(p->transposed, p->columns, column))
        p->transposed[place_of_pair(p->columns, column + j, row + i) + j % 2] = value;
    }
}

#endif

void KERNEL(pack_bf16)(const ch_team *team, int64_t rows, int64_t columns, const void *w, ch_dtype dtype,
                       int64_t ld, void *factor, void *transposed) {
  const packing p = {rows, columns, ld, w, dtype, factor, transposed};
  /* Both factors are covered, up to whole blocks. A thread gets strips of rows, so that it reads a strip's lines
     in order. */
  const int64_t strips = (rows + BLOCK_N - 1) / BLOCK_N * (BLOCK_N / PIECE_ROWS);
  const int64_t width = (columns + BLOCK_N - 1) / BLOCK_N * BLOCK_N;
#pragma omp parallel num_threads(team->workers) if (rows * columns >= CH_PARALLEL_ELEMENTS)
  {
#pragma omp for schedule(static) nowait
    for (int64_t strip = 0; strip < strips; strip++)
      for (int64_t column = 0; column < width; column += PIECE_COLUMNS)
        pack_piece(&p, strip * PIECE_ROWS, column);
    finish_writing();
  }
}
