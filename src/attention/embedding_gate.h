/* EG-MLA's gate on expanded keys and values. */
#ifndef CH_ATTENTION_EMBEDDING_GATE_H
#define CH_ATTENTION_EMBEDDING_GATE_H

#include "attention/mechanism.h"

/* Fails if the config sets keys of the gate but has no gate. */
ch_status ch_embedding_gate_check(const ch_config *config, const char *where, ch_error *error);
/* Declares kv_gate_embed, kv_gate_proj and kv_gate_norm if the config has a gate. */
void ch_embedding_gate_declare(ch_declaration *declaration);
/* The parts of a token's state that a gate adds, from parts[0] on, which is the layer's part CH_GATE_PART;
   returns how many. */
enum { CH_GATE_PART = 1 };
int ch_embedding_gate_state(const ch_config *config, ch_state_part *parts);
/* Writes them. kv [N, H (n + v)] is the expansion of what the tokens write, before the gate. */
void ch_write_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *state[]);
/* Returns kv gated and normed, for the tokens of this run or of the cache. Without a gate, returns kv
   itself. */
ch_node *ch_read_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *const state[]);

/* Returns true if attention of one query per sequence to the cache can compute tokens of one id together. The
   gate must multiply the expanded state directly, so it cannot do that with knocking of keys or values. */
bool ch_gate_groups_tokens(const ch_builder *builder);
ch_node *ch_attend_gated(ch_builder *builder, ch_node *q, ch_node *kv_b, ch_node *latents,
                         ch_node *const state[]);

#endif
