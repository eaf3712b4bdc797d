/* Products of factors, token by token: a factor over heads [H, rank] times a shared factor [rank, dim]. */
#include "tensor/kernels/vector/dot.h"

enum { MOST_VECTORS = 4 };

/* Computes `vectors` (a constant) vectors of one head, from column i on. */
ALWAYS_INLINE void some_columns(const int vectors, int64_t rank, int64_t dim, int64_t i, real scale,
                                const real *a, int64_t a_step, const real *b, int64_t b_step, real *y,
                                bool accumulate) {
  const int64_t left = vectors > 1 ? MOST_VECTORS * VL : dim - i; /* only a single vector may be cut off */
  vec sum[MOST_VECTORS];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) sum[v] = splat(0);
  for (int64_t k = 0; k < rank; k++) {
    vec factor = splat(a[k * a_step]);
    const real *row = b + k * b_step + i;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      sum[v] = vec_fma(factor, load_some(row + v * VL, left - v * VL), sum[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) put(y + i + v * VL, sum[v] * scale, left - v * VL, accumulate);
}

/* y [dim] = (+=) scale * sum over k of a[k * a_step] b[k * b_step ...]. */
static void combine(int64_t rank, int64_t dim, real scale, const real *a, int64_t a_step, const real *b,
                    int64_t b_step, real *y, bool accumulate) {
  int64_t i = 0;
  for (; i + MOST_VECTORS * VL <= dim; i += MOST_VECTORS * VL)
    some_columns(MOST_VECTORS, rank, dim, i, scale, a, a_step, b, b_step, y, accumulate);
  for (; i + 2 * VL <= dim; i += 2 * VL)
    some_columns(2, rank, dim, i, scale, a, a_step, b, b_step, y, accumulate);
  for (; i < dim; i += VL) some_columns(1, rank, dim, i, scale, a, a_step, b, b_step, y, accumulate);
}

static void product_rows(int64_t first, int64_t last, int64_t heads, int64_t rank, int64_t dim, real scale,
                         const real *a, const real *b, real *y, bool accumulate) {
  for (int64_t r = first; r < last; r++)
    for (int64_t h = 0; h < heads; h++)
      combine(rank, dim, scale, a + (r * heads + h) * rank, 1, b + r * rank * dim, dim,
              y + (r * heads + h) * dim, accumulate);
}

void KERNEL(factor_product)(const ch_team *team, int64_t rows, int64_t heads, int64_t rank, int64_t dim,
                            double scale, const void *a, const void *b, void *y, bool accumulate) {
  FOR_RANGE(rows, rows > 1 && rows * heads * rank * dim >= CH_PARALLEL_ELEMENTS,
            product_rows(first, last, heads, rank, dim, (real)scale, a, b, y, accumulate));
}

/* da[h, k] = scale * dy[h] . b[k];  db[k] = scale * sum over h of a[h, k] dy[h]. */
static void product_back_rows(int64_t first, int64_t last, int64_t heads, int64_t rank, int64_t dim,
                              real scale, const real *a, const real *b, const real *dy, real *da,
                              bool accumulate_a, real *db, bool accumulate_b) {
  for (int64_t r = first; r < last; r++) {
    const real *own = dy + r * heads * dim, *shared = b + r * rank * dim;
    for (int64_t i = 0; da && i < heads * rank; i++) {
      real *to = da + r * heads * rank + i;
      real d = scale * dot(dim, own + i / rank * dim, shared + i % rank * dim);
      *to = accumulate_a ? *to + d : d;
    }
    for (int64_t k = 0; db && k < rank; k++)
      combine(heads, dim, scale, a + r * heads * rank + k, rank, own, dim, db + (r * rank + k) * dim,
              accumulate_b);
  }
}

void KERNEL(factor_product_backward)(const ch_team *team, int64_t rows, int64_t heads, int64_t rank,
                                     int64_t dim, double scale, const void *a, const void *b, const void *dy,
                                     void *da, bool accumulate_a, void *db, bool accumulate_b) {
  FOR_RANGE(rows, rows > 1 && rows * heads * rank * dim >= CH_PARALLEL_ELEMENTS,
            product_back_rows(first, last, heads, rank, dim, (real)scale, a, b, dy, da, accumulate_a, db,
                              accumulate_b));
}
