/* Tile producers for states that are keys and values: in place, or widened from 16 bits. */
#ifndef CH_TENSOR_TILE_PRODUCERS_H
#define CH_TENSOR_TILE_PRODUCERS_H

#include "tensor/kernels.h"

/* Keys in parts[0], [token, kv_heads * key_dim]; values in parts[1], [token, kv_heads * value_dim]; both of the
   table's type. The tiles are the memory itself. */
extern const ch_tile_producer ch_tile_producer_dense;

/* The producer for keys and values of these types (each the table's own, F16 or BF16): dense where nothing has to be
   converted, else the table's converting one; NULL when a type cannot be read. */
const ch_tile_producer *ch_tile_producer_for(const ch_kernels *kernels, ch_dtype keys, ch_dtype values);

#endif
