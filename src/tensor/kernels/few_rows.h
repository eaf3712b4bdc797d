/* Few rows times a matrix from memory, y = x W^T: the loops that gemv and gemv_bf16 share.
 *
 * Rows of weights are taken in strips. A strip meets all rows of x, some at a time, while the next strips are asked for, so
 * that memory is read once, and while the sums are made. Each element of y is the same chains of sums along its row of weights,
 * whatever the number of rows: a row's result does not depend on the rows beside it.
 *
 * Where products are of pairs, arithmetic is so fast that the first cache has to give two vectors a cycle. Several rows of x are
 * laid out in the order in which they are used then (gemv_bf16.c): rows that begin at the same place of a page would push each
 * other out of it.
 */
#ifndef CH_KERNELS_FEW_ROWS_H
#define CH_KERNELS_FEW_ROWS_H

#include "tensor/kernels/halves.h"
#include "tensor/kernels/products.h"
#include "tensor/kernels/row_sums.h"
#include "tensor/kernels/variant.h"

enum {
  STRIP = VEC_BYTES == 64 ? 6 : 2, /* rows of weights whose sums with GROUP rows of x fit in registers */
  GROUP = 4,
  X_BYTES = 32 << 10,     /* what of x stays in the first cache beside the weights streaming by */
  LEAST_VECTORS = 32,     /* between two times that sums are kept */
  MOST_KEPT = 32,         /* rows of x whose sums are kept between pieces */
  PREFETCH_BYTES = 8192,  /* how far ahead weights are asked for, at least, by few rows of x */
  MOST_ASKED = 3,         /* rows of a strip that one tile asks for */
  LONG_STRIP = 16 << 10,  /* bytes of a strip after which asking for two more would only be in the way */
  ASKED_AFTER = 12 << 10, /* bytes of the next product's weights */
  LINE = 64
};
_Static_assert(STRIP *GROUP <= MOST_SUMS, "a tile's sums are written at once");

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
  const char *packed;           /* x in the order of tiles, whole lines: of FEW_PAIRS and several rows */
  const real *bias;             /* or NULL */
  real *y;
  bool accumulate;
} few_call;

/* Asks for the first rows of weights after a part, into the second cache, before the part is read: loops ask for what follows their
   own rows, and these lie elsewhere. */
static inline void few_ask_after(const few_call *call, const product_part *part) {
  if (!part->after) return;
  const char *weight = part->after->weight;
  const size_t bytes = (size_t)part->after->out * call->weight_bytes;
  for (size_t at = 0; at < bytes && at < ASKED_AFTER; at += LINE) __builtin_prefetch(weight + at, 0, 2);
}

/* A call for one of its products. */
static inline few_call few_call_of(const few_call *call, const ch_product *product) {
  few_call own = *call;
  own.out = product->out, own.weight = product->weight, own.bias = product->bias, own.y = product->y;
  return own;
}

ALWAYS_INLINE int few_step(const few_kind kind) {
  return kind == FEW_REAL ? VL : 2 * VL;
}

ALWAYS_INLINE size_t few_x_size(const few_kind kind) {
  return kind == FEW_PAIRS ? sizeof(uint16_t) : sizeof(real);
}

ALWAYS_INLINE size_t few_weight_size(const few_kind kind) {
  return kind == FEW_REAL ? sizeof(real) : sizeof(uint16_t);
}

#ifdef __AVX512BF16__
ALWAYS_INLINE vec add_products(const few_kind kind, vec sum, vec w, vec x) {
  if (kind != FEW_PAIRS) return sum + w * x;
  return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}
#else
ALWAYS_INLINE vec add_products(const few_kind kind, vec sum, vec w, vec x) {
  (void)kind;
  return sum + w * x;
}
#endif

/* Elements from an address on: a whole vector, or `left` elements and zeros. */
ALWAYS_INLINE vec load_few_weights(const few_kind kind, const char *from, int64_t left) {
  if (kind == FEW_PAIRS) return load_pairs(from, left);
  if (kind == FEW_F16) return load_f16((const uint16_t *)(const void *)from, left);
  if (kind == FEW_BF16) return load_bf16((const uint16_t *)(const void *)from, left);
  return load_some((const real *)(const void *)from, left);
}

