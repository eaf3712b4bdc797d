/* Split-KV decode: the structs that its two ways share. Up to DOT_COLUMNS columns per key-value head use dot
 * products with the keys, more use panels. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_SPLIT_KV_H
#define CH_KERNELS_ATTENTION_ATTEND_SPLIT_KV_H

#include "tensor/kernels/attention/attend_panel.h"

enum { DOT_COLUMNS = 16 };

/* Shapes of the work. Columns are numbered key-value head by key-value head, `pitch` apart. */
typedef struct decode_plan {
  /* number of columns of a key-value head; columns from one key-value head to the next; all columns, with padding */
  int64_t group_columns, pitch, total;
  int64_t block;                    /* tokens at once */
  int64_t key_padded, value_padded; /* key_dim and value_dim rounded up to whole vectors */
  bool dots, in_place; /* dots: dot products, not panels; in_place: tiles are read without a copy */
} decode_plan;

/* The running state of a part of a sequence: per column the maximum, the sum of weights and the weighted sum
   of values. */
typedef struct decode_state {
  real *max, *sum, *rows; /* [total], [total], [total, value_padded] */
} decode_state;

/* A thread's scratch memory. */
typedef struct decode_space {
  /* tile: the producer's scratch memory; keys, values: a head's rows as reals (panels); scores: a block's
     scores; weights: [block, total] (dot products) */
  real *tile, *keys, *values, *scores, *weights;
  query_columns columns; /* dot products: all columns */
  real *q;               /* dot products: scaled queries [total, key_padded] */
  real *split_q;         /* MHA decode with BF16 keys: scaled queries, split into even and odd elements */
  real *repeated;        /* GQA decode: scaled queries, repeated for the tiles */
  real *last_keys;       /* GQA decode: last tile of keys, filled up with zeros */
  int32_t *paired;       /* BF16 dots: rounded queries in pairs (attend_bf16_dot.h) */
  void *widened;         /* BF16 dots: block-quantised tiles, converted to BF16 */
  forward_panel *panel;  /* panels: one per key-value head */
} decode_space;

/* A block of a sequence's tokens, for all heads. The next block has `coming` tokens. */
typedef struct decode_block {
  int64_t sequence, first, count, coming;
  const void *keys_after; /* in a part's last block: keys that the thread reads next, or NULL if unknown */
  ch_tiles tiles;
} decode_block;

#define attend_decode_start KERNEL(attend_decode_start)
#define attend_decode_block KERNEL(attend_decode_block)
#define attend_decode_allocate KERNEL(attend_decode_allocate)

/* Decoding by dot products: allocates its scratch memory, starts a sequence, adds a block. */
void attend_decode_allocate(const ch_attend *args, const decode_plan *plan, scratch_arena *arena,
                            decode_space *space);
void attend_decode_start(const ch_attend *args, const decode_plan *plan, int64_t sequence,
                         decode_space *space, const decode_state *state);
void attend_decode_block(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                         const decode_space *space, const decode_state *state);

#endif
