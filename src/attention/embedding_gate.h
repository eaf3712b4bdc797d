/* EG-MLA's gate on expanded keys and values. */
#ifndef CH_ATTENTION_EMBEDDING_GATE_H
#define CH_ATTENTION_EMBEDDING_GATE_H

#include "attention/mechanism.h"

/* An error if the config sets keys of the gate but has no gate. */
ch_status ch_embedding_gate_check(const ch_config *config, const char *where, ch_error *error);
/* Declares kv_gate_embed, kv_gate_proj and kv_gate_norm if the config has a gate. */
void ch_embedding_gate_declare(ch_declaration *declaration);
/* The parts of a token's state that a gate adds, from parts[0] on, which is the layer's part CH_GATE_PART;
   returns how many. */
enum { CH_GATE_PART = 1 };
int ch_embedding_gate_state(const ch_config *config, ch_state_part *parts);
/* Writes them. kv [N, H (n + v)] is the expansion of what the tokens write, before the gate. */
void ch_write_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *state[]);
/* kv gated and normed, of the tokens of this run or of the cache; kv itself without a gate. */
ch_node *ch_read_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *const state[]);

/* Attention of one query per sequence to the cache, tokens of one id together. That form exists for gates
   that multiply what is expanded as it is: not with knocking of keys or values. */
bool ch_gate_groups_tokens(const ch_builder *builder);
ch_node *ch_attend_gated(ch_builder *builder, ch_node *q, ch_node *kv_b, ch_node *latents,
                         ch_node *const state[]);

#endif
