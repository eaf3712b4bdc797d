/* MHA decode: attention with one query per key-value head, bound by the memory of its states. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_MHA_DECODE_H
#define CH_KERNELS_ATTENTION_ATTEND_MHA_DECODE_H

#include "tensor/kernels/attention/attend_split_kv.h"

#define attend_mha_allocate KERNEL(attend_mha_allocate)
#define attend_mha_start KERNEL(attend_mha_start)
#define attend_mha_scores KERNEL(attend_mha_scores)
#define attend_mha_sums KERNEL(attend_mha_sums)

void attend_mha_allocate(const decode_plan *plan, scratch_arena *arena, decode_space *space);
/* Splits the queries [total, key_padded] into even and odd elements. */
void attend_mha_start(const ch_attend *args, const decode_plan *plan, const decode_space *space);
/* Computes scores [count, columns] of a block's keys. attend_mha_sums then computes rows [columns,
   value_padded] += weights [count, total] times the block's values. */
void attend_mha_scores(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                       const decode_space *space);
void attend_mha_sums(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                     const decode_space *space, real *rows);

#endif
