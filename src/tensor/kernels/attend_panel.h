/* Streaming attention's panels: up to 64 columns (queries of the heads of one key-value head) that stay in cache
 * while blocks of keys and values pass by. Shared by the forward pass over many queries, over few, and the backward
 * pass.
 */
#ifndef CH_KERNELS_ATTEND_PANEL_H
#define CH_KERNELS_ATTEND_PANEL_H

#include "tensor/kernels/attend_columns.h"
#include "tensor/kernels/attend_states.h"
#include "tensor/kernels/tile_product.h"

enum { PANEL = 64, BLOCK = CH_ATTEND_BLOCK, PANEL_VECTORS = PANEL / VL };

/* Rows of another shape than the memory they come from: one address each. */
typedef struct row_list {
  const real *row[PANEL];
} row_list;

/* Where a column's query stands. Columns of a key-value head go through the queries, so that the keys they see end
   later and later, and for each query through the heads of the group. */
typedef struct column_place {
  int64_t query, head, first_head, end_head;
} column_place;

static inline column_place place_of(const ch_attend *args, int64_t kv_head, int64_t column) {
  int64_t group = args->heads / args->kv_heads;
  return (column_place){column / group, kv_head * group + column % group, kv_head * group,
                        (kv_head + 1) * group};
}

static inline void next_column(column_place *at) {
  if (++at->head < at->end_head) return;
  at->head = at->first_head;
  at->query++;
}

/* Where the rows [dim] of a tensor [sequences, queries, heads, dim] lie: those of queries and their gradients, as
   strides say; those of outputs and theirs. */
typedef struct token_rows {
  const real *data;
  int64_t dim, head, token; /* elements between heads, and between tokens */
} token_rows;

static inline token_rows query_rows(const ch_attend *args, const void *tensor) {
  const ch_head_strides *strides = &args->q_strides;
  return (token_rows){tensor, args->key_dim, strides->head > 0 ? strides->head : args->key_dim,
                      strides->token > 0 ? strides->token : args->heads * args->key_dim};
}

static inline token_rows output_rows(const ch_attend *args, const void *tensor) {
  return (token_rows){tensor, args->value_dim, args->value_dim, args->heads * args->value_dim};
}

static inline const real *row_of(const ch_attend *args, const token_rows *rows, int64_t sequence,
                                 const column_place *at) {
  return rows->data + (sequence * args->queries + at->query) * rows->token + at->head * rows->head;
}

/* Place in log-sum-exps [sequences, heads, queries]. */
static inline int64_t lse_of(const ch_attend *args, int64_t sequence, const column_place *at) {
  return (sequence * args->heads + at->head) * args->queries + at->query;
}

/* The rows that belong to `count` columns from the place. */
static inline void list_rows(const ch_attend *args, const token_rows *rows, int64_t sequence, column_place at,
                             int64_t count, row_list *list) {
  for (int64_t i = 0; i < count; i++, next_column(&at)) list->row[i] = row_of(args, rows, sequence, &at);
}

/* The same memory, to be asked for ahead. */
static inline upcoming upcoming_columns(const ch_attend *args, token_rows rows, int64_t sequence,
                                        int64_t kv_head, int64_t first, int64_t count) {
  int64_t group = args->heads / args->kv_heads, size = (int64_t)sizeof(real);
  column_place begin = place_of(args, kv_head, first), at = {begin.query, begin.first_head, 0, 0};
  return (upcoming){(const char *)row_of(args, &rows, sequence, &at),
                    (first + count - 1) / group - begin.query + 1, rows.token * size,
                    ((group - 1) * rows.head + rows.dim) * size};
}

/* packed [dim, ld] = scale * rows^T, zeros in the columns count … ld-1; ld a multiple of VL. As pairs of BF16:
   [ceil(dim / 2), ld]. */
ALWAYS_INLINE void pack_transposed(const bool pairs, const row_list *list, int64_t count, int64_t dim,
                                   real scale, real *packed, int64_t ld) {
  for (int64_t i = 0; i < ld; i += VL)
    for (int64_t k = 0; k < dim; k += VL) {
      vec square[VL];
      for (int64_t j = 0; j < VL; j++)
        square[j] = i + j < count ? load_some(list->row[i + j] + k, dim - k) * scale : splat(0);
      transpose_lanes(square);
      int64_t rows = dim - k < VL ? dim - k : VL;
      for (int64_t j = 0; !pairs && j < rows; j++) store(packed + (k + j) * ld + i, square[j]);
      for (int64_t j = 0; pairs && j < rows; j += 2)
        store(packed + (k + j) / 2 * ld + i, (vec)paired(square[j], square[j + 1]));
    }
}

