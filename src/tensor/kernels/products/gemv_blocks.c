/* Skinny GEMM with block-quantised weights: y = x W^T with x as small integers (tensor/quantised.h), in plain
 * loops that the compiler vectorises. gemv_blocks_vnni.c uses VNNI instructions. */
#include "tensor/kernels/vector/quantised_blocks.h"
#include "tensor/kernels/products/products.h"
#include "tensor/quantised.h"

/* Up to MOST_ROWS rows of x share a pass over the weights. With more rows, BLOCK_BYTES of weights stay in cache
   while all rows are multiplied with them. */
enum { MOST_ROWS = 4, BLOCK_BYTES = 1 << 18 };

typedef struct blocks_call {
  int64_t in, out;
  const char *weight;
  size_t row_bytes;
  const real *bias;
  real *y;
  bool accumulate;
} blocks_call;

/* --- rows of x as small integers ------------------------------------------------------------------------ */

static void quantise_group(const real *restrict x, int zero, int8_t *restrict q, int32_t *restrict start,
                           float *restrict scale, float *restrict sum) {
  float most = 0, broken = 0, value[GROUP];
  for (int i = 0; i < GROUP; i++) value[i] = (float)x[i];
  for (int i = 0; i < GROUP; i++) most = fmaxf(most, fabsf(value[i]));
  /* If a value is not finite, `broken` is NaN, and so is the scale. The result shows it. */
  for (int i = 0; i < GROUP; i++) broken += 0 * value[i];
  most += broken;
  float d = most / 127, inverse = most > 0 ? 127 / most : 0;
  int32_t total = 0;
  for (int i = 0; i < GROUP; i++) q[i] = most > 0 ? (int8_t)rintf(value[i] * inverse) : 0;
  for (int j = 0; j < GROUP / 4; j++) {
    int32_t four = q[4 * j] + q[4 * j + 1] + q[4 * j + 2] + q[4 * j + 3];
    start[j] = -zero * four;
    scale[j] = d;
    total += four;
  }
  *sum = d * (float)total;
}

void KERNEL(quantise_rows)(const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype,
                           void *quantised) {
  int zero = ch_quantised_zero(weight_dtype);
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS, {
    for (int64_t r = first; r < last; r++) {
      ch_quantised_row row = ch_quantised_row_of(quantised, n, r);
      for (int64_t b = 0; b < n / GROUP; b++)
        quantise_group((const real *)x + r * n + b * GROUP, zero, row.q + b * GROUP,
                       row.start + b * (GROUP / 4), row.scale + b * (GROUP / 4), row.sum + b);
    }
  });
}

/* --- products ------------------------------------------------------------------------------------------- */

/* Returns the sum of `count` products (w[i] - zero) x[i]. */
static inline int32_t dot_integers(int count, const int8_t *restrict w, const int8_t *restrict x, int zero) {
  int32_t sum = 0;
  for (int i = 0; i < count; i++) sum += (int32_t)(int16_t)(w[i] - zero) * (int32_t)x[i];
  return sum;
}

ALWAYS_INLINE void dot_blocks(const int rows, ch_dtype dtype, const unsigned char *w, int64_t in,
                              const ch_quantised_row *x, float value[MOST_ROWS]) {
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

/* Multiplies weight rows first … last-1 with `rows` rows of x from x_row on. */
ALWAYS_INLINE void dot_range(const blocks_call *c, const int rows, ch_dtype dtype, const ch_quantised_row *x,
                             int64_t x_row, int64_t first, int64_t last) {
  for (int64_t o = first; o < last; o++) {
    float value[MOST_ROWS];
    dot_blocks(rows, dtype, (const unsigned char *)c->weight + (size_t)o * c->row_bytes, c->in, x, value);
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

static void dot_products(const blocks_call *call, int64_t rows, ch_dtype dtype, const void *quantised,
                         const ch_product *product, int64_t first, int64_t last) {
  const blocks_call own = {call->in,      product->out, product->weight, call->row_bytes,
                           product->bias, product->y,   call->accumulate};
  const int64_t block = rows <= MOST_ROWS ? last - first : BLOCK_BYTES / (int64_t)(call->row_bytes + 1) + 1;
  for (int64_t o = first; o < last; o += block)
    for (int64_t r = 0; r < rows; r += MOST_ROWS) {
      ch_quantised_row x[MOST_ROWS];
      int count = rows - r < MOST_ROWS ? (int)(rows - r) : MOST_ROWS;
      for (int i = 0; i < count; i++)
        x[i] = ch_quantised_row_of((void *)(uintptr_t)quantised, call->in, r + i);
      dot_some(&own, count, dtype, x, r, o, last - o < block ? last : o + block);
    }
}

void KERNEL(gemv_blocks)(const ch_team *team, int64_t rows, int64_t in, const void *quantised,
                         ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate) {
  const blocks_call call = {
      .in = in, .row_bytes = ch_dtype_bytes(weight_dtype, in), .accumulate = accumulate};
  FOR_RANGE(units_of_products(count, products, 1), share_products(rows, in, count, products), {
    for (product_part part; take_part(products, 1, &first, last, &part);)
      dot_products(&call, rows, weight_dtype, quantised, part.product, part.first, part.last);
  });
}
