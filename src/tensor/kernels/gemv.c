/* Few rows times a matrix from memory: y = x W^T at the speed the weights can be read. */
#include "tensor/kernels/variant.h"
#include "tensor/kernels/halves.h"
#include "tensor/kernels/lanes.h"

enum {
  MOST_ROWS = 8,              /* rows of x that one reading of the weights serves */
  BLOCK_BYTES = 1 << 18,      /* of weights, that stay in cache while more rows take turns */
  X_BYTES = 24 << 10,         /* what of x stays in the first cache beside the weights streaming by */
  PREFETCH_BYTES = 8192,      /* how far ahead weights are asked for */
  PREFETCH_BYTES_MANY = 4096, /* the same beside much arithmetic, where the next rows are far enough */
  MOST_SUMS = VEC_BYTES == 64 ? 16 : 8 /* vectors of sums that fit in registers */
};

/* What a call is about, for the functions below. */
typedef struct gemv_call {
  int64_t in, out;
  const real *x, *bias;
  const char *weight;
  size_t row_bytes;
  real *y;
  bool accumulate;
} gemv_call;

ALWAYS_INLINE size_t size_of(ch_dtype dtype) {
  return dtype == CH_F16 || dtype == CH_BF16 ? sizeof(uint16_t) : sizeof(real);
}

/* Element i and its followers of a weight row: a whole vector, or `left` elements and zeros. */
ALWAYS_INLINE vec load_weights(const void *row, ch_dtype dtype, int64_t i, int64_t left) {
  if (dtype == CH_F16) return load_f16((const uint16_t *)row + i, left);
  if (dtype == CH_BF16) return load_bf16((const uint16_t *)row + i, left);
  return load_some((const real *)row + i, left);
}

/* Rows of x as they are, or packed: row r's vector at element i is at data + i * step + r * stride. */
typedef struct x_rows {
  const real *data;
  int64_t step, stride;
} x_rows;

/* sum[r * outs + o] = the products of `rows` rows of x with `outs` rows of weights, over `in` elements. rows and outs
   are constants where this is called, so that all sums are in registers. */
