/* Few rows times a matrix from memory, y = x W^T: the loops that gemv and gemv_bf16 share.
 *
 * Rows of weights are taken in strips. A strip meets all rows of x, some at a time, while the next strip is asked for, so
 * that memory is read once, and while the sums are made. Each element of y is the same chains of sums along its row of weights,
 * whatever the number of rows: a row's result does not depend on the rows beside it.
 */
#ifndef CH_KERNELS_FEW_ROWS_H
#define CH_KERNELS_FEW_ROWS_H

#include "tensor/kernels/halves.h"
#include "tensor/kernels/lanes.h"
#include "tensor/kernels/variant.h"

enum {
  STRIP = VEC_BYTES == 64 ? 6 : 2, /* rows of weights whose sums with GROUP rows of x fit in registers */
  GROUP = 4,
  X_BYTES = 24 << 10,    /* what of x stays in the first cache beside the weights streaming by */
  LEAST_VECTORS = 32,    /* between two times that sums are kept */
  MOST_KEPT = 32,        /* rows of x whose sums are kept between pieces */
  PREFETCH_BYTES = 8192, /* how far ahead weights are asked for, at least, by few rows of x */
  FARTHER_BYTES = 4096   /* and by more of them, beyond the next strip */
};

/* How elements of x and of the weights lie: x of the table's type beside weights of it, of F16 or of BF16; or both of
   BF16, multiplied in pairs. */
typedef enum few_kind { FEW_REAL, FEW_F16, FEW_BF16, FEW_PAIRS } few_kind;

/* Chains of sums: where weights are widened a step takes two vectors of them, for one chain would be slower than memory. */
ALWAYS_INLINE int few_chains(const few_kind kind) {
  return kind == FEW_F16 || kind == FEW_BF16 ? 2 : 1;
}

typedef struct few_call {
  int64_t rows, in, out;
  const char *x, *weight;
  size_t x_bytes, weight_bytes; /* of a row */
  const real *bias;             /* or NULL */
  real *y;
  bool accumulate;
} few_call;

ALWAYS_INLINE int few_step(const few_kind kind) {
  return kind == FEW_REAL ? VL : 2 * VL;
}

ALWAYS_INLINE size_t few_weight_size(const few_kind kind) {
  return kind == FEW_REAL ? sizeof(real) : sizeof(uint16_t);
}

#ifdef __AVX512BF16__
ALWAYS_INLINE vec load_pairs(const void *row, int64_t i, int64_t left) {
  const uint16_t *from = (const uint16_t *)row + i;
  if (left >= 2 * VL) return (vec)_mm512_loadu_si512(from);
  return (vec)_mm512_maskz_loadu_epi16((__mmask32)((1ull << left) - 1), from);
}

ALWAYS_INLINE vec add_products(const few_kind kind, vec sum, vec w, vec x) {
  if (kind != FEW_PAIRS) return sum + w * x;
  return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}
#else
ALWAYS_INLINE vec load_pairs(const void *row, int64_t i, int64_t left) {
  (void)row, (void)i, (void)left;
  return splat(0);
}

ALWAYS_INLINE vec add_products(const few_kind kind, vec sum, vec w, vec x) {
  (void)kind;
  return sum + w * x;
}
#endif

/* Elements i and following of a row: a whole vector, or `left` elements and zeros. */
ALWAYS_INLINE vec load_few_weights(const few_kind kind, const char *row, int64_t i, int64_t left) {
  if (kind == FEW_PAIRS) return load_pairs(row, i, left);
  if (kind == FEW_F16) return load_f16((const uint16_t *)(const void *)row + i, left);
  if (kind == FEW_BF16) return load_bf16((const uint16_t *)(const void *)row + i, left);
  return load_some((const real *)(const void *)row + i, left);
}

ALWAYS_INLINE vec load_few_x(const few_kind kind, const char *row, int64_t i, int64_t left) {
  if (kind == FEW_PAIRS) return load_pairs(row, i, left);
  return load_some((const real *)(const void *)row + i, left);
}

/* What of the weights is asked for along the way: of `count` rows from `row` on, what lies where the tile is at. */
typedef struct few_ahead {
  const char *row;
  int count;
  bool
      twice; /* and into the second cache earlier: the processor drops requests while too many are under way */
} few_ahead;

/* One vector of a tile: sum[r * outs + o] += x[r] w[o]. */
ALWAYS_INLINE void few_tile_vector(const few_kind kind, const int rows, const int outs, const few_call *c,
                                   const char *x, const char *weight, int64_t i, int64_t left, vec *sum) {
  vec v[GROUP];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    v[r] = load_few_x(kind, x + (size_t)r * c->x_bytes, i, left);
    if (outs > 1) KEEP_LOADED(v[r]);
  }
