/* Decoding attention with BF16 dot products: many columns that share a key-value head, summed in F32. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_BF16_DOT_H
#define CH_KERNELS_ATTENTION_ATTEND_BF16_DOT_H

#include "tensor/kernels/attention/attend_split_kv.h"

/* BF16_DOT_COLUMNS: columns in a vector. With fewer than LEAST_BF16_DOT_COLUMNS, too many lanes would be idle. */
enum { BF16_DOT_COLUMNS = 16, LEAST_BF16_DOT_COLUMNS = 8 };

#ifdef __AVX512BF16__

#define attend_bf16_dot_start KERNEL(attend_bf16_dot_start)
#define attend_bf16_dot_scores KERNEL(attend_bf16_dot_scores)
#define attend_bf16_dot_sums KERNEL(attend_bf16_dot_sums)

/* Returns true if queries use the layout for BF16 dot products. block_uses_bf16_dot also checks the tiles of
   a block. */
static inline bool may_use_bf16_dot(const ch_attend *args, const decode_plan *plan) {
  return plan->dots && plan->group_columns >= LEAST_BF16_DOT_COLUMNS && args->key_dim % 2 == 0;
}

static inline bool block_uses_bf16_dot(const ch_attend *args, const decode_plan *plan,
                                       const ch_tiles *tiles) {
  return may_use_bf16_dot(args, plan) &&
         (tiles->keys.dtype == CH_BF16 || is_block_quantised(tiles->keys.dtype)) &&
         (tiles->values.dtype == CH_BF16 || is_block_quantised(tiles->values.dtype)) &&
         tiles->tail_dim % 2 == 0 && args->value_dim % 32 == 0;
}

/* Rounds the queries [total, key_padded] to BF16; two neighbouring elements share a lane. */
void attend_bf16_dot_start(const ch_attend *args, const decode_plan *plan, const decode_space *space);
/* Like attend_gqa_scores and attend_gqa_sums. attend_bf16_dot_sums overwrites the scores. Block-quantised keys are
   converted to BF16 between their products, and `tiles` then points to the converted keys. */
void attend_bf16_dot_scores(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                            const decode_space *space, ch_tiles *tiles);
void attend_bf16_dot_sums(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                          const decode_space *space, const ch_tiles *tiles, real *rows);

#endif
#endif
