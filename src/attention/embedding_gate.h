/* EG-MLA's gate on expanded keys and values. */
#ifndef CH_ATTENTION_EMBEDDING_GATE_H
#define CH_ATTENTION_EMBEDDING_GATE_H

#include "attention/mechanism.h"

/* kv_gate_embed, kv_gate_proj, kv_gate_norm where the config has a gate. */
void ch_embedding_gate_declare(ch_declaration *declaration);
/* kv [N, H (n + v)] gated; kv itself without a gate. Works on tokens of this run and on those of the cache. */
ch_node *ch_embedding_gate(ch_builder *builder, ch_node *kv);

#endif
