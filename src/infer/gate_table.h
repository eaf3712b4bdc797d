/* EG-MLA-A: a table of the gates of the whole vocabulary, computed before the first token. */
#ifndef CH_INFER_GATE_TABLE_H
#define CH_INFER_GATE_TABLE_H

#include "model/runner.h"

/* Fills the cache's parts by id with kv_gate_proj(kv_gate_embed[id]): [V, heads * (n + v)] for each layer that has
   such a part. Fails if the table is larger than the machine's memory. */
ch_status ch_gate_table_fill(ch_engine *engine, const ch_config *config, const ch_params *params,
                             const ch_tensor *weights, ch_cache *cache, ch_error *error);

#endif