ALWAYS_INLINE vec load_few_x(const few_kind kind, const char *from, int64_t left) {
  if (kind == FEW_PAIRS) return load_pairs(from, left);
  return load_some((const real *)(const void *)from, left);
}

/* What of the weights a tile asks for along the way, `rows` rows of each: what comes next, and what comes after that, into the
   second cache, for the first has requests for few lines under way. */
typedef struct few_ahead {
  const char *next, *later;
} few_ahead;

/* Row r of four that begin at `first`, the fourth at `fourth`: addresses that fit in registers. */
ALWAYS_INLINE const char *few_row(const char *first, const char *fourth, size_t row_bytes, const int r) {
  return r < 3 ? first + (size_t)r * row_bytes : fourth + (size_t)(r - 3) * row_bytes;
}

/* Where a tile has got to: its first and its fourth row of x and of the weights. */
typedef struct few_cursor {
  const char *x, *fourth_x, *weight, *fourth_weight;
  size_t x_row, weight_row; /* bytes from row to row */
} few_cursor;

ALWAYS_INLINE few_cursor few_moved(few_cursor at, int64_t x_bytes, int64_t weight_bytes) {
  at.x += x_bytes, at.fourth_x += x_bytes;
  at.weight += weight_bytes, at.fourth_weight += weight_bytes;
  return at;
}

/* One vector of a tile: sum[r * outs + o] += x[r] w[o]. */
ALWAYS_INLINE void few_tile_vector(const few_kind kind, const int rows, const int outs, const few_cursor *at,
                                   int64_t left, vec *sum) {
  vec v[GROUP];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    v[r] = load_few_x(kind, few_row(at->x, at->fourth_x, at->x_row, r), left);
    if (outs > 1) KEEP_LOADED(v[r]);
  }
#pragma GCC unroll 8
  for (int o = 0; o < outs; o++) {
    vec w = load_few_weights(kind, few_row(at->weight, at->fourth_weight, at->weight_row, o), left);
    if (rows > 1) KEEP_LOADED(w);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r * outs + o] = add_products(kind, sum[r * outs + o], w, v[r]);
  }
}

ALWAYS_INLINE void few_tile_step(const few_kind kind, const int rows, const int outs, const few_cursor *at,
                                 int64_t left, vec *sum) {
#pragma GCC unroll 2
  for (int chain = 0; chain < few_chains(kind); chain++)
    if (chain == 0 || left > chain * VL) {
      const few_cursor here =
          few_moved(*at, chain * VL * (int64_t)few_x_size(kind), chain * VL * (int64_t)few_weight_size(kind));
      few_tile_vector(kind, rows, outs, &here, left - chain * VL, sum + chain * rows * outs);
    }
}

/* A piece of a strip of weights: rows out and following, elements `from` and following. */
typedef struct few_spot {
  int64_t out, from;
} few_spot;

/* A tile: rows row ... row + rows - 1 of x with weight rows out ... out + outs - 1. */
typedef struct few_place {
  int64_t row, out;
} few_place;

/* Bytes of x from one row of a tile to the next, and from one step to the next. */
ALWAYS_INLINE size_t few_x_row(const few_kind kind, const few_call *c) {
  return kind == FEW_PAIRS ? LINE : c->x_bytes;
}

ALWAYS_INLINE size_t few_x_step(const few_kind kind, const int rows) {
  return kind == FEW_PAIRS ? (size_t)rows * LINE : (size_t)few_step(kind) * few_x_size(kind);
}

/* Element i, a step's first, of row `row`, a tile's first of `rows`. */
ALWAYS_INLINE const char *few_x_at(const few_kind kind, const int rows, const few_call *c, int64_t row,
                                   int64_t i) {
  if (kind != FEW_PAIRS) return c->x + (size_t)row * c->x_bytes + (size_t)i * few_x_size(kind);
  return c->packed + ch_gemv_room(row, c->in) + (size_t)(i / few_step(kind)) * few_x_step(kind, rows);
}

ALWAYS_INLINE const char *few_weight_at(const few_kind kind, const few_call *c, few_spot spot) {
  return c->weight + (size_t)spot.out * c->weight_bytes + (size_t)spot.from * few_weight_size(kind);
}

