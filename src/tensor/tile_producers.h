/* Tile producers for states that are keys and values already. */
#ifndef CH_TENSOR_TILE_PRODUCERS_H
#define CH_TENSOR_TILE_PRODUCERS_H

#include "tensor/kernels.h"

/* Keys in parts[0], [token, kv_heads * key_dim]; values in parts[1], [token, kv_heads * value_dim]; each of
   the table's type, F16 or BF16. The tiles are the memory itself; no scratch. */
extern const ch_tile_producer ch_tile_producer_dense;
/* For producers without scratch. */
int64_t ch_tile_no_scratch(const ch_attend *args, int64_t heads, int64_t count);

#endif
