/* Skinny GEMM, y = x W^T with few rows of x and W read from memory: the loops that gemv and gemv_bf16 share.
 *
 * Rows of weights are read in strips. A strip is multiplied with all rows of x, some at a time, while the
 * next strips are prefetched, so that memory is read once and during the arithmetic. Each element of y is
 * added up in the same chains along its row of weights, whatever the number of rows: the result for a row does
 * not depend on the other rows.
 *
 * With BF16 dot products, arithmetic is so fast that L1 has to deliver two vectors per cycle. Several rows of
 * x are then packed in the order of their use (gemv_bf16.c); otherwise rows that begin at the same offset in
 * a page would evict each other from L1. */
#ifndef CH_KERNELS_PRODUCTS_SKINNY_GEMM_H
#define CH_KERNELS_PRODUCTS_SKINNY_GEMM_H

#include "tensor/kernels/vector/halves.h"
#include "tensor/kernels/products/products.h"
#include "tensor/kernels/products/row_sums.h"
#include "tensor/kernels/vector/variant.h"

enum {
  STRIP = VEC_BYTES == 64 ? 6 : 2, /* rows of weights whose sums with GROUP rows of x fit in registers */
  GROUP = 4,                       /* maximum number of rows of x in a tile */
  X_BYTES = 32 << 10,              /* bytes of x that stay in L1 while the weights stream by */
  LEAST_VECTORS = 32,              /* minimum number of vectors in a piece */
  MOST_KEPT = 32,                  /* maximum number of rows of x whose sums stay in memory between pieces */
  PREFETCH_BYTES = 8192,           /* minimum prefetch distance of weights, with few rows of x */
  MOST_PREFETCHED = 3,             /* rows of a strip that one tile prefetches */
  PREFETCH_AFTER = 12 << 10,       /* bytes of the next product's weights to prefetch */
  LINE = 64
};
_Static_assert(STRIP *GROUP <= MOST_SUMS, "a tile's sums are written at once");

/* The types of x and of the weights: x of the table's type with weights of the same type, F16 or BF16; or
   both BF16, with BF16 dot products. */
typedef enum skinny_kind { SKINNY_REAL, SKINNY_F16, SKINNY_BF16, SKINNY_BF16_DOT } skinny_kind;

/* Returns the number of independent chains of sums. If weights are widened there are two, because a single
   chain would be slower than memory. */
ALWAYS_INLINE int skinny_chains(const skinny_kind kind) {
  return kind == SKINNY_F16 || kind == SKINNY_BF16 ? 2 : 1;
}

typedef struct skinny_call {
  int64_t rows, in, out;
  const char *x, *weight;
  size_t x_bytes, weight_bytes; /* bytes of a row of x; bytes of a row of weights */
  const char *packed; /* SKINNY_BF16_DOT with several rows: x in the order of tiles, in whole lines */
  const real *bias;   /* [out], or NULL */
  real *y;
  bool accumulate;
} skinny_call;

/* Prefetches into L2 the first weights of the product after a part. The loops prefetch only what follows
   their own rows, and these weights are elsewhere. */
static inline void skinny_prefetch_after(const skinny_call *call, const product_part *part) {
  if (!part->after) return;
  const char *weight = part->after->weight;
  const size_t bytes = (size_t)part->after->out * call->weight_bytes;
  for (size_t at = 0; at < bytes && at < PREFETCH_AFTER; at += LINE) __builtin_prefetch(weight + at, 0, 2);
}

/* Returns a copy of the call with one product's weights, bias and y. */
static inline skinny_call skinny_call_of(const skinny_call *call, const ch_product *product) {
  skinny_call own = *call;
  own.out = product->out, own.weight = product->weight, own.bias = product->bias, own.y = product->y;
  return own;
}

ALWAYS_INLINE int skinny_step(const skinny_kind kind) {
  return kind == SKINNY_REAL ? VL : 2 * VL;
}

ALWAYS_INLINE size_t skinny_x_size(const skinny_kind kind) {
  return kind == SKINNY_BF16_DOT ? sizeof(uint16_t) : sizeof(real);
}

ALWAYS_INLINE size_t skinny_weight_size(const skinny_kind kind) {
  return kind == SKINNY_REAL ? sizeof(real) : sizeof(uint16_t);
}

#ifdef __AVX512BF16__
ALWAYS_INLINE vec add_products(const skinny_kind kind, vec sum, vec w, vec x) {
  if (kind != SKINNY_BF16_DOT) return vec_fma(w, x, sum);
  return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x);
}
#else
ALWAYS_INLINE vec add_products(const skinny_kind kind, vec sum, vec w, vec x) {
  (void)kind;
  return vec_fma(w, x, sum);
}
#endif

