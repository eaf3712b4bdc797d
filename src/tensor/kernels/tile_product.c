/* Products of tiles in cache: C (+)= A B with A strided, in register tiles. */
#include "tensor/kernels/variant.h"

/* Rows of C at once, and vectors of its columns. */
enum { TILE_ROWS = 4, TILE_VECTORS = 2 };

/* C [rows, columns] for rows <= TILE_ROWS and columns <= TILE_VECTORS * VL, in registers over all of k. */
ALWAYS_INLINE void register_tile(int rows, int vectors, int64_t left, int64_t k, const real *a, int64_t a_row,
                                 int64_t a_column, const real *b, int64_t ldb, real *c, int64_t ldc,
                                 bool accumulate) {
  vec sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++)
      sum[i][j] = accumulate ? load_some(c + i * ldc + j * VL, left - j * VL) : splat(0);
  for (int64_t p = 0; p < k; p++) {
    vec row[TILE_VECTORS];
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) row[j] = load_some(b + p * ldb + j * VL, left - j * VL);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
      for (int j = 0; j < vectors; j++) sum[i][j] += a[i * a_row + p * a_column] * row[j];
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) store_some(c + i * ldc + j * VL, sum[i][j], left - j * VL);
}

void KERNEL(tile_product)(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_column,
                          const void *b, int64_t ldb, void *c, int64_t ldc, bool accumulate) {
  const real *left = a, *right = b;
  real *out = c;
  for (int64_t j = 0; j < n; j += VL)
    for (int64_t i = 0; i < m; i += TILE_ROWS) {
      const real *a_tile = left + i * a_row;
      real *c_tile = out + i * ldc + j;
      if (m - i >= TILE_ROWS)
        register_tile(TILE_ROWS, 1, n - j, k, a_tile, a_row, a_column, right + j, ldb, c_tile, ldc,
                      accumulate);
      else
        for (int64_t r = 0; r < m - i; r++)
          register_tile(1, 1, n - j, k, a_tile + r * a_row, a_row, a_column, right + j, ldb, c_tile + r * ldc,
                        ldc, accumulate);
    }
}
