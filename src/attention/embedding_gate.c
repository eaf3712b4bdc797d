/* The embedding gate (EG-MLA eqs. 1-14): expanded keys and values are multiplied by a projection of an
 * embedding of their own token, and normed:
 *
 *   kv = LayerNorm(kv * W_g E[token])      (gate_op "add": kv + ...; gate_norm false: no norm)
 * The gate depends only on the token's id. The cache stores one row of the gate per id and, for the norm, two moments
 * per token. */
#include "attention/embedding_gate.h"

#include <math.h>
#include <stdio.h>

#include "config/initial_std.h"

static const double gate_norm_eps = 1e-5;

static int64_t gate_width(const ch_config *config) {
  return config->num_attention_heads * (config->attention.qk_nope_head_dim + config->attention.v_head_dim);
}

ch_status ch_embedding_gate_check(const ch_config *config, const char *where, ch_error *error) {
  const ch_attention_config *a = &config->attention;
  bool added = a->gate_op != CH_GATE_MULTIPLY;
  if (a->gate_embedding_dim || (!added && a->gate_norm && a->gate_embedding_std < 0)) return CH_OK;
  char std[40];
  snprintf(std, sizeof std, "%g", a->gate_embedding_std);
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"attention.%s\" is %s, but it needs \"attention.gate_embedding_dim\"; set both "
                 "or neither",
                 where,
                 added          ? "gate_op"
                 : a->gate_norm ? "gate_embedding_std"
                                : "gate_norm",
                 added          ? "\"add\""
                 : a->gate_norm ? std
                                : "false");
}

void ch_embedding_gate_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  const ch_attention_config *a = &c->attention;
  int64_t width = gate_width(c);
  if (!a->gate_embedding_dim) return;
  int table = ch_params_matrix(declaration->params, CH_PARAM_GATE_EMBEDDING, ch_initial_table_std(c),
                               c->vocab_size, a->gate_embedding_dim,
                               "model.layers.%d.self_attn.kv_gate_embed.weight", declaration->layer);
  ch_params_set_role(declaration->params, table, CH_PARAM_TABLE);
  if (a->gate_op == CH_GATE_ADD) /* an added gate has the scale of the expanded state */
    ch_declare_projection(declaration, "kv_gate_proj", width, a->gate_embedding_dim);
  else
    ch_declare_gate_projection(declaration, "kv_gate_proj", width, a->gate_embedding_dim);
  ch_keep_plain(declaration, "kv_gate_proj");
  if (!a->gate_norm) return;
  ch_declare_norm(declaration, "kv_gate_norm", width);
  ch_declare_bias(declaration, "kv_gate_norm", width);
}

int ch_embedding_gate_state(const ch_config *config, ch_state_part *parts) {
  const ch_attention_config *a = &config->attention;
  if (!a->gate_embedding_dim) return 0;
  parts[0] = (ch_state_part){.name = "gate", .width = gate_width(config), .kind = CH_PART_BY_ID};
  if (!a->gate_norm) return 1;
  parts[1] = (ch_state_part){.name = "moments", .width = 2, .kind = CH_PART_SCALARS};
  return 2;
}

static ch_node *gated(ch_builder *builder, ch_node *kv, ch_node *gate) {
  return builder->config->attention.gate_op == CH_GATE_ADD ? ch_op_add(builder->graph, kv, gate)
                                                           : ch_op_mul(builder->graph, kv, gate);
}

/* Looks up the rows of tokens in the gate's table: [N, gate_embedding_dim]. */
static ch_node *looked_up(ch_builder *builder, ch_node *tokens) {
  ch_node *table = ch_attention_param(builder, "kv_gate_embed.weight");
  return builder->table_shares > 1 ? ch_op_joined_rows(builder->graph, tokens, table, builder->table_shares)
                                   : ch_op_embedding(builder->graph, tokens, table);
}

void ch_write_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *state[]) {
  const ch_attention_config *a = &builder->config->attention;
  ch_graph *graph = builder->graph;
  ch_node *tokens = ch_graph_input(graph, CH_INPUT_TOKENS);
  if (builder->gates_known)
    state[0] = ch_op_rows_by_id(graph, tokens, builder->layer, CH_GATE_PART, gate_width(builder->config));
  else
    state[0] = ch_project(builder, looked_up(builder, tokens), "kv_gate_proj");
  if (a->gate_norm && builder->cached)
    state[1] = ch_op_moments(graph, gated(builder, kv, state[0]), gate_norm_eps);
}

ch_node *ch_read_embedding_gate(ch_builder *builder, ch_node *kv, ch_node *const state[]) {
  const ch_attention_config *a = &builder->config->attention;
  if (!a->gate_embedding_dim) return kv;
  kv = gated(builder, kv, state[0]);
  if (!a->gate_norm) return kv;
  ch_node *weight = ch_attention_param(builder, "kv_gate_norm.weight"),
          *bias = ch_attention_param(builder, "kv_gate_norm.bias");
  if (builder->cached) return ch_op_normalise_states(builder->graph, kv, state[1], weight, bias);
  return ch_op_layernorm(builder->graph, kv, weight, bias, gate_norm_eps);
}

bool ch_gate_groups_tokens(const ch_builder *builder) {
  const ch_config *c = builder->config;
  return builder->cached && !builder->expand_gates && builder->graph->length == 1 &&
         !c->attention.sink_logits && !c->attn_logit_softcapping && !ch_layer_slides(c, builder->layer) &&
         c->attention.gate_embedding_dim && c->attention.gate_op == CH_GATE_MULTIPLY &&
         !c->attention.qk_norm && !ch_is_knocked(c, CH_ON_K) && !ch_is_knocked(c, CH_ON_V);
}

ch_node *ch_attend_gated(ch_builder *builder, ch_node *q, ch_node *kv_b, ch_node *latents,
                         ch_node *const state[]) {
  const ch_config *c = builder->config;
  const ch_attention_config *a = &c->attention;
  const ch_gated_spec spec = {.heads = c->num_attention_heads,
                              .latent = a->kv_lora_rank,
                              .rope = a->qk_rope_head_dim,
                              .nope = a->qk_nope_head_dim,
                              .value = a->v_head_dim,
                              .ids = c->vocab_size,
                              .scale = ch_latent_score_scale(builder->config) /
                                       sqrt((double)(a->qk_nope_head_dim + a->qk_rope_head_dim)),
                              .slopes = ch_alibi_slopes(builder, 0, 1, c->num_attention_heads)};
  ch_node *weight = a->gate_norm ? ch_attention_param(builder, "kv_gate_norm.weight") : NULL,
          *bias = a->gate_norm ? ch_attention_param(builder, "kv_gate_norm.bias") : NULL;
  return ch_op_gated_attend(builder->graph, q, latents, state[0], kv_b, a->gate_norm ? state[1] : NULL,
                            weight, bias, &spec);
}