/* y [dim padded to whole vectors with zeros] = scale * x. */
ALWAYS_INLINE void copy_row(const real *x, int64_t dim, real scale, real *y) {
  int64_t k = 0;
  for (; k + VL <= dim; k += VL) store(y + k, load(x + k) * scale);
  if (k < dim) store(y + k, load_part(x + k, dim - k) * scale);
}

/* Rows [count, dim] of a list, each padded to whole vectors with zeros, times scale; or pairs of two rows, the last with zeros
   where it has none: [ceil(count / 2)]. */
ALWAYS_INLINE void copy_columns(const bool pairs, const row_list *list, int64_t count, int64_t dim,
                                real scale, real *y) {
  int64_t padded = round_up(dim, VL);
  for (int64_t i = 0; !pairs && i < count; i++) copy_row(list->row[i], dim, scale, y + i * padded);
  for (int64_t i = 0; pairs && i < count; i += 2)
    for (int64_t k = 0; k < dim; k += VL, y += VL)
      store(y, (vec)paired(load_some(list->row[i] + k, dim - k) * scale,
                           i + 1 < count ? load_some(list->row[i + 1] + k, dim - k) * scale : splat(0)));
}

/* y [dim] = (or +=) scale * x. */
ALWAYS_INLINE void put_row(const real *x, int64_t dim, real scale, real *y, bool accumulate) {
  for (int64_t k = 0; k < dim; k += VL) {
    vec value = load_some(x + k, dim - k) * scale;
    store_some(y + k, accumulate ? load_some(y + k, dim - k) + value : value, dim - k);
  }
}

/* Which part of S^T [rows, vectors] in a block anybody sees: vector v of columns the first seen[v] rows, columns i …
   i+TILE_ROWS-1 the first column_rows[i / TILE_ROWS]. */
typedef struct block_shape {
  int64_t rows, vectors, ld; /* ld = vectors * VL */
  int64_t seen[PANEL_VECTORS], column_rows[PANEL / TILE_ROWS];
  bool masked;
} block_shape;

static inline void shape_block(const query_columns *c, int64_t first, int64_t rows, block_shape *shape) {
  shape->rows = rows;
  shape->ld = c->padded;
  shape->vectors = c->padded / VL;
  shape->masked = needs_mask(c, first, rows);
  for (int64_t v = 0; v < shape->vectors; v++)
    shape->seen[v] = shape->masked ? rows_seen(c, v * VL, VL, first, rows) : rows;
  for (int64_t i = 0; i < c->count; i += TILE_ROWS)
    shape->column_rows[i / TILE_ROWS] = shape->masked ? rows_seen(c, i, TILE_ROWS, first, rows) : rows;
}

/* The first vector of columns that sees key row r. */
static inline int64_t first_vector(const block_shape *shape, int64_t r) {
  int64_t v = 0;
  while (v < shape->vectors && shape->seen[v] <= r) v++;
  return v;
}

static inline int at_most(int64_t n, int most) {
  return n < most ? (int)n : most;
}

/* S^T [rows, columns] = X Y where X [rows, dim] are tile rows and Y [dim, ld] is packed; either of reals or of pairs. */
static inline void score_block(const block_shape *shape, bool pairs, const real *x, int64_t stride,
                               int64_t dim, const real *packed, real *scores, const upcoming *next) {
  tile_function *tile = pairs ? tile_pair_rows : tile_rows;
  if (pairs) dim = (dim + 1) / 2;
  for (int64_t v = 0; v < shape->vectors; v += TILE_VECTORS) {
    int64_t end = v + at_most(shape->vectors - v, TILE_VECTORS);
    for (int64_t r = 0; r < shape->rows; r += TILE_ROWS) {
      if (v == 0) fetch_share(next, r / TILE_ROWS, (shape->rows + TILE_ROWS - 1) / TILE_ROWS);
      int64_t begin = first_vector(shape, r);
      if (begin < v) begin = v;
      if (begin >= end) continue;
      tile((int)(end - begin), at_most(shape->rows - r, TILE_ROWS), dim, x + r * stride, stride,
           packed + begin * VL, shape->ld, scores + r * shape->ld + begin * VL, shape->ld, false);
    }
  }
}

/* Y [columns, dim] (+)= W X: for every column the sum of tile rows X [rows, dim padded] with weights W^T [rows, ld]. Of pairs,
   both have two rows in one. */
