/* Skinny GEMM with BF16 weights, computed in F32: y = x W^T. It serves processors whose BF16 dot products are
 * missing or no faster than F32.
 *
 * Widening should cost little compared with the products. Of 32 weights, a shift makes F32 of those at even
 * places, and a mask of those at odd ones. x is packed once in the same order: step by step of 32 elements,
 * row by row of a group, even elements first. A group of up to eight rows of x is multiplied with three rows
 * of weights at a time. Its part of x stays in L1 while it passes over a block of weights. The block stays in
 * L2 for all groups, and meanwhile the next block is prefetched.
 *
 * Each element of y is one chain of sums along its row of weights, whatever the number of rows: the result
 * for a row does not depend on the other rows. */
#include <omp.h>

#include "tensor/kernels/vector/halves.h"
#include "tensor/kernels/vector/lanes.h"
#include "tensor/kernels/products/products.h"
#include "tensor/kernels/products/row_sums.h"
#include "tensor/kernels/vector/variant.h"

#ifdef CH_SPLIT_BF16_WEIGHTS

enum {
  STEP = 2 * VL,
  WEIGHT_STEP = STEP * (int)sizeof(uint16_t), /* bytes: a line */
  GROUP = 8,                                  /* maximum number of rows of x in a group */
  STRIP = MOST_SUMS / GROUP,                  /* rows of weights in a strip */
  GROUP_BYTES = 24 << 10, /* bytes of a group's x that stay in L1 while the weights stream by */
  ROW_BYTES = 8 << 10,    /* bytes of x that stay in L1 if x has a single row */
  BLOCK_BYTES = 64 << 10, /* bytes of weights that stay in L2, with at least LEAST_STRIPS strips */
  LEAST_STRIPS = 4,       /* minimum number of strips in a block */
  MOST_STRIPS = 16        /* maximum number of strips in a block */
};

typedef struct split_call {
  int64_t rows, in, out;
  const real *x;              /* x in the order of lay_out, group after group */
  const char *weight, *after; /* after: weights that the thread reads next */
  int64_t rows_after;         /* rows of `after` */
  const real *bias;
  real *y;
  bool accumulate;
} split_call;

static inline int64_t steps_of(const split_call *c) {
  return (c->in + STEP - 1) / STEP;
}

static inline int64_t weight_row(const split_call *c) {
  return c->in * (int64_t)sizeof(uint16_t);
}

/* Rows of x that are multiplied together. There are as many groups as needed, of nearly the same size. */
typedef struct row_group {
  int64_t first, rows;
  const real *x;
} row_group;

static inline int64_t groups_of(const split_call *c) {
  return (c->rows + GROUP - 1) / GROUP;
}

ALWAYS_INLINE row_group group_number(const split_call *c, int64_t g) {
  const int64_t groups = groups_of(c), first = c->rows * g / groups;
  return (row_group){first, c->rows * (g + 1) / groups - first, c->x + first * steps_of(c) * STEP};
}

/* --- tiles ---------------------------------------------------------------------------------------------- */

/* Returns the even or odd elements of VL pairs of BF16 as F32. */
ALWAYS_INLINE vec half_of(vec pairs, const bool odd) {
  return odd ? (vec)((ivec)pairs & (int)0xffff0000) : (vec)((ivec)pairs << 16);
}

/* Adds the products of the even or the odd elements of a step: sum[r * outs + o] += x[r] w[o]. */
ALWAYS_INLINE void add_half(const int rows, const int outs, const bool odd, const real *x, const vec *pairs,
                            vec *sum) {
  vec w[STRIP];
#pragma GCC unroll 4
  for (int o = 0; o < outs; o++) w[o] = half_of(pairs[o], odd);
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    vec v = load(x + r * STEP + (odd ? VL : 0));
    if (outs > 1) KEEP_LOADED(v);
#pragma GCC unroll 4
    for (int o = 0; o < outs; o++) sum[r * outs + o] = vec_fma(w[o], v, sum[r * outs + o]);
  }
}