ALWAYS_INLINE void dot_rows(const int rows, const int outs, const bool packed, int64_t in, const x_rows *x,
                            const char *weight, ch_dtype dtype, size_t row_bytes, vec sum[MOST_SUMS]) {
  /* Vectors of one row at once, so that additions need not wait for each other. */
  const int steps = rows * outs >= 8 ? 1 : rows * outs >= 4 ? 2 : 4;
  const int64_t step = packed ? rows : 1, stride = packed ? VL : x->stride;
  /* The arithmetic between the loads keeps the processor from looking ahead far enough: ask for the rows that follow.
     Past the matrix's end that does nothing. */
  const size_t turn = (size_t)outs * row_bytes,
               ahead = turn * (1 + (rows <= 2 ? PREFETCH_BYTES : PREFETCH_BYTES_MANY) / (turn + 1));
  vec part[4][MOST_SUMS];
#pragma GCC unroll 4
  for (int s = 0; s < steps; s++)
#pragma GCC unroll 16
    for (int j = 0; j < rows * outs; j++) part[s][j] = splat(0);
  int64_t i = 0;
  for (; i + steps * VL <= in; i += steps * VL)
#pragma GCC unroll 4
    for (int s = 0; s < steps; s++) {
      vec w[4];
#pragma GCC unroll 4
      for (int o = 0; o < outs; o++) {
        const char *row = weight + (size_t)o * row_bytes;
        __builtin_prefetch(row + ahead + (size_t)(i + s * VL) * size_of(dtype));
        w[o] = load_weights(row, dtype, i + s * VL, VL);
        if (rows > 2) KEEP_LOADED(w[o]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        vec v = load(x->data + (i + s * VL) * step + r * stride);
        if (outs > 1) KEEP_LOADED(v);
#pragma GCC unroll 4
        for (int o = 0; o < outs; o++) part[s][r * outs + o] += w[o] * v;
      }
    }
  for (; i < in; i += VL)
#pragma GCC unroll 4
    for (int o = 0; o < outs; o++) {
      vec w = load_weights(weight + (size_t)o * row_bytes, dtype, i, in - i);
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
        part[0][r * outs + o] += w * load_some(x->data + i * step + r * stride, packed ? VL : in - i);
    }
#pragma GCC unroll 16
  for (int j = 0; j < rows * outs; j++) {
    sum[j] = part[0][j];
#pragma GCC unroll 4
    for (int s = 1; s < steps; s++) sum[j] += part[s][j];
  }
}

/* The sums of the lanes of `count` vectors. */
ALWAYS_INLINE void sum_each(const int count, const vec *sum, real *value) {
  if (count < VL / 2) {
    for (int j = 0; j < count; j++) value[j] = lanes_sum(sum[j]);
    return;
  }
#pragma GCC unroll 4
  for (int first = 0; first < count; first += VL) {
    vec group[VL];
#pragma GCC unroll 16
    for (int j = 0; j < VL; j++) group[j] = first + j < count ? sum[first + j] : splat(0);
    store_part(value + first, sum_lanes(group), count - first < VL ? count - first : VL);
  }
}

/* y of weight rows first … last-1, `outs` at a time, for elements [from, to) of `rows` rows of x from x_row on. What
   comes after the first elements is added. */
ALWAYS_INLINE void dot_panel(const gemv_call *c, const int rows, const int outs, const bool packed,
                             const x_rows *x, int64_t x_row, int64_t *first, int64_t last, int64_t from,
                             int64_t to, ch_dtype dtype) {
  bool accumulate = c->accumulate || from > 0;
  for (; *first + outs <= last; *first += outs) {
    int64_t o = *first;
    vec sum[MOST_SUMS];
    real value[MOST_SUMS];
    dot_rows(rows, outs, packed, to - from, x,
             c->weight + (size_t)o * c->row_bytes + (size_t)from * size_of(dtype), dtype, c->row_bytes, sum);
    sum_each(rows * outs, sum, value);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
      for (int j = 0; j < outs; j++) {
        real *y = c->y + (x_row + r) * c->out + o + j;
        real old = accumulate ? *y : 0, added = c->bias && from == 0 ? c->bias[o + j] : 0;
        *y = old + (value[r * outs + j] + added);
      }
  }
}

/* Elements [from, to) of some rows of x, vector by vector with the rows side by side, zeros after the last. */
ALWAYS_INLINE void pack_rows(const gemv_call *c, const int rows, int64_t x_row, int64_t from, int64_t to,
                             real *packed) {
  for (int64_t i = from; i < to; i += VL)
    for (int r = 0; r < rows; r++, packed += VL)
      store(packed, load_some(c->x + (x_row + r) * c->in + i, to - i));
}

/* All elements of `rows` rows of x from x_row on, with weight rows first … last-1. */
ALWAYS_INLINE void dot_range(const gemv_call *c, const int rows, int64_t x_row, int64_t first, int64_t last,
                             ch_dtype dtype) {
  if (rows <= 2) { /* weights had better come in the order they lie in memory */
    const x_rows x = {c->x + x_row * c->in, 1, c->in};
    dot_panel(c, rows, 1, false, &x, x_row, &first, last, 0, c->in, dtype);
    return;
  }
  /* Packed, x stays in the first cache however its rows lie; weight rows share its reading, as many as there are
     registers for the sums of. */
  _Alignas(64) real packed[X_BYTES / sizeof(real)];
  const int outs = rows <= 4 ? MOST_SUMS / 4 : MOST_SUMS / 8;
  const int64_t most = X_BYTES / (int64_t)sizeof(real) / rows / VL * VL, pieces = (c->in + most - 1) / most;
  const int64_t piece =
      pieces > 1 ? ((c->in + pieces - 1) / pieces + VL - 1) / VL * VL : most; /* of equal lengths */
  const x_rows x = {packed, rows, VL};
  for (int64_t from = 0; from == 0 || from < c->in; from += piece) {
    int64_t to = c->in - from < piece ? c->in : from + piece, o = first;
    pack_rows(c, rows, x_row, from, to, packed);
    dot_panel(c, rows, outs, true, &x, x_row, &o, last, from, to, dtype);
    dot_panel(c, rows, 1, true, &x, x_row, &o, last, from, to, dtype);
  }
}

ALWAYS_INLINE void dot_range_of(const gemv_call *c, int64_t rows, int64_t x_row, int64_t first, int64_t last,
                                ch_dtype dtype) {
  switch (rows) {
  case 1:
    dot_range(c, 1, x_row, first, last, dtype);
    break;
  case 2:
    dot_range(c, 2, x_row, first, last, dtype);
    break;
  case 3:
    dot_range(c, 3, x_row, first, last, dtype);
    break;
  case 4:
    dot_range(c, 4, x_row, first, last, dtype);
    break;
  case 5:
    dot_range(c, 5, x_row, first, last, dtype);
    break;
  case 6:
    dot_range(c, 6, x_row, first, last, dtype);
    break;
  case 7:
    dot_range(c, 7, x_row, first, last, dtype);
    break;
  default:
    dot_range(c, 8, x_row, first, last, dtype);
    break;
  }
}

void KERNEL(gemv)(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                  ch_dtype weight_dtype, const void *bias, void *y, bool accumulate) {
  size_t row_bytes = (size_t)in * ch_dtype_size(weight_dtype);
  const gemv_call call = {in, out, x, bias, weight, row_bytes, y, accumulate};
  /* Weights are read from memory once: all rows of x, and all pieces of them, go over a block while it is in cache. */
  int64_t block =
      rows <= 2 ? out : BLOCK_BYTES / (int64_t)(row_bytes + 1) / MOST_SUMS * MOST_SUMS + MOST_SUMS;
#pragma omp parallel if (rows * in * out >= CH_PARALLEL_ELEMENTS)
  {
    int64_t first, last;
    thread_range(out, omp_get_thread_num(), omp_get_num_threads(), &first, &last);
    for (int64_t o = first; o < last; o += block) {
      int64_t end = last - o < block ? last : o + block;
      for (int64_t r = 0; r < rows; r += MOST_ROWS) {
        int64_t count = rows - r < MOST_ROWS ? rows - r : MOST_ROWS;
        if (weight_dtype == CH_F16)
          dot_range_of(&call, count, r, o, end, CH_F16);
        else if (weight_dtype == CH_BF16)
          dot_range_of(&call, count, r, o, end, CH_BF16);
        else
          dot_range_of(&call, count, r, o, end, CH_KERNEL_DTYPE);
      }
    }
  }
}
