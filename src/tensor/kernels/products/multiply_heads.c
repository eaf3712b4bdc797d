/* Skinny products per head: every head of a token is multiplied with the head's own matrix. */
#include "tensor/kernels/vector/halves.h"
#include "tensor/kernels/vector/stored_states.h"

/* The arguments of a call, for one head. */
typedef struct head_call {
  int64_t rows, columns;
  const char *weight;
  const real *x;
  real *y;
} head_call;

/* y [rows] = W x. */
ALWAYS_INLINE void products(const ch_dtype dtype, const head_call *c) {
  size_t row_bytes = (size_t)(c->columns * state_size(dtype));
  for (int64_t r = 0; r < c->rows; r++) {
    const char *row = c->weight + (size_t)r * row_bytes;
    vec even = splat(0), odd = splat(0);
    int64_t k = 0;
    for (; k + 2 * VL <= c->columns; k += 2 * VL) {
      even = vec_fma(load(c->x + k), load_state(dtype, row, k, VL), even);
      odd = vec_fma(load(c->x + k + VL), load_state(dtype, row, k + VL, VL), odd);
    }
    for (; k < c->columns; k += VL)
      even = vec_fma(load_some(c->x + k, c->columns - k), load_state(dtype, row, k, c->columns - k), even);
    c->y[r] = lanes_sum(even + odd);
  }
}

/* Computes `vectors` (a constant) vectors of y = W^T x, from column k on. */
ALWAYS_INLINE void sums(const ch_dtype dtype, const int vectors, const head_call *c, int64_t k,
                        int64_t left) {
  size_t row_bytes = (size_t)(c->columns * state_size(dtype));
  vec sum[4];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) sum[v] = splat(0);
  for (int64_t r = 0; r < c->rows; r++) {
    const char *row = c->weight + (size_t)r * row_bytes;
    vec factor = splat(c->x[r]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
      sum[v] = vec_fma(factor, load_state(dtype, row, k + v * VL, left - v * VL), sum[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) store_some(c->y + k + v * VL, sum[v], left - v * VL);
}

ALWAYS_INLINE void transposed_products(const ch_dtype dtype, const head_call *c) {
  int64_t k = 0;
  for (; k + 4 * VL <= c->columns; k += 4 * VL) sums(dtype, 4, c, k, 4 * VL);
  for (; k < c->columns; k += VL) sums(dtype, 1, c, k, c->columns - k);
}

ALWAYS_INLINE void one_head(const ch_dtype dtype, bool transposed, const head_call *c) {
  if (transposed)
    transposed_products(dtype, c);
  else
    products(dtype, c);
}

static void some_heads(int64_t first, int64_t last, int64_t heads, const head_call *all, ch_dtype dtype,
                       int64_t head_elements, bool transposed) {
  int64_t in = transposed ? all->rows : all->columns, out = transposed ? all->columns : all->rows;
  for (int64_t i = first; i < last; i++) {
    head_call c = *all;
    c.weight += i % heads * head_elements * state_size(dtype);
    c.x += i * in;
    c.y += i * out;
    if (dtype == CH_F16)
      one_head(CH_F16, transposed, &c);
    else if (dtype == CH_BF16)
      one_head(CH_BF16, transposed, &c);
    else
      one_head(CH_KERNEL_DTYPE, transposed, &c);
  }
}

void KERNEL(head_product)(const ch_team *team, int64_t n, int64_t heads, int64_t rows, int64_t columns,
                          const void *x, const void *weight, ch_dtype dtype, int64_t head_elements,
                          bool transposed, void *y) {
  const head_call all = {rows, columns, weight, x, y};
  FOR_RANGE(n * heads, n * heads * rows * columns >= CH_PARALLEL_ELEMENTS,
            some_heads(first, last, heads, &all, dtype, head_elements, transposed));
}
