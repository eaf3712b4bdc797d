/* The embedding gate (EG-MLA eqs. 1-14): expanded keys and values are multiplied by a projection of an embedding of
 * their own token, and normed:
 *
 *   kv = LayerNorm(kv * W_g E[token])      (gate_op "add": kv + ...; gate_norm false: no norm)
 *
 * The gate depends on nothing but the token's id.
 */
#include "attention/embedding_gate.h"

static const double gate_norm_eps = 1e-5;

void ch_embedding_gate_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  const ch_attention_config *a = &c->attention;
  int64_t width = c->num_attention_heads * (a->qk_nope_head_dim + a->v_head_dim);
  if (!a->gate_embedding_dim) return;
  ch_params_matrix(declaration->params, CH_PARAM_GATE_EMBEDDING, 0.02, c->vocab_size, a->gate_embedding_dim,
                   "model.layers.%d.self_attn.kv_gate_embed.weight", declaration->layer);
  ch_declare_projection(declaration, "kv_gate_proj", width, a->gate_embedding_dim);
  if (!a->gate_norm) return;
  ch_declare_norm(declaration, "kv_gate_norm", width);
  ch_declare_bias(declaration, "kv_gate_norm", width);
}

ch_node *ch_embedding_gate(ch_builder *builder, ch_node *kv) {
  const ch_attention_config *a = &builder->config->attention;
  ch_graph *graph = builder->graph;
  if (!a->gate_embedding_dim || !kv) return kv;
  ch_node *table = ch_attention_param(builder, "kv_gate_embed.weight");
  ch_node *embedded = kv->streamed ? ch_op_embedding_of_states(graph, table)
                                   : ch_op_embedding(graph, ch_graph_input(graph, CH_INPUT_TOKENS), table);
  ch_node *gate = ch_project(builder, embedded, "kv_gate_proj");
  kv = a->gate_op == CH_GATE_ADD ? ch_op_add(graph, kv, gate) : ch_op_mul(graph, kv, gate);
  if (!a->gate_norm) return kv;
  return ch_op_layernorm(graph, kv, ch_attention_param(builder, "kv_gate_norm.weight"),
                         ch_attention_param(builder, "kv_gate_norm.bias"), gate_norm_eps);
}