/* Adds a step of which `left` elements exist. */
ALWAYS_INLINE void add_step(const int rows, const int outs, const real *x, const char *weight, int64_t row,
                            int64_t left, vec *sum) {
  vec pairs[STRIP];
#pragma GCC unroll 4
  for (int o = 0; o < outs; o++) {
    pairs[o] = load_pairs(weight + o * row, left);
    if (rows > 1) KEEP_LOADED(pairs[o]);
  }
  add_half(rows, outs, false, x, pairs, sum);
  add_half(rows, outs, true, x, pairs, sum);
}

/* A part of a strip, and the weights to prefetch meanwhile. */
typedef struct strip_part {
  int64_t out, from, to;    /* out: first row of weights; steps from ... to - 1 */
  const char *next, *later; /* next: same part of the next strip, for L1; later: next block, for L2 */
} strip_part;

ALWAYS_INLINE void add_part(const int rows, const int outs, const int prefetched, const split_call *c,
                            const row_group *group, const strip_part *part, vec *kept) {
  const int64_t row = weight_row(c);
  const char *weight = c->weight + part->out * row + part->from * WEIGHT_STEP, *next = part->next,
             *later = part->later;
  const real *x = group->x + part->from * rows * STEP;
  const bool ends = part->to == steps_of(c);
  int64_t left = (ends ? c->in : part->to * STEP) - part->from * STEP;
  vec sum[MOST_SUMS];
#pragma GCC unroll 32
  for (int j = 0; j < rows * outs; j++) sum[j] = part->from > 0 ? kept[j] : splat(0);
  for (; left >= STEP; left -= STEP) {
#pragma GCC unroll 4
    for (int o = 0; o < outs; o++) __builtin_prefetch(next + o * row, 0, 3);
#pragma GCC unroll 4
    for (int i = 0; i < prefetched; i++) __builtin_prefetch(later + i * WEIGHT_STEP, 0, 2);
    add_step(rows, outs, x, weight, row, STEP, sum);
    x += rows * STEP, weight += WEIGHT_STEP, next += WEIGHT_STEP, later += prefetched * WEIGHT_STEP;
  }
  if (left > 0) add_step(rows, outs, x, weight, row, left, sum);
  if (!ends) {
#pragma GCC unroll 32
    for (int j = 0; j < rows * outs; j++) kept[j] = sum[j];
    return;
  }
  write_row_sums(rows, outs, sum, c->bias ? c->bias + part->out : NULL,
                 c->y + group->first * c->out + part->out, c->out, c->accumulate);
}

/* --- the order of parts --------------------------------------------------------------------------------- */

/* Strips of weights that are multiplied with all groups before the next strips. */
typedef struct strip_block {
  int64_t out, strips, end; /* first row of weights; number of strips; end of the thread's rows */
} strip_block;

/* The memory to prefetch during a block: `rows` rows of weights. */
typedef struct coming_rows {
  const char *weight;
  int64_t rows;
} coming_rows;

/* Returns the next block of this product, or else the beginning of the thread's rows of the next product. */
static inline coming_rows coming_after(const split_call *c, int64_t first, int64_t most, int64_t end) {
  if (first < end)
    return (coming_rows){c->weight + first * weight_row(c), most < end - first ? most : end - first};
  return (coming_rows){c->after, most < c->rows_after ? most : c->rows_after};
}

/* Multiplies a block with a group. Together, the parts of a block prefetch the next block in the order of
   memory, over all groups. */
ALWAYS_INLINE void add_block(const int rows, const int outs, const int prefetched, const split_call *c,
                             const strip_block *block, const row_group *group, int64_t g) {
  vec kept[MOST_STRIPS][MOST_SUMS];
  const int64_t row = weight_row(c), own = block->strips * outs;
  const coming_rows coming = coming_after(c, block->out + own, own, block->end);
  const int64_t steps = steps_of(c),
                most = (c->rows == 1 ? ROW_BYTES : GROUP_BYTES / GROUP) / (STEP * (int64_t)sizeof(real)),
                pieces = steps > most ? (steps + most - 1) / most : 1,
                parts = groups_of(c) * pieces * block->strips;
  const char *weight = c->weight + block->out * row;
  for (int64_t p = 0; p < pieces; p++)
    for (int64_t strip = 0; strip < block->strips; strip++) {
      const int64_t from = steps * p / pieces, number = (g * pieces + p) * block->strips + strip;
      const bool inside = strip + 1 < block->strips || block->out + own < block->end;
      const char *here = weight + strip * outs * row + from * WEIGHT_STEP;
      const strip_part part = {.out = block->out + strip * outs,
                               .from = from,
                               .to = steps * (p + 1) / pieces,
                               .next = inside ? here + outs * row : here,
                               .later = coming.rows > 0 ? coming.weight + coming.rows * row * number / parts
                                                        : here};
      add_part(rows, outs, prefetched, c, group, &part, kept[strip]);
    }
}

