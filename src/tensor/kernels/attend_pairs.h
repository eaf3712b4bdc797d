/* Many columns that share a key-value head of BF16: products of pairs of 16-bit elements, summed in F32. */
#ifndef CH_KERNELS_ATTEND_PAIRS_H
#define CH_KERNELS_ATTEND_PAIRS_H

#include "tensor/kernels/attend_few.h"

/* Fewer columns would leave most lanes idle. */
enum { PAIR_COLUMNS = 16, LEAST_PAIR_COLUMNS = 8 };

#ifdef __AVX512BF16__

#define attend_start_pairs KERNEL(attend_start_pairs)
#define attend_pair_scores KERNEL(attend_pair_scores)
#define attend_pair_sums KERNEL(attend_pair_sums)

/* Whether queries are laid out for them; and whether a block's tiles are of that kind. */
static inline bool may_pair(const ch_attend *args, const few_plan *plan) {
  return plan->dots && plan->group_columns >= LEAST_PAIR_COLUMNS && args->key_dim % 2 == 0;
}

static inline bool are_pairs(const ch_attend *args, const few_plan *plan, const ch_tiles *tiles) {
  return may_pair(args, plan) && (tiles->keys.dtype == CH_BF16 || is_blocks(tiles->keys.dtype)) &&
         (tiles->values.dtype == CH_BF16 || is_blocks(tiles->values.dtype)) && tiles->tail_dim % 2 == 0 &&
         args->value_dim % 32 == 0;
}

/* Rounds the queries [total, key_padded] to BF16, pair by pair of elements. */
void attend_start_pairs(const ch_attend *args, const few_plan *plan, const few_space *space);
/* As attend_group_scores and attend_group_sums; the second one overwrites the scores. Keys in blocks become BF16 between their
   products: `tiles` are the block's with those. */
void attend_pair_scores(const ch_attend *args, const few_plan *plan, const few_block *block,
                        const few_space *space, ch_tiles *tiles);
void attend_pair_sums(const ch_attend *args, const few_plan *plan, const few_block *block,
                      const few_space *space, const ch_tiles *tiles, real *rows);

#endif
#endif