/* Loads a whole vector, or `left` elements and zeros. */
ALWAYS_INLINE vec load_skinny_weights(const skinny_kind kind, const char *from, int64_t left) {
  if (kind == SKINNY_BF16_DOT) return load_pairs(from, left);
  if (kind == SKINNY_F16) return load_f16((const uint16_t *)(const void *)from, left);
  if (kind == SKINNY_BF16) return load_bf16((const uint16_t *)(const void *)from, left);
  return load_some((const real *)(const void *)from, left);
}

ALWAYS_INLINE vec load_skinny_x(const skinny_kind kind, const char *from, int64_t left) {
  if (kind == SKINNY_BF16_DOT) return load_pairs(from, left);
  return load_some((const real *)(const void *)from, left);
}

/* Addresses of the weights that a tile prefetches while it runs. `next` is used first and goes to L1. `later` is
   used after that and goes to L2, because L1 can wait for few lines at a time. */
typedef struct skinny_ahead {
  const char *next, *later;
} skinny_ahead;

/* Returns the address of row r of up to six. It is computed from the address of the first or fourth row; two
   addresses fit in registers. */
ALWAYS_INLINE const char *skinny_row(const char *first, const char *fourth, size_t row_bytes, const int r) {
  return r < 3 ? first + (size_t)r * row_bytes : fourth + (size_t)(r - 3) * row_bytes;
}

/* The position of a tile: the addresses of its first and fourth row of x and of the weights. */
typedef struct skinny_cursor {
  const char *x, *fourth_x, *weight, *fourth_weight;
  size_t x_row, weight_row; /* bytes from row to row */
} skinny_cursor;

ALWAYS_INLINE skinny_cursor skinny_moved(skinny_cursor at, int64_t x_bytes, int64_t weight_bytes) {
  at.x += x_bytes, at.fourth_x += x_bytes;
  at.weight += weight_bytes, at.fourth_weight += weight_bytes;
  return at;
}

/* One vector of a tile: sum[r * outs + o] += x[r] w[o]. */
ALWAYS_INLINE void skinny_tile_vector(const skinny_kind kind, const int rows, const int outs,
                                      const skinny_cursor *at, int64_t left, vec *sum) {
  vec v[GROUP];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) {
    v[r] = load_skinny_x(kind, skinny_row(at->x, at->fourth_x, at->x_row, r), left);
    if (outs > 1) KEEP_LOADED(v[r]);
  }
#pragma GCC unroll 8
  for (int o = 0; o < outs; o++) {
    vec w = load_skinny_weights(kind, skinny_row(at->weight, at->fourth_weight, at->weight_row, o), left);
    if (rows > 1) KEEP_LOADED(w);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r * outs + o] = add_products(kind, sum[r * outs + o], w, v[r]);
  }
}

ALWAYS_INLINE void skinny_tile_step(const skinny_kind kind, const int rows, const int outs,
                                    const skinny_cursor *at, int64_t left, vec *sum) {
#pragma GCC unroll 2
  for (int chain = 0; chain < skinny_chains(kind); chain++)
    if (chain == 0 || left > chain * VL) {
      const skinny_cursor here = skinny_moved(*at, chain * VL * (int64_t)skinny_x_size(kind),
                                              chain * VL * (int64_t)skinny_weight_size(kind));
      skinny_tile_vector(kind, rows, outs, &here, left - chain * VL, sum + chain * rows * outs);
    }
}

/* The beginning of a piece of a strip: weight row `out`, element `from`. */
typedef struct skinny_spot {
  int64_t out, from;
} skinny_spot;

/* A tile: rows row ... row + rows - 1 of x with weight rows out ... out + outs - 1. */
typedef struct skinny_place {
  int64_t row, out;
} skinny_place;

/* Returns the bytes of x from one row of a tile to the next. */
ALWAYS_INLINE size_t skinny_x_row(const skinny_kind kind, const skinny_call *c) {
  return kind == SKINNY_BF16_DOT ? LINE : c->x_bytes;
}

/* Returns the bytes of x from one step of a tile to the next. */
ALWAYS_INLINE size_t skinny_x_step(const skinny_kind kind, const int rows) {
  return kind == SKINNY_BF16_DOT ? (size_t)rows * LINE : (size_t)skinny_step(kind) * skinny_x_size(kind);
}

/* Returns the address of element i of row `row`. i begins a step, and `row` begins a tile of `rows` rows. */
ALWAYS_INLINE const char *skinny_x_at(const skinny_kind kind, const int rows, const skinny_call *c,
                                      int64_t row, int64_t i) {
  if (kind != SKINNY_BF16_DOT) return c->x + (size_t)row * c->x_bytes + (size_t)i * skinny_x_size(kind);
  return c->packed + ch_gemv_room(row, c->in) + (size_t)(i / skinny_step(kind)) * skinny_x_step(kind, rows);
}

