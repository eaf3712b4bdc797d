/* The tile producer for states that are keys and values. */
#ifndef CH_TENSOR_TILE_PRODUCERS_H
#define CH_TENSOR_TILE_PRODUCERS_H

#include "tensor/kernels.h"

/* Reads keys from parts[0], [token, kv_heads * key_dim], and values from parts[1], [token, kv_heads *
   value_dim]. Each is of the table's type, F16 or BF16. The tiles point into that memory, and no scratch
   memory is used. */
extern const ch_tile_producer ch_tile_producer_dense;
/* Returns 0: the scratch_elements of producers without scratch. */
int64_t ch_tile_no_scratch(const ch_attend *args, int64_t heads, int64_t count);

#endif
