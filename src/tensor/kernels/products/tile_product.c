/* Products of tiles in cache: C (+)= A B with A strided, in register tiles. */
#include "tensor/kernels/products/tile_product.h"

/* One of the two layouts of A: its rows, or its columns, are `stride` apart. */
typedef struct tile_factor {
  const real *row[TILE_ROWS];
  int64_t stride;
} tile_factor;

/* sum += A(:, p) B(p, :), of elements or of pairs of BF16. */
ALWAYS_INLINE void add_outer(const int vectors, const bool by_columns, const bool bf16_dot,
                             const tile_factor *a, const real *b, int64_t p,
                             vec sum[TILE_ROWS][TILE_VECTORS]) {
  vec line[TILE_VECTORS];
#pragma GCC unroll 8
  for (int j = 0; j < vectors; j++) line[j] = load(b + j * VL);
#pragma GCC unroll 8
  for (int i = 0; i < TILE_ROWS; i++) {
    const real *at = by_columns ? a->row[0] + p * a->stride + i : a->row[i] + p;
    vec factor = bf16_dot ? (vec)pair_at(at) : splat(*at);
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++)
      sum[i][j] = bf16_dot ? add_bf16_dot(sum[i][j], factor, line[j]) : vec_fma(factor, line[j], sum[i][j]);
  }
}

/* Computes one tile in registers. In a small tile with few sums, each addition would wait for the one before.
   So if registers are left, products of even and odd p are summed separately. */
ALWAYS_INLINE void register_tile(const int vectors, const bool by_columns, const bool bf16_dot, int rows,
                                 int64_t k, const real *a, int64_t stride, const real *b, int64_t ldb,
                                 real *c, int64_t ldc, bool accumulate) {
  const int chains = vectors == 1 || (vectors == 2 && VEC_BYTES == 64) ? 2 : 1;
  vec sum[2][TILE_ROWS][TILE_VECTORS];
  tile_factor factor = {.stride = stride};
#pragma GCC unroll 8
  for (int i = 0; i < TILE_ROWS; i++) {
    /* Rows past the last repeat it; their sums are not stored. */
    factor.row[i] = a + (i < rows ? i : rows - 1) * stride;
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) sum[0][i][j] = sum[1][i][j] = splat(0);
  }
  if (by_columns) factor.row[0] = a;
  int64_t p = 0;
  for (; p + chains <= k; p += chains, b += chains * ldb) {
    add_outer(vectors, by_columns, bf16_dot, &factor, b, p, sum[0]);
    if (chains == 2) add_outer(vectors, by_columns, bf16_dot, &factor, b + ldb, p + 1, sum[1]);
  }
  if (p < k) add_outer(vectors, by_columns, bf16_dot, &factor, b, p, sum[0]);
#pragma GCC unroll 8
  for (int i = 0; i < TILE_ROWS; i++) {
    if (i >= rows) break;
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
      real *out = c + i * ldc + j * VL;
      vec total = chains == 2 ? sum[0][i][j] + sum[1][i][j] : sum[0][i][j];
      store(out, accumulate ? load(out) + total : total);
    }
  }
}

#define TILE_CASE(n, by_columns, bf16_dot)                                                                   \
  case n:                                                                                                    \
    if (n <= TILE_VECTORS)                                                                                   \
      register_tile(n, by_columns, bf16_dot, rows, k, a, stride, b, ldb, c, ldc, accumulate);                \
    break

#define TILE_FUNCTION(name, by_columns, bf16_dot)                                                            \
  void name(int vectors, int rows, int64_t k, const real *a, int64_t stride, const real *b, int64_t ldb,     \
            real *c, int64_t ldc, bool accumulate) {                                                         \
    switch (vectors) {                                                                                       \
      TILE_CASE(1, by_columns, bf16_dot);                                                                    \
      TILE_CASE(2, by_columns, bf16_dot);                                                                    \
      TILE_CASE(3, by_columns, bf16_dot);                                                                    \
      TILE_CASE(4, by_columns, bf16_dot);                                                                    \
    }                                                                                                        \
  }