static inline void sum_over_keys(const block_shape *shape, bool pairs, int64_t count, const real *weights,
                                 const real *x, int64_t stride, int64_t dim, real *y, bool accumulate,
                                 const upcoming *next) {
  tile_function *tile = pairs ? tile_pair_columns : tile_columns;
  int64_t padded = round_up(dim, VL), vectors = padded / VL;
  for (int64_t v = 0; v < vectors; v += TILE_VECTORS)
    for (int64_t i = 0; i < count; i += TILE_ROWS) {
      if (v == 0) fetch_share(next, i / TILE_ROWS, (count + TILE_ROWS - 1) / TILE_ROWS);
      int64_t rows = shape->column_rows[i / TILE_ROWS];
      tile(at_most(vectors - v, TILE_VECTORS), at_most(count - i, TILE_ROWS), pairs ? (rows + 1) / 2 : rows,
           weights + i, shape->ld, x + v * VL, stride, y + i * padded + v * VL, padded, accumulate);
    }
}

/* Weights that nobody asked for, where the products above and below read them in whole tiles. */
static inline void clear_unseen(const block_shape *shape, real *weights) {
  for (int64_t v = 0; v < shape->vectors; v++)
    for (int64_t r = shape->seen[v]; r < shape->rows; r++) store(weights + r * shape->ld + v * VL, splat(0));
}

/* Weights [rows, ld] as pairs [ceil(rows / 2), ld] of two rows, in place; those that nobody asked for are zeros. */
static inline void pair_up_weights(const block_shape *shape, real *weights) {
  for (int64_t v = 0; v < shape->vectors; v++) {
    real *at = weights + v * VL, *to = at;
    for (int64_t r = 0; r < shape->rows; r += 2, at += 2 * shape->ld, to += shape->ld) {
      vec first = r < shape->seen[v] ? load(at) : splat(0);
      vec second = r + 1 < shape->seen[v] ? load(at + shape->ld) : splat(0);
      store(to, (vec)paired(first, second));
    }
  }
}

/* What the files of attention offer one another. */
#define attend_start_panel KERNEL(attend_start_panel)
#define attend_meet_block KERNEL(attend_meet_block)
#define attend_rescale KERNEL(attend_rescale)
#define attend_write KERNEL(attend_write)
#define attend_is_few KERNEL(attend_is_few)
#define attend_few KERNEL(attend_few)
#define attend_few_scratch KERNEL(attend_few_scratch)
#define attend_backward_scratch KERNEL(attend_backward_scratch)

/* A panel in the forward pass. */
typedef struct forward_panel {
  query_columns columns;
  int64_t first_column;
  real *q;             /* [key_dim, padded columns], scaled; or pairs of them */
  real *sum;           /* [columns, value_dim padded]: weights times values, on the scale of columns.max */
  bool started, pairs; /* pairs: what products multiply is rounded */
} forward_panel;

static inline void carve_panel(const ch_attend *args, carver *from, forward_panel *panel) {
  carve_columns(from, PANEL, &panel->columns);
  panel->q = carve_reals(from, args->key_dim * PANEL);
  panel->sum = carve_reals(from, PANEL * round_up(args->value_dim, VL));
}

/* Columns first … first+count-1 of a key-value head begin, or go on. */
void attend_start_panel(const ch_attend *args, int64_t sequence, int64_t kv_head, int64_t first,
                        int64_t count, forward_panel *panel);

/* The panel takes in the keys first … first+rows-1 and their values, rounded to pairs where the panel's queries are (pair_block).
   `scores`: SCORES reals. */
enum { SCORES = BLOCK * PANEL + TILE_ROWS };
void attend_meet_block(const ch_attend *args, forward_panel *panel, int64_t first, int64_t rows,
                       const block_rows *block, real *scores, const upcoming *next_keys,
                       const upcoming *next_values);

/* Brings the sums [VL, padded] of a vector of columns, `count` of them real, to a new scale. */
void attend_rescale(real *sums, int64_t padded, const real *factors, int64_t count);

/* A column's output, scale times its weighted sum of values (zeros for a scale of 0), and its log-sum-exp. */
void attend_write(const ch_attend *args, int64_t sequence, const column_place *at, const real *weighted,
                  real scale, real lse);

/* The two ways forward, and which one a shape takes. */
bool attend_is_few(const ch_attend *args);
/* Whether products multiply pairs of BF16, forward and backward. Few queries read states as these are. */
static inline bool takes_pairs(const ch_attend *args) {
  return HAVE_PAIRS && args->may_round && !attend_is_few(args);
}
void attend_few(const ch_attend *args);
size_t attend_few_scratch(const ch_attend *args);
size_t attend_backward_scratch(const ch_attend *args);

#endif