#pragma GCC unroll 8
  for (int o = 0; o < outs; o++) {
    vec w = load_few_weights(kind, weight + (size_t)o * c->weight_bytes, i, left);
    if (rows > 1) KEEP_LOADED(w);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r * outs + o] = add_products(kind, sum[r * outs + o], w, v[r]);
  }
}

ALWAYS_INLINE void few_tile_step(const few_kind kind, const int rows, const int outs, const few_call *c,
                                 const char *x, const char *weight, int64_t i, int64_t left, vec *sum) {
#pragma GCC unroll 2
  for (int chain = 0; chain < few_chains(kind); chain++)
    if (chain == 0 || left > chain * VL)
      few_tile_vector(kind, rows, outs, c, x, weight, i + chain * VL, left - chain * VL,
                      sum + chain * rows * outs);
}

/* Lane sums of `count` vectors, all in the order of sum_lanes. Overwrites v, which has room for a multiple of VL. */
ALWAYS_INLINE void few_sums(const int count, vec *v, real *value) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  if (count <= 4) {
    for (int j = count; j < 4; j++) v[j] = splat(0);
    __m512 sums = sum_quarters(v);
    sums = add_quarters(sums, sums);
    store_part(value, (vec)add_quarters(sums, sums), count);
    return;
  }
#endif
#pragma GCC unroll 16
  for (int first = 0; first < count; first += VL) {
    vec group[VL];
#pragma GCC unroll 16
    for (int j = 0; j < VL; j++) group[j] = first + j < count ? v[first + j] : splat(0);
    store_part(value + first, sum_lanes(group), count - first < VL ? count - first : VL);
  }
}

/* A tile: rows row ... row + rows - 1 of x with weight rows out ... out + outs - 1. */
typedef struct few_place {
  int64_t row, out;
} few_place;

/* Adds elements from ... to - 1 of a tile to `sum`. */
ALWAYS_INLINE void few_tile_sums(const few_kind kind, const int rows, const int outs, const few_call *c,
                                 few_place at, int64_t from, int64_t to, few_ahead ahead, vec *sum) {
  const char *x = c->x + (size_t)at.row * c->x_bytes, *weight = c->weight + (size_t)at.out * c->weight_bytes;
  const int step = few_step(kind);
  const size_t size = few_weight_size(kind), weight_bytes = c->weight_bytes;
  int64_t i = from;
  for (; i + step <= to; i += step) {
#pragma GCC unroll 8
    for (int o = 0; o < outs; o++)
      if (o < ahead.count) {
        const char *far = ahead.row + (size_t)o * weight_bytes + (size_t)i * size;
        __builtin_prefetch(far);
        if (ahead.twice) __builtin_prefetch(far + FARTHER_BYTES, 0, 2);
      }
    few_tile_step(kind, rows, outs, c, x, weight, i, step, sum);
  }
  if (i < to) few_tile_step(kind, rows, outs, c, x, weight, i, to - i, sum);
}

ALWAYS_INLINE void few_tile_write(const few_kind kind, const int rows, const int outs, const few_call *c,
                                  few_place at, vec *sum) {
#pragma GCC unroll 32
  for (int j = 0; j < (few_chains(kind) - 1) * rows * outs; j++) sum[j] += sum[rows * outs + j];
  real value[GROUP * STRIP + VL];
  few_sums(rows * outs, sum, value);
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int o = 0; o < outs; o += VL) {
      const int count = outs - o < VL ? outs - o : VL;
      real *y = c->y + (at.row + r) * c->out + at.out + o;
      vec sums = load_part(value + r * outs + o, count);
      if (c->bias) sums += load_part(c->bias + at.out + o, count);
      if (c->accumulate) sums += load_part(y, count);
      store_part(y, sums, count);
    }
}

/* Elements from ... to - 1 of a tile; what there is of the sums is kept from piece to piece. */
ALWAYS_INLINE void few_tile(const few_kind kind, const int rows, const int outs, const few_call *c,
                            few_place at, int64_t from, int64_t to, few_ahead ahead, vec *kept) {
  const int sums = rows * outs * few_chains(kind);
  vec sum[GROUP * STRIP + VL];
#pragma GCC unroll 32
  for (int j = 0; j < sums; j++) sum[j] = from > 0 ? kept[j] : splat(0);
  few_tile_sums(kind, rows, outs, c, at, from, to, ahead, sum);
  if (to == c->in) {
    few_tile_write(kind, rows, outs, c, at, sum);
    return;
  }
#pragma GCC unroll 32
  for (int j = 0; j < sums; j++) kept[j] = sum[j];
}

