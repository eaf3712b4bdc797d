/* EG-MLA's gate on expanded keys and values. */
#ifndef CH_ATTENTION_EMBEDDING_GATE_H
#define CH_ATTENTION_EMBEDDING_GATE_H

#include "attention/mechanism.h"

/* Fails if the config sets keys of the gate but has no gate. */
ch_status ch_embedding_gate_check(const ch_config *config, const char *where, ch_error *error);
/* Declares kv_gate_embed, kv_gate_proj and kv_gate_norm if the config has a gate. */
void ch_embedding_gate_declare(ch_declaration *declaration);
/* Index of the first part of a layer's state that belongs to the gate. */
enum { CH_GATE_PART = 1 };
/* Lists the parts of a token's state that a gate adds; parts[0] is the layer's part CH_GATE_PART. Returns their
   number. */
int ch_embedding_gate_state(const ch_config *config, ch_state_part *parts);
/* Writes the gate's parts. kv [N, H (n + v)] is the expansion of the tokens' latents, before the gate. */
void ch_write_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *state[]);
/* Returns kv gated and normed, for the tokens of this run or of the cache. Without a gate, returns kv
   unchanged. */
ch_node *ch_read_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *const state[]);

/* Returns true if attention of one query per sequence to the cache can compute tokens of one id together. The gate
   must multiply the expanded state directly, without knocking or QK norm. Sink logits, softcapping and sliding windows
   are not supported. Returns false if builder->expand_gates is set. */
bool ch_gate_groups_tokens(const ch_builder *builder);
/* Attends with tokens of one id together (ch_op_gated_attend); state: the gate's parts. */
ch_node *ch_attend_gated(ch_builder *builder, ch_node *q, ch_node *kv_b, ch_node *latents,
                         ch_node *const state[]);

#endif
