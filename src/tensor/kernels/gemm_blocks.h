/* Products of several rows with block-quantised weights, to which gemv_blocks_vnni.c passes larger calls. */
#ifndef CH_KERNELS_GEMM_BLOCKS_H
#define CH_KERNELS_GEMM_BLOCKS_H

#include "tensor/kernels/variant.h"

/* As the table's quantise_rows and gemv_blocks; rows lie in their own order. */
void KERNEL(quantise_many)(const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype,
                           void *quantised);
void KERNEL(gemm_blocks)(const ch_team *team, int64_t rows, int64_t in, const void *quantised,
                         ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate);

#endif
