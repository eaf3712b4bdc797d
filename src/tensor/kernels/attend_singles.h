/* Decoding attention where every head of keys has one query: bound by the memory that its states lie in. */
#ifndef CH_KERNELS_ATTEND_SINGLES_H
#define CH_KERNELS_ATTEND_SINGLES_H

#include "tensor/kernels/attend_few.h"

#define attend_carve_singles KERNEL(attend_carve_singles)
#define attend_start_singles KERNEL(attend_start_singles)
#define attend_single_scores KERNEL(attend_single_scores)
#define attend_single_sums KERNEL(attend_single_sums)

void attend_carve_singles(const few_plan *plan, carver *from, few_space *space);
/* Splits the queries [total, key_padded]. */
void attend_start_singles(const ch_attend *args, const few_plan *plan, const few_space *space);
/* scores [count, columns] of a block's keys; rows [columns, value_padded] += weights [count, total] times its values. */
void attend_single_scores(const ch_attend *args, const few_plan *plan, const few_block *block,
                          const few_space *space);
void attend_single_sums(const ch_attend *args, const few_plan *plan, const few_block *block,
                        const few_space *space, real *rows);

#endif
