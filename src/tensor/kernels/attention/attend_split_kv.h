/* Split-KV decode: what its two ways share. Up to DOT_COLUMNS columns per key-value head use dot products
 * with the keys, more use panels. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_SPLIT_KV_H
#define CH_KERNELS_ATTENTION_ATTEND_SPLIT_KV_H

#include "tensor/kernels/attention/attend_panel.h"

enum { DOT_COLUMNS = 16 };

/* Shapes of the work. Columns are numbered key-value head by key-value head, `pitch` apart. */
typedef struct decode_plan {
  int64_t group_columns, pitch, total; /* columns of a key-value head; of all, with padding */
  int64_t block;                       /* tokens at once */
  int64_t key_padded, value_padded;
  bool dots, in_place; /* in_place: tiles are the memory itself */
} decode_plan;

/* The running state of a part of a sequence: per column the maximum, the sum of weights and the weighted sum
   of values. */
typedef struct decode_state {
  real *max, *sum, *rows; /* [total], [total], [total, value_padded] */
} decode_state;

/* A thread's scratch memory. */
typedef struct decode_space {
  real *tile, *keys, *values, *scores, *weights;
  query_columns columns; /* dots: all columns */
  real *q;               /* dots: [total, key_padded], scaled */
  real *split_q;         /* MHA decode with BF16 keys: the same, split into even and odd elements */
  real *repeated;        /* GQA decode: the same, repeated for the tiles */
  real *last_keys;       /* GQA decode: the last tile of keys, filled up with zeros */
  int32_t *paired;       /* the queries for BF16 dots (attend_bf16_dot.h) */
  void *widened;         /* block-quantised tiles, converted to BF16 */
  forward_panel *panel;  /* else: one per key-value head */
} decode_space;

/* A block of a sequence's tokens, all heads. `coming`: how many tokens the next block has. `keys_after`: the
   keys that this thread reads after the sequence's last block, if they are known. */
typedef struct decode_block {
  int64_t sequence, first, count, coming;
  const void *keys_after; /* or NULL */
  ch_tiles tiles;
} decode_block;

#define attend_decode_start KERNEL(attend_decode_start)
#define attend_decode_block KERNEL(attend_decode_block)
#define attend_decode_allocate KERNEL(attend_decode_allocate)

/* Decoding by dot products: allocating its scratch memory, starting a sequence, adding a block. */
void attend_decode_allocate(const ch_attend *args, const decode_plan *plan, scratch_arena *arena,
                            decode_space *space);
void attend_decode_start(const ch_attend *args, const decode_plan *plan, int64_t sequence,
                         decode_space *space, const decode_state *state);
void attend_decode_block(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                         const decode_space *space, const decode_state *state);

#endif