/* Adds elements from ... to - 1 of a tile to `sum`, and asks for `asked` rows of what is ahead. */
ALWAYS_INLINE void few_tile_sums(const few_kind kind, const int rows, const int outs, const int asked,
                                 const few_call *c, few_place at, int64_t from, int64_t to, few_ahead ahead,
                                 vec *sum) {
  const int step = few_step(kind);
  const size_t weight_step = (size_t)step * few_weight_size(kind), weight_row = c->weight_bytes;
  const char *x = few_x_at(kind, rows, c, at.row, from);
  const char *weight = few_weight_at(kind, c, (few_spot){at.out, from});
  few_cursor here = {
      x, x + 3 * few_x_row(kind, c), weight, weight + 3 * weight_row, few_x_row(kind, c), weight_row};
  int64_t left = to - from;
  for (; left >= step; left -= step) {
#pragma GCC unroll 4
    for (int o = 0; o < asked; o++) {
      __builtin_prefetch(ahead.next + (size_t)o * weight_row);
      if (asked > 1) __builtin_prefetch(ahead.later + (size_t)o * weight_row, 0, 2);
    }
    few_tile_step(kind, rows, outs, &here, step, sum);
    here = few_moved(here, (int64_t)few_x_step(kind, rows), (int64_t)weight_step);
    ahead.next += weight_step, ahead.later += weight_step;
  }
  if (left > 0) few_tile_step(kind, rows, outs, &here, left, sum);
}

ALWAYS_INLINE void few_tile_write(const few_kind kind, const int rows, const int outs, const few_call *c,
                                  few_place at, vec *sum) {
#pragma GCC unroll 32
  for (int j = 0; j < (few_chains(kind) - 1) * rows * outs; j++) sum[j] += sum[rows * outs + j];
  write_row_sums(rows, outs, sum, c->bias ? c->bias + at.out : NULL, c->y + at.row * c->out + at.out, c->out,
                 c->accumulate);
}

/* Elements from ... to - 1 of a tile; what there is of the sums is kept from piece to piece. */
ALWAYS_INLINE void few_tile(const few_kind kind, const int rows, const int outs, const int asked,
                            const few_call *c, few_place at, int64_t from, int64_t to, few_ahead ahead,
                            vec *kept) {
  const int sums = rows * outs * few_chains(kind);
  vec sum[GROUP * STRIP];
#pragma GCC unroll 32
  for (int j = 0; j < sums; j++) sum[j] = from > 0 ? kept[j] : splat(0);
  few_tile_sums(kind, rows, outs, asked, c, at, from, to, ahead, sum);
  if (to == c->in) {
    few_tile_write(kind, rows, outs, c, at, sum);
    return;
  }
#pragma GCC unroll 32
  for (int j = 0; j < sums; j++) kept[j] = sum[j];
}

/* The piece of weights that comes after one. */
ALWAYS_INLINE few_spot few_after(const few_call *c, const int outs, int64_t piece, few_spot spot) {
  if (spot.from + piece < c->in) return (few_spot){spot.out, spot.from + piece};
  return (few_spot){spot.out + outs, 0};
}

/* What tile g of a piece asks for: its share of the next piece and of the one after it; the only tile, all of the next. */
ALWAYS_INLINE few_ahead few_asked(const few_kind kind, const int outs, const int asked, const few_call *c,
                                  int64_t piece, few_spot spot, int groups, int g) {
  const char *here = few_weight_at(kind, c, spot);
  if (outs == 1) return (few_ahead){here + PREFETCH_BYTES, here};
  if (g * asked >= outs) return (few_ahead){here, here};
  const size_t share = (size_t)asked * c->weight_bytes;
  const few_spot after = few_after(c, outs, piece, spot);
  const char *next = few_weight_at(kind, c, after) + (size_t)g * share;
  if (groups == 1) return (few_ahead){next, next + share};
  if ((size_t)outs * c->weight_bytes > LONG_STRIP) return (few_ahead){next, here};
  return (few_ahead){next, few_weight_at(kind, c, few_after(c, outs, piece, after)) + (size_t)g * share};
}

