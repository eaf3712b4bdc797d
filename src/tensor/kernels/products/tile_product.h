/* The register tile of small matrix products: four rows times a few vectors of columns, operands in cache.
 *
 * Every product of streaming attention is C (+)= A B with B read by whole vectors of its rows and A element
 * by element, so that the tile functions pack and transpose nothing. Only A's layout differs. `tile_rows`
 * reads A as rows (element (i, p) at a[i * stride + p]), `tile_columns` as columns (a[p * stride + i]).
 * `tile_bf16_dot_rows` and `tile_bf16_dot_columns` read pairs of BF16 in place of reals (bf16_dot.h) and add
 * up the products in reals. */
#ifndef CH_KERNELS_PRODUCTS_TILE_PRODUCT_H
#define CH_KERNELS_PRODUCTS_TILE_PRODUCT_H

#include "tensor/kernels/vector/bf16_dot.h"

/* The tile fills the registers: 4 x 4 sums of 32 with AVX-512, 4 x 3 of 16 with AVX2, 4 x 2 of 16 without
   FMA. */
enum { TILE_ROWS = 4, TILE_VECTORS = VEC_BYTES == 64 ? 4 : VEC_BYTES == 32 ? 3 : 2 };

/* C [rows, vectors * VL] = A [rows, k] B [k, vectors * VL] (+ C when accumulate); 1 <= rows <= TILE_ROWS,
   1 <= vectors <= TILE_VECTORS, k >= 0. `tile_columns` may read A's columns up to row TILE_ROWS - 1. Rows of
   C past `rows` are not touched. */
typedef void tile_function(int vectors, int rows, int64_t k, const real *a, int64_t stride, const real *b,
                           int64_t ldb, real *c, int64_t ldc, bool accumulate);
#define tile_rows KERNEL(tile_rows)
#define tile_columns KERNEL(tile_columns)
#define tile_bf16_dot_rows KERNEL(tile_bf16_dot_rows)
#define tile_bf16_dot_columns KERNEL(tile_bf16_dot_columns)
tile_function tile_rows;
tile_function tile_columns;
tile_function tile_bf16_dot_rows;
tile_function tile_bf16_dot_columns;

#endif
