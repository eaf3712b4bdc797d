/* Quantising values into blocks of 8, 6 and 4 bits. */
#ifndef CH_TENSOR_ENCODE_BLOCKS_H
#define CH_TENSOR_ENCODE_BLOCKS_H

#include "tensor/tensor.h"

/* Encodes `count` finite values, in whole blocks, as CH_Q8_0, CH_Q4_0, CH_Q4_K or CH_Q6_K, into
   ch_dtype_bytes(dtype, count) bytes. For Q8_0 the largest magnitude of 32 values becomes 127; for the others
   ch_encode_blocks chooses the best of several scales in least squares. */
void ch_encode_blocks(ch_dtype dtype, const float *values, int64_t count, void *blocks);

#endif