TILE_FUNCTION(tile_rows, false, false)
TILE_FUNCTION(tile_columns, true, false)
TILE_FUNCTION(tile_bf16_dot_rows, false, true)
TILE_FUNCTION(tile_bf16_dot_columns, true, true)

/* The number of values of p per pass if an operand must be copied first. */
enum { CHUNK = 128 };

/* Computes up to TILE_ROWS rows of C and any number of whole vectors. A may have any layout. */
static void row_strip(int64_t vectors, int rows, int64_t k, const real *a, int64_t a_row, int64_t a_column,
                      const real *b, int64_t ldb, real *c, int64_t ldc, bool accumulate) {
  if (a_column != 1 && (a_row != 1 || rows < TILE_ROWS)) {
    real columns[CHUNK][TILE_ROWS];
    int64_t p = 0;
    do {
      int64_t count = k - p < CHUNK ? k - p : CHUNK;
      for (int64_t q = 0; q < count; q++)
        for (int i = 0; i < TILE_ROWS; i++) columns[q][i] = i < rows ? a[i * a_row + (p + q) * a_column] : 0;
      for (int64_t j = 0; j < vectors; j += TILE_VECTORS)
        tile_columns(vectors - j < TILE_VECTORS ? (int)(vectors - j) : TILE_VECTORS, rows, count, columns[0],
                     TILE_ROWS, b + p * ldb + j * VL, ldb, c + j * VL, ldc, accumulate || p > 0);
      p += count;
    } while (p < k);
    return;
  }
  tile_function *tile = a_column == 1 ? tile_rows : tile_columns;
  for (int64_t j = 0; j < vectors; j += TILE_VECTORS)
    tile(vectors - j < TILE_VECTORS ? (int)(vectors - j) : TILE_VECTORS, rows, k, a,
         a_column == 1 ? a_row : a_column, b + j * VL, ldb, c + j * VL, ldc, accumulate);
}

/* Computes the last n < VL columns. B's columns are copied into whole vectors. C's columns are computed in
   whole vectors and then copied. */
static void last_columns(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_row, int64_t a_column,
                         const real *b, int64_t ldb, real *c, int64_t ldc, bool accumulate) {
  real lines[CHUNK][VL], sums[TILE_ROWS][VL];
  int64_t p = 0;
  do {
    int64_t count = k - p < CHUNK ? k - p : CHUNK;
    for (int64_t q = 0; q < count; q++) store(lines[q], load_part(b + (p + q) * ldb, n));
    for (int64_t i = 0; i < m; i += TILE_ROWS) {
      int rows = m - i < TILE_ROWS ? (int)(m - i) : TILE_ROWS;
      row_strip(1, rows, count, a + i * a_row + p * a_column, a_row, a_column, lines[0], VL, sums[0], VL,
                false);
      for (int r = 0; r < rows; r++) {
        real *out = c + (i + r) * ldc;
        vec sum = load(sums[r]);
        store_part(out, accumulate || p > 0 ? load_part(out, n) + sum : sum, n);
      }
    }
    p += count;
  } while (p < k);
}

void KERNEL(tile_product)(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_column,
                          const void *b, int64_t ldb, void *c, int64_t ldc, bool accumulate) {
  const real *left = a, *right = b;
  real *out = c;
  int64_t whole = n / VL, wide = TILE_VECTORS;
  if (k <= 0) { /* an empty sum; A and B may be NULL */
    for (int64_t i = 0; i < m && !accumulate; i++) memset(out + i * ldc, 0, (size_t)n * sizeof(real));
    return;
  }
  /* Columns are in the outer loop: their part of B stays in L1 for all rows. */
  for (int64_t j = 0; j < whole; j += wide)
    for (int64_t i = 0; i < m; i += TILE_ROWS)
      row_strip(whole - j < wide ? whole - j : wide, m - i < TILE_ROWS ? (int)(m - i) : TILE_ROWS, k,
                left + i * a_row, a_row, a_column, right + j * VL, ldb, out + i * ldc + j * VL, ldc,
                accumulate);
  if (n > whole * VL)
    last_columns(m, n - whole * VL, k, left, a_row, a_column, right + whole * VL, ldb, out + whole * VL, ldc,
                 accumulate);
}