/* All rows of x with a strip of weights, for elements from ... to - 1. The strip after it is asked for, some rows by
   every tile. */
ALWAYS_INLINE void few_piece(const few_kind kind, const int outs, const few_call *c, int64_t out,
                             int64_t from, int64_t to, vec *kept) {
  const int groups = (int)((c->rows + GROUP - 1) / GROUP), share = (outs + groups - 1) / groups;
  const size_t strip = (size_t)outs * c->weight_bytes;
  const char *far = c->weight + (size_t)out * c->weight_bytes + (outs > 1 ? strip : PREFETCH_BYTES);
  for (int g = 0; g < groups; g++, kept += GROUP * STRIP) {
    const int asked = g * share < outs ? g * share : outs, left = outs - asked;
    const few_ahead ahead = {far + (size_t)asked * c->weight_bytes, left < share ? left : share, groups > 1};
    const few_place at = {(int64_t)g * GROUP, out};
    switch (c->rows - at.row) {
    case 1:
      few_tile(kind, 1, outs, c, at, from, to, ahead, kept);
      break;
    case 2:
      few_tile(kind, 2, outs, c, at, from, to, ahead, kept);
      break;
    case 3:
      few_tile(kind, 3, outs, c, at, from, to, ahead, kept);
      break;
    default:
      few_tile(kind, 4, outs, c, at, from, to, ahead, kept);
      break;
    }
  }
}

/* Pieces of x that stay in the first cache beside the weights streaming by. */
static inline int64_t few_piece_length(const few_kind kind, const few_call *c) {
  if (c->rows <= GROUP || c->rows > MOST_KEPT) return c->in;
  const int64_t size = kind == FEW_PAIRS ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(real);
  const int64_t step = few_step(kind), least = LEAST_VECTORS * (step / few_chains(kind)),
                room = X_BYTES / size / c->rows, most = room > least ? room : least,
                pieces = (c->in + most - 1) / most;
  return pieces <= 1 ? c->in : ((c->in + pieces - 1) / pieces + step - 1) / step * step;
}

ALWAYS_INLINE void few_strips(const few_kind kind, const int outs, const few_call *c, int64_t *first,
                              int64_t last) {
  vec kept[MOST_KEPT * STRIP];
  const int64_t piece = few_piece_length(kind, c);
  for (; *first + outs <= last; *first += outs)
    for (int64_t from = 0; from == 0 || from < c->in; from += piece)
      few_piece(kind, outs, c, *first, from, c->in - from < piece ? c->in : from + piece, kept);
}

/* A single row of x: weights come as they lie in memory, and nothing but the chains of sums is on the way. */
ALWAYS_INLINE void few_one(const few_kind kind, const few_call *c, int64_t first, int64_t last) {
  const int step = few_step(kind);
  const size_t size = few_weight_size(kind),
               ahead = (1 + PREFETCH_BYTES / (c->weight_bytes + 1)) * c->weight_bytes;
  const int64_t whole = c->in / step * step;
  for (int64_t o = first; o < last; o++) {
    const char *weight = c->weight + (size_t)o * c->weight_bytes;
    vec sum[VL + 2];
    for (int chain = 0; chain < few_chains(kind); chain++) sum[chain] = splat(0);
#pragma GCC unroll 2
    for (int64_t i = 0; i < whole; i += step) {
      __builtin_prefetch(weight + ahead + (size_t)i * size);
      few_tile_step(kind, 1, 1, c, c->x, weight, i, step, sum);
    }
    if (whole < c->in) few_tile_step(kind, 1, 1, c, c->x, weight, whole, c->in - whole, sum);
    few_tile_write(kind, 1, 1, c, (few_place){0, o}, sum);
  }
}

/* Weight rows first ... last - 1. Beside few rows of x they had better come one after the other, as they lie in memory. */
ALWAYS_INLINE void few_range(const few_kind kind, const few_call *c, int64_t first, int64_t last) {
  if (c->rows == 1) {
    few_one(kind, c, first, last);
    return;
  }
  if (c->rows > GROUP || (c->rows > 1 && (size_t)c->rows * c->x_bytes > X_BYTES))
    few_strips(kind, STRIP / few_chains(kind), c, &first, last);
  few_strips(kind, 1, c, &first, last);
}

#endif