ALWAYS_INLINE const char *skinny_weight_at(const skinny_kind kind, const skinny_call *c, skinny_spot spot) {
  return c->weight + (size_t)spot.out * c->weight_bytes + (size_t)spot.from * skinny_weight_size(kind);
}

/* Adds the products of elements from ... to - 1 of a tile to `sum`, and prefetches `prefetched` rows of what
   is ahead. */
ALWAYS_INLINE void skinny_tile_sums(const skinny_kind kind, const int rows, const int outs,
                                    const int prefetched, const skinny_call *c, skinny_place at, int64_t from,
                                    int64_t to, skinny_ahead ahead, vec *sum) {
  const int step = skinny_step(kind);
  const size_t weight_step = (size_t)step * skinny_weight_size(kind), weight_row = c->weight_bytes;
  const char *x = skinny_x_at(kind, rows, c, at.row, from);
  const char *weight = skinny_weight_at(kind, c, (skinny_spot){at.out, from});
  skinny_cursor here = {
      x, x + 3 * skinny_x_row(kind, c), weight, weight + 3 * weight_row, skinny_x_row(kind, c), weight_row};
  int64_t left = to - from;
  for (; left >= step; left -= step) {
#pragma GCC unroll 4
    for (int o = 0; o < prefetched; o++) {
      __builtin_prefetch(ahead.next + (size_t)o * weight_row);
      if (prefetched > 1) __builtin_prefetch(ahead.later + (size_t)o * weight_row, 0, 2);
    }
    skinny_tile_step(kind, rows, outs, &here, step, sum);
    here = skinny_moved(here, (int64_t)skinny_x_step(kind, rows), (int64_t)weight_step);
    ahead.next += weight_step, ahead.later += weight_step;
  }
  if (left > 0) skinny_tile_step(kind, rows, outs, &here, left, sum);
}

ALWAYS_INLINE void skinny_tile_write(const skinny_kind kind, const int rows, const int outs,
                                     const skinny_call *c, skinny_place at, vec *sum) {
#pragma GCC unroll 32
  for (int j = 0; j < (skinny_chains(kind) - 1) * rows * outs; j++) sum[j] += sum[rows * outs + j];
  write_row_sums(rows, outs, sum, c->bias ? c->bias + at.out : NULL, c->y + at.row * c->out + at.out, c->out,
                 c->accumulate);
}

/* Adds elements from ... to - 1 of a tile. The sums are carried from piece to piece. */
ALWAYS_INLINE void skinny_tile(const skinny_kind kind, const int rows, const int outs, const int prefetched,
                               const skinny_call *c, skinny_place at, int64_t from, int64_t to,
                               skinny_ahead ahead, vec *kept) {
  const int sums = rows * outs * skinny_chains(kind);
  vec sum[GROUP * STRIP];
#pragma GCC unroll 32
  for (int j = 0; j < sums; j++) sum[j] = from > 0 ? kept[j] : splat(0);
  skinny_tile_sums(kind, rows, outs, prefetched, c, at, from, to, ahead, sum);
  if (to == c->in) {
    skinny_tile_write(kind, rows, outs, c, at, sum);
    return;
  }
#pragma GCC unroll 32
  for (int j = 0; j < sums; j++) kept[j] = sum[j];
}

/* Returns the piece of weights after `spot`. */
ALWAYS_INLINE skinny_spot skinny_after(const skinny_call *c, const int outs, int64_t piece,
                                       skinny_spot spot) {
  if (spot.from + piece < c->in) return (skinny_spot){spot.out, spot.from + piece};
  return (skinny_spot){spot.out + outs, 0};
}

/* Returns the memory that tile g of a piece prefetches: its share of the next piece and of the one after it.
   If there is only one tile, it prefetches the whole next piece. With a single row of weights, the memory is
   PREFETCH_BYTES ahead. */
ALWAYS_INLINE skinny_ahead skinny_prefetched(const skinny_kind kind, const int outs, const int prefetched,
                                             const skinny_call *c, int64_t piece, skinny_spot spot,
                                             int groups, int g) {
  const char *here = skinny_weight_at(kind, c, spot);
  if (outs == 1) return (skinny_ahead){here + PREFETCH_BYTES, here};
  if (g * prefetched >= outs) return (skinny_ahead){here, here};
  const size_t share = (size_t)prefetched * c->weight_bytes;
  const skinny_spot after = skinny_after(c, outs, piece, spot);
  const char *next = skinny_weight_at(kind, c, after) + (size_t)g * share;
  if (groups == 1) return (skinny_ahead){next, next + share};
  return (skinny_ahead){next,
                        skinny_weight_at(kind, c, skinny_after(c, outs, piece, after)) + (size_t)g * share};
}

