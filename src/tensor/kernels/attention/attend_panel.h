/* Panels of streaming attention: up to 64 columns (queries of the heads of one key-value head) that stay in cache
 * while blocks of keys and values pass by. The forward pass over many queries, the forward pass over few queries, and
 * the backward pass share them. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_PANEL_H
#define CH_KERNELS_ATTENTION_ATTEND_PANEL_H

#include "tensor/kernels/attention/attend_columns.h"
#include "tensor/kernels/vector/narrow.h"
#include "tensor/kernels/vector/stored_states.h"
#include "tensor/kernels/products/tile_product.h"

enum { PANEL = 64, BLOCK = CH_ATTEND_BLOCK, PANEL_VECTORS = PANEL / VL };

/* Rows that are not evenly spaced in memory: one address each. */
typedef struct row_list {
  const real *row[PANEL];
} row_list;

/* The query and the head of a column. The columns of a key-value head run through the queries, so that the
   keys they see end later and later; for each query they run through the heads of the group. */
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

/* The rows [dim] of a tensor [sequences, queries, heads, dim]. Queries and their gradients have the call's
   strides; outputs and their gradients are contiguous. */
typedef struct token_rows {
  const real *data;
  int64_t dim, head, token; /* elements of a row; from head to head; from token to token */
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

/* Returns an index into log-sum-exps [sequences, heads, queries]. */
static inline int64_t lse_of(const ch_attend *args, int64_t sequence, const column_place *at) {
  return (sequence * args->heads + at->head) * args->queries + at->query;
}

/* Lists the rows of `count` columns from `at` on. */
static inline void list_rows(const ch_attend *args, const token_rows *rows, int64_t sequence, column_place at,
                             int64_t count, row_list *list) {
  for (int64_t i = 0; i < count; i++, next_column(&at)) list->row[i] = row_of(args, rows, sequence, &at);
}

/* Returns the memory of columns first … first+count-1, extended to all heads of their queries, for
   prefetching. */
static inline upcoming upcoming_columns(const ch_attend *args, token_rows rows, int64_t sequence,
                                        int64_t kv_head, int64_t first, int64_t count) {
  int64_t group = args->heads / args->kv_heads, size = (int64_t)sizeof(real);
  column_place begin = place_of(args, kv_head, first), at = {begin.query, begin.first_head, 0, 0};
  return (upcoming){(const char *)row_of(args, &rows, sequence, &at),
                    (first + count - 1) / group - begin.query + 1, rows.token * size,
                    ((group - 1) * rows.head + rows.dim) * size};
}

/* Computes packed [dim, ld] = scale * rows^T, with zeros in the columns count … ld-1; ld is a multiple of VL.
   For BF16 dots, two elements of a row share a lane: [ceil(dim / 2), ld]. */
ALWAYS_INLINE void pack_transposed(const bool bf16_dot, const row_list *list, int64_t count, int64_t dim,
                                   real scale, real *packed, int64_t ld) {
  for (int64_t i = 0; i < ld; i += VL)
    for (int64_t k = 0; k < dim; k += VL) {
      vec square[VL];
      for (int64_t j = 0; j < VL; j++)
        square[j] = i + j < count ? load_narrow(list->row[i + j] + k, dim - k) * scale : splat(0);
      transpose_lanes(square);
      int64_t rows = dim - k < VL ? dim - k : VL;
      for (int64_t j = 0; !bf16_dot && j < rows; j++) store(packed + (k + j) * ld + i, square[j]);
      for (int64_t j = 0; bf16_dot && j < rows; j += 2)
        store(packed + (k + j) / 2 * ld + i, (vec)paired(square[j], square[j + 1]));
    }
}

/* y [dim padded to whole vectors with zeros] = scale * x. */
ALWAYS_INLINE void copy_row(const real *x, int64_t dim, real scale, real *y) {
  int64_t k = 0;
  for (; k + VL <= dim; k += VL) store(y + k, load(x + k) * scale);
  if (k < dim) store(y + k, load_narrow(x + k, dim - k) * scale);
}

/* Copies rows [count, dim] of a list times scale, each padded to whole vectors with zeros. For BF16 dots, two
   rows share lanes: [ceil(count / 2), dim padded]. A last row without a partner is paired with zeros. */
ALWAYS_INLINE void copy_columns(const bool bf16_dot, const row_list *list, int64_t count, int64_t dim,
                                real scale, real *y) {
  int64_t padded = round_up(dim, VL);
  for (int64_t i = 0; !bf16_dot && i < count; i++) copy_row(list->row[i], dim, scale, y + i * padded);
  for (int64_t i = 0; bf16_dot && i < count; i += 2)
    for (int64_t k = 0; k < dim; k += VL, y += VL)
      store(y, (vec)paired(load_narrow(list->row[i] + k, dim - k) * scale,
                           i + 1 < count ? load_narrow(list->row[i + 1] + k, dim - k) * scale : splat(0)));
}

/* y [dim] = (or +=) scale * x. */
ALWAYS_INLINE void put_row(const real *x, int64_t dim, real scale, real *y, bool accumulate) {
  for (int64_t k = 0; k < dim; k += VL) {
    vec value = load_narrow(x + k, dim - k);
    value = accumulate ? vec_fma(value, splat(scale), load_narrow(y + k, dim - k)) : value * scale;
    store_narrow(y + k, value, dim - k);
  }
}

/* The visible part of S^T [rows, vectors] of a block. No column of vector v sees a row after the first
   seen[v] rows. All its columns see all of the first clear[v] rows. Columns i … i+TILE_ROWS-1 see no row
   after the first column_rows[i / TILE_ROWS] rows. */
typedef struct block_shape {
  int64_t rows, vectors, ld; /* ld = vectors * VL */
  int64_t seen[PANEL_VECTORS], clear[PANEL_VECTORS], column_rows[(PANEL + TILE_ROWS - 1) / TILE_ROWS];
  bool masked;
} block_shape;

static inline void shape_block(const query_columns *c, int64_t first, int64_t rows, block_shape *shape) {
  shape->rows = rows;
  shape->ld = c->padded;
  shape->vectors = c->padded / VL;
  shape->masked = needs_mask(c, first, rows);
  for (int64_t v = 0; v < shape->vectors; v++) {
    shape->seen[v] = shape->masked ? rows_seen(c, v * VL, VL, first, rows) : rows;
    shape->clear[v] = shape->masked ? rows_clear(c, v * VL, VL, first, rows) : rows;
  }
  for (int64_t i = 0; i < c->count; i += TILE_ROWS)
    shape->column_rows[i / TILE_ROWS] = shape->masked ? rows_seen(c, i, TILE_ROWS, first, rows) : rows;
}

/* Returns the first vector of columns that sees key row r. */
static inline int64_t first_vector(const block_shape *shape, int64_t r) {
  int64_t v = 0;
  while (v < shape->vectors && shape->seen[v] <= r) v++;
  return v;
}

static inline int at_most(int64_t n, int most) {
  return n < most ? (int)n : most;
}

/* S^T [rows, columns] = X Y. X [rows, dim] are the rows of a tile and Y [dim, ld] is packed. Both are reals,
   or both have the layout for BF16 dots. */
static inline void score_block(const block_shape *shape, bool bf16_dot, const real *x, int64_t stride,
                               int64_t dim, const real *packed, real *scores, const upcoming *next) {
  tile_function *tile = bf16_dot ? tile_bf16_dot_rows : tile_rows;
  if (bf16_dot) dim = (dim + 1) / 2;
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

/* Applies the soft cap to the scores of a block that a column sees. */
static inline void cap_block(const block_shape *shape, double cap, real *scores) {
  for (int64_t v = 0; v < shape->vectors; v++)
    for (int64_t r = 0; r < shape->seen[v]; r++) {
      real *at = scores + r * shape->ld + v * VL;
      store(at, soft_capped(load(at), (real)cap));
    }
}

/* Y [columns, dim] (+)= W X: for every column the sum of the tile's rows X [rows, dim padded] with weights
   W^T [rows, ld]. For BF16 dots, two rows share a lane in X and in W. */
static inline void sum_over_keys(const block_shape *shape, bool bf16_dot, int64_t count, const real *weights,
                                 const real *x, int64_t stride, int64_t dim, real *y, bool accumulate,
                                 const upcoming *next) {
  tile_function *tile = bf16_dot ? tile_bf16_dot_columns : tile_columns;
  int64_t padded = round_up(dim, VL), vectors = padded / VL;
  for (int64_t v = 0; v < vectors; v += TILE_VECTORS)
    for (int64_t i = 0; i < count; i += TILE_ROWS) {
      if (v == 0) fetch_share(next, i / TILE_ROWS, (count + TILE_ROWS - 1) / TILE_ROWS);
      int64_t rows = shape->column_rows[i / TILE_ROWS];
      tile(at_most(vectors - v, TILE_VECTORS), at_most(count - i, TILE_ROWS),
           bf16_dot ? (rows + 1) / 2 : rows, weights + i, shape->ld, x + v * VL, stride,
           y + i * padded + v * VL, padded, accumulate);
    }
}

/* Zeroes the weights of invisible keys. The products work on whole tiles, so they read these weights too. */
static inline void clear_unseen(const block_shape *shape, real *weights) {
  for (int64_t v = 0; v < shape->vectors; v++)
    for (int64_t r = shape->seen[v]; r < shape->rows; r++) store(weights + r * shape->ld + v * VL, splat(0));
}

/* Rearranges the weights [rows, ld] in place for BF16 dots: [ceil(rows / 2), ld], two rows in a lane. Weights
   of invisible keys become zeros. */
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

/* Functions that the attention kernels share. */
#define attend_start_panel KERNEL(attend_start_panel)
#define attend_meet_block KERNEL(attend_meet_block)
#define attend_rescale KERNEL(attend_rescale)
#define attend_write KERNEL(attend_write)
#define attend_is_split_kv KERNEL(attend_is_split_kv)
#define attend_split_kv KERNEL(attend_split_kv)
#define attend_split_kv_scratch KERNEL(attend_split_kv_scratch)
#define attend_backward_scratch KERNEL(attend_backward_scratch)

/* A panel in the forward pass. */
typedef struct forward_panel {
  query_columns columns;
  int64_t first_column;
  real *q;   /* [key_dim, padded columns], scaled; for BF16 dots two elements share a lane */
  real *sum; /* [columns, value_dim padded]: weights times values, on the scale of columns.max */
  /* started: true if `sum` holds values to add to; bf16_dot: true if factors of products are rounded to BF16 */
  bool started, bf16_dot;
} forward_panel;

static inline void allocate_panel(const ch_attend *args, scratch_arena *arena, forward_panel *panel) {
  allocate_columns(arena, PANEL, &panel->columns);
  panel->q = arena_reals(arena, args->key_dim * PANEL);
  panel->sum = arena_reals(arena, PANEL * round_up(args->value_dim, VL));
}

/* Starts columns first … first+count-1 of a key-value head, or continues them if args->continues is set. */
void attend_start_panel(const ch_attend *args, int64_t sequence, int64_t kv_head, int64_t first,
                        int64_t count, forward_panel *panel);

/* Adds the keys first … first+rows-1 and their values to the panel. The block must be laid out for BF16 dots
   (pair_block) if the panel's queries are. `scores` has room for SCORES reals. */
enum { SCORES = BLOCK * PANEL + TILE_ROWS };
void attend_meet_block(const ch_attend *args, forward_panel *panel, int64_t first, int64_t rows,
                       const block_rows *block, real *scores, const upcoming *next_keys,
                       const upcoming *next_values);

/* Multiplies the sums [VL, padded] of a vector of columns by `factors` [VL]. Only the first `count` columns exist. */
void attend_rescale(real *sums, int64_t padded, const real *factors, int64_t count);

/* Writes a column's output, which is `scale` times its weighted sum of values (zeros for a scale of 0), and
   its log-sum-exp. */
void attend_write(const ch_attend *args, int64_t sequence, const column_place *at, const real *weighted,
                  real scale, real lse);

/* Returns true if a call uses the forward pass over few queries (split-KV decode). */
bool attend_is_split_kv(const ch_attend *args);
/* Returns true if the panels, forward and backward, use BF16 dot products. Split-KV decode chooses by the
   type of the states instead. */
static inline bool uses_bf16_dot(const ch_attend *args) {
  return HAVE_BF16_DOT && args->may_round && !attend_is_split_kv(args);
}
void attend_split_kv(const ch_attend *args);
size_t attend_split_kv_scratch(const ch_attend *args);
size_t attend_backward_scratch(const ch_attend *args);

#endif