/* All rows of x with a piece of a strip of weights, elements from spot.from to `to` - 1. */
ALWAYS_INLINE void few_piece(const few_kind kind, const int outs, const int asked, const few_call *c,
                             int64_t piece, few_spot spot, int64_t to, vec *kept) {
  const int groups = (int)((c->rows + GROUP - 1) / GROUP);
  for (int g = 0; g < groups; g++, kept += GROUP * STRIP) {
    const few_ahead ahead = few_asked(kind, outs, asked, c, piece, spot, groups, g);
    const few_place at = {(int64_t)g * GROUP, spot.out};
    switch (c->rows - at.row) {
    case 1:
      few_tile(kind, 1, outs, asked, c, at, spot.from, to, ahead, kept);
      break;
    case 2:
      few_tile(kind, 2, outs, asked, c, at, spot.from, to, ahead, kept);
      break;
    case 3:
      few_tile(kind, 3, outs, asked, c, at, spot.from, to, ahead, kept);
      break;
    default:
      few_tile(kind, 4, outs, asked, c, at, spot.from, to, ahead, kept);
      break;
    }
  }
}

/* Pieces of x that stay in the first cache beside the weights streaming by. */
static inline int64_t few_piece_length(const few_kind kind, const few_call *c) {
  if (c->rows <= GROUP || c->rows > MOST_KEPT) return c->in;
  const int64_t size = (int64_t)few_x_size(kind);
  const int64_t step = few_step(kind), least = LEAST_VECTORS * (step / few_chains(kind)),
                room = X_BYTES / size / c->rows, most = room > least ? room : least,
                pieces = (c->in + most - 1) / most;
  return pieces <= 1 ? c->in : ((c->in + pieces - 1) / pieces + step - 1) / step * step;
}

ALWAYS_INLINE void few_strips(const few_kind kind, const int outs, const int asked, const few_call *c,
                              int64_t *first, int64_t last) {
  vec kept[MOST_KEPT * STRIP];
  const int64_t piece = few_piece_length(kind, c);
  for (; *first + outs <= last; *first += outs)
    for (int64_t from = 0; from == 0 || from < c->in; from += piece)
      few_piece(kind, outs, asked, c, piece, (few_spot){*first, from},
                c->in - from < piece ? c->in : from + piece, kept);
}

/* A single row of x: weights come as they lie in memory, and nothing but the chains of sums is on the way. */
ALWAYS_INLINE void few_one(const few_kind kind, const few_call *c, int64_t first, int64_t last) {
  const int step = few_step(kind);
  const size_t size = few_weight_size(kind),
               ahead = (1 + PREFETCH_BYTES / (c->weight_bytes + 1)) * c->weight_bytes;
  for (int64_t o = first; o < last; o++) {
    const char *weight = c->weight + (size_t)o * c->weight_bytes;
    vec sum[VL + 2];
    for (int chain = 0; chain < few_chains(kind); chain++) sum[chain] = splat(0);
    few_cursor at = {.x = c->x, .weight = weight};
    int64_t left = c->in;
#pragma GCC unroll 2
    for (; left >= step; left -= step) {
      __builtin_prefetch(at.weight + ahead);
      few_tile_step(kind, 1, 1, &at, step, sum);
      at = few_moved(at, step * (int64_t)few_x_size(kind), step * (int64_t)size);
    }
    if (left > 0) few_tile_step(kind, 1, 1, &at, left, sum);
    few_tile_write(kind, 1, 1, c, (few_place){0, o}, sum);
  }
}

/* Weight rows first ... last - 1. Beside few rows of x they had better come one after the other, as they lie in memory. */
ALWAYS_INLINE void few_range(const few_kind kind, const few_call *c, int64_t first, int64_t last) {
  enum { MOST = STRIP < MOST_ASKED ? STRIP : MOST_ASKED };
  if (c->rows == 1) {
    few_one(kind, c, first, last);
    return;
  }
  const int outs = STRIP / few_chains(kind);
  if (c->rows > 2 * GROUP)
    few_strips(kind, outs, MOST - 1, c, &first, last);
  else if (c->rows > GROUP || (size_t)c->rows * c->x_bytes > X_BYTES)
    few_strips(kind, outs, MOST, c, &first, last);
  few_strips(kind, 1, 1, c, &first, last);
}

#endif