/* Multiplies all rows of x with a piece of a strip of weights, elements from spot.from to `to` - 1. */
ALWAYS_INLINE void skinny_piece(const skinny_kind kind, const int outs, const int prefetched,
                                const skinny_call *c, int64_t piece, skinny_spot spot, int64_t to,
                                vec *kept) {
  const int groups = (int)((c->rows + GROUP - 1) / GROUP);
  for (int g = 0; g < groups; g++, kept += GROUP * STRIP) {
    const skinny_ahead ahead = skinny_prefetched(kind, outs, prefetched, c, piece, spot, groups, g);
    const skinny_place at = {(int64_t)g * GROUP, spot.out};
    switch (c->rows - at.row) {
    case 1:
      skinny_tile(kind, 1, outs, prefetched, c, at, spot.from, to, ahead, kept);
      break;
    case 2:
      skinny_tile(kind, 2, outs, prefetched, c, at, spot.from, to, ahead, kept);
      break;
    case 3:
      skinny_tile(kind, 3, outs, prefetched, c, at, spot.from, to, ahead, kept);
      break;
    default:
      skinny_tile(kind, 4, outs, prefetched, c, at, spot.from, to, ahead, kept);
      break;
    }
  }
}

/* Returns the number of elements in a piece. With more than GROUP and at most MOST_KEPT rows, a piece of all rows
   of x stays in L1 while the weights stream by. Otherwise a piece is a whole row. */
static inline int64_t skinny_piece_length(const skinny_kind kind, const skinny_call *c) {
  if (c->rows <= GROUP || c->rows > MOST_KEPT) return c->in;
  const int64_t size = (int64_t)skinny_x_size(kind);
  const int64_t step = skinny_step(kind), least = LEAST_VECTORS * (step / skinny_chains(kind)),
                room = X_BYTES / size / c->rows, most = room > least ? room : least,
                pieces = (c->in + most - 1) / most;
  return pieces <= 1 ? c->in : ((c->in + pieces - 1) / pieces + step - 1) / step * step;
}

ALWAYS_INLINE void skinny_strips(const skinny_kind kind, const int outs, const int prefetched,
                                 const skinny_call *c, int64_t *first, int64_t last) {
  vec kept[MOST_KEPT * STRIP];
  const int64_t piece = skinny_piece_length(kind, c);
  for (; *first + outs <= last; *first += outs)
    for (int64_t from = 0; from == 0 || from < c->in; from += piece)
      skinny_piece(kind, outs, prefetched, c, piece, (skinny_spot){*first, from},
                   c->in - from < piece ? c->in : from + piece, kept);
}

/* Multiplies a single row of x with weight rows first ... last - 1. It reads weights in their order in memory and
   has only the chains of sums in registers. */
ALWAYS_INLINE void skinny_one(const skinny_kind kind, const skinny_call *c, int64_t first, int64_t last) {
  const int step = skinny_step(kind);
  const size_t size = skinny_weight_size(kind),
               ahead = (1 + PREFETCH_BYTES / (c->weight_bytes + 1)) * c->weight_bytes;
  for (int64_t o = first; o < last; o++) {
    const char *weight = c->weight + (size_t)o * c->weight_bytes;
    vec sum[VL + 2];
    for (int chain = 0; chain < skinny_chains(kind); chain++) sum[chain] = splat(0);
    skinny_cursor at = {.x = c->x, .weight = weight};
    int64_t left = c->in;
#pragma GCC unroll 2
    for (; left >= step; left -= step) {
      __builtin_prefetch(at.weight + ahead);
      skinny_tile_step(kind, 1, 1, &at, step, sum);
      at = skinny_moved(at, step * (int64_t)skinny_x_size(kind), step * (int64_t)size);
    }
    if (left > 0) skinny_tile_step(kind, 1, 1, &at, left, sum);
    skinny_tile_write(kind, 1, 1, c, (skinny_place){0, o}, sum);
  }
}

/* Multiplies all rows of x with weight rows first ... last - 1. If x has two rows and they fit in L1, weight rows
   are taken one by one. That is faster, because weights are then read in their order in memory. */
ALWAYS_INLINE void skinny_range(const skinny_kind kind, const skinny_call *c, int64_t first, int64_t last) {
  enum { MOST = STRIP < MOST_PREFETCHED ? STRIP : MOST_PREFETCHED };
  if (c->rows == 1) {
    skinny_one(kind, c, first, last);
    return;
  }
  const int outs = STRIP / skinny_chains(kind);
  if (c->rows > 2 * GROUP)
    skinny_strips(kind, outs, MOST - 1, c, &first, last);
  else if (c->rows > 2 || (size_t)c->rows * c->x_bytes > X_BYTES)
    skinny_strips(kind, outs, MOST, c, &first, last);
  skinny_strips(kind, 1, 1, c, &first, last);
}

#endif
