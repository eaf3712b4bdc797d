/* Streaming attention over few queries: what its two ways share, dot products with the keys for up to DOT_COLUMNS
 * columns of a key-value head, and panels for more. */
#ifndef CH_KERNELS_ATTEND_FEW_H
#define CH_KERNELS_ATTEND_FEW_H

#include "tensor/kernels/attend_panel.h"

enum { DOT_COLUMNS = 16 };

/* Shapes of the work. Columns are numbered key-value head by key-value head, `pitch` apart. */
typedef struct few_plan {
  int64_t group_columns, pitch, total; /* columns of a key-value head; of all, with padding */
  int64_t block;                       /* tokens at once */
  int64_t key_padded, value_padded;
  bool dots, in_place; /* in_place: tiles are the memory itself */
} few_plan;

/* Running sums of a part of a sequence: per column the maximum, the sum of weights, and that of weighted values. */
typedef struct few_state {
  real *max, *sum, *rows; /* [total], [total], [total, value_padded] */
} few_state;

/* What a thread works in. */
typedef struct few_space {
  real *tile, *keys, *values, *scores, *weights;
  query_columns columns; /* dots: all columns */
  real *q;               /* dots: [total, key_padded], scaled */
  real *split_q;         /* dots, one column a head: the same for keys of BF16 */
  real *repeated;        /* dots, several columns a head: the same as the tiles want it */
  real *last_keys;       /* and a tile of keys that are fewer */
  int32_t *paired;       /* the same in pairs of 16 bits (attend_pairs.h) */
  void *widened;         /* tiles that lie in blocks, as BF16 */
  forward_panel *panel;  /* else: one per key-value head */
} few_space;

/* A block of a sequence's tokens, all heads; `coming`: how many the next one has. The last one may say with which keys this
   thread goes on. */
typedef struct few_block {
  int64_t sequence, first, count, coming;
  const void *keys_after; /* or NULL */
  ch_tiles tiles;
} few_block;

#define attend_start_dots KERNEL(attend_start_dots)
#define attend_dot_block KERNEL(attend_dot_block)
#define attend_carve_dots KERNEL(attend_carve_dots)

/* The way of dot products: what it works in, the start of a sequence, a block. */
void attend_carve_dots(const ch_attend *args, const few_plan *plan, carver *from, few_space *space);
void attend_start_dots(const ch_attend *args, const few_plan *plan, int64_t sequence, few_space *space,
                       const few_state *state);
void attend_dot_block(const ch_attend *args, const few_plan *plan, const few_block *block,
                      const few_space *space, const few_state *state);

#endif