ALWAYS_INLINE void add_block_of(const int outs, const int prefetched, const split_call *c,
                                const strip_block *block, const row_group *group, int64_t g) {
  switch (group->rows) {
#define ROWS(n)                                                                                              \
  case n:                                                                                                    \
    add_block(n, outs, prefetched, c, block, group, g);                                                      \
    break
    ROWS(1);
    ROWS(2);
    ROWS(3);
    ROWS(4);
    ROWS(5);
    ROWS(6);
    ROWS(7);
    ROWS(8);
#undef ROWS
  }
}

ALWAYS_INLINE void add_strips(const int outs, const int prefetched, const split_call *c, int64_t *first,
                              int64_t last) {
  int64_t strips = BLOCK_BYTES / (outs * weight_row(c) + 1);
  strips = strips < LEAST_STRIPS ? LEAST_STRIPS : strips > MOST_STRIPS ? MOST_STRIPS : strips;
  for (; *first + outs <= last; *first += strips * outs) {
    if (strips > (last - *first) / outs) strips = (last - *first) / outs;
    const strip_block block = {*first, strips, last};
    for (int64_t g = 0; g < groups_of(c); g++) {
      const row_group group = group_number(c, g);
      add_block_of(outs, prefetched, c, &block, &group, g);
    }
  }
}

/* --- a call --------------------------------------------------------------------------------------------- */

/* Lays x out; zeros fill the last step. */
static void lay_out(const split_call *c, const void *x, ch_dtype x_dtype, real *to) {
  for (int64_t g = 0; g < groups_of(c); g++) {
    const row_group group = group_number(c, g);
    for (int64_t i = 0; i < c->in; i += STEP)
      for (int64_t r = 0; r < group.rows; r++, to += STEP) {
        const int64_t at = (group.first + r) * c->in + i, left = c->in - i;
        if (x_dtype == CH_BF16) {
          const vec pairs = load_pairs((const uint16_t *)x + at, left);
          store(to, half_of(pairs, false));
          store(to + VL, half_of(pairs, true));
        } else {
          const real *from = (const real *)x + at;
          store_split(to, load_some(from, left), left > VL ? load_some(from + VL, left - VL) : splat(0));
        }
      }
  }
}

/* Computes this thread's share of the products, with all rows of x. Every thread packs x: reading it from
   another core's cache would be slower. */
static void split_range(const split_call *call, const void *x, ch_dtype x_dtype, char *room,
                        const ch_product *products, int64_t first, int64_t last) {
  real *mine =
      (real *)(void *)(room + (size_t)omp_get_thread_num() * ch_gemv_split_room(call->rows, call->in));
  split_call c = *call;
  c.x = mine;
  lay_out(&c, x, x_dtype, mine);
  for (product_part part; take_part(products, 1, &first, last, &part);) {
    int64_t out = part.first, left = last - first;
    c.out = part.product->out, c.weight = part.product->weight, c.bias = part.product->bias;
    c.y = part.product->y;
    c.after = part.after ? part.after->weight : NULL;
    c.rows_after = !part.after ? 0 : left < part.after->out ? left : part.after->out;
    if (c.rows > GROUP)
      add_strips(STRIP, 2, &c, &out, part.last);
    else
      add_strips(STRIP, STRIP, &c, &out, part.last);
    add_strips(1, 1, &c, &out, part.last);
  }
}

void KERNEL(gemv_split)(const ch_team *team, int64_t rows, int64_t in, const void *x, ch_dtype x_dtype,
                        void *room, int count, const ch_product *products, bool accumulate) {
  const split_call call = {.rows = rows, .in = in, .accumulate = accumulate};
  FOR_RANGE(units_of_products(count, products, 1), share_products(rows, in, count, products),
            split_range(&call, x, x_dtype, room, products, first, last));
}
#endif
