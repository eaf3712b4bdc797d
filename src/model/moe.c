/* Mixture of experts, with DeepSeek's names: y = shared(x) + sum over the chosen experts e of w_e
 * expert_e(x).
 *
 * The router's softmax p over all experts gives the weights of the `active` best, renormalised to sum to 1. A single
 * expert keeps its p, because otherwise the router would have no gradient. The config can select sigmoids, a scale,
 * weights without renormalisation, and a choice from the best groups of experts (DeepSeek-V2 and V3). Router and
 * experts may have biases. Experts may have SwiGLU clamps (gpt-oss). Loss-free balancing (Wang et al. 2024) adds a
 * bias to p for the choice only. The trainer updates the bias (train/balance.h). */
#include "model/moe.h"

#include <stdio.h>

#include "config/initial_std.h"
#include "model/network.h"

bool ch_moe_in_layer(const ch_config *config, int layer) {
  const ch_moe_config *moe = &config->moe;
  bool listed = layer < CH_MAX_LISTED_LAYERS && moe->dense_layers[layer];
  return moe->experts > 0 && layer >= moe->first_dense_layers && !listed;
}

int ch_moe_layers_before(const ch_config *config, int layer) {
  int layers = 0;
  for (int l = 0; l < layer; l++) layers += ch_moe_in_layer(config, l);
  return layers;
}

void ch_moe_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  ch_params *params = declaration->params;
  const ch_ffn_kind *kind = ch_ffn_of(c);
  int layer = declaration->layer;
  for (int e = 0; e < c->moe.experts; e++) {
    char part[32];
    snprintf(part, sizeof part, "experts.%d.", e);
    ch_network_declare(declaration, kind, CH_PARAM_EXPERT, part, c->moe.expert_intermediate_size,
                       c->mlp_bias);
  }
  ch_params_matrix(params, CH_PARAM_FFN, ch_initial_std(c, c->hidden_size), c->moe.experts, c->hidden_size,
                   "model.layers.%d.mlp.gate.weight", layer);
  if (c->moe.router_bias)
    ch_params_vector(params, CH_PARAM_FFN, 0, c->moe.experts, "model.layers.%d.mlp.gate.bias", layer);
  if (c->moe.balance == CH_BALANCE_LOSS_FREE) {
    int bias = ch_params_vector(params, CH_PARAM_FFN, 0, c->moe.experts,
                                "model.layers.%d.mlp.gate.e_score_correction_bias", layer);
    if (bias >= 0) params->rows[bias].frozen = true;
  }
  if (c->moe.shared > 0)
    ch_network_declare(declaration, kind, CH_PARAM_FFN, "shared_experts.",
                       c->moe.shared * c->moe.expert_intermediate_size, c->mlp_bias);
}

/* Returns the leaves [experts] of one matrix of every expert, or of its bias. Returns NULL if out of memory. */
static ch_node **expert_leaves(ch_builder *builder, const char *name, bool bias) {
  int64_t experts = builder->config->moe.experts;
  ch_node **leaves = ch_arena_alloc(&builder->graph->arena, (size_t)experts * sizeof(ch_node *));
  for (int e = 0; leaves && e < experts; e++) {
    char full[64];
    snprintf(full, sizeof full, "experts.%d.%s", e, name);
    leaves[e] = bias ? ch_ffn_bias(builder, full) : ch_ffn_param(builder, full);
  }
  if (!leaves) ch_graph_no_memory(builder->graph);
  return leaves;
}

ch_node *ch_moe(ch_builder *builder, ch_node *x) {
  ch_graph *graph = builder->graph;
  const ch_moe_config *moe = &builder->config->moe;
  bool sigmoid = moe->scoring == CH_SCORING_SIGMOID;
  const ch_choice_spec choice = {moe->active, sigmoid, moe->groups, moe->active_groups};
  const ch_route_spec spec = {.renormalise = moe->renormalise && (moe->active > 1 || sigmoid),
                              .scale = moe->scale,
                              .sigmoid = sigmoid,
                              .balance_coefficient =
                                  moe->balance == CH_BALANCE_AUX ? moe->aux_coefficient : 0};
  ch_node *logits = ch_op_linear(graph, x, ch_ffn_param(builder, "gate"),
                                 moe->router_bias ? ch_ffn_bias(builder, "gate") : NULL);
  char bias[96];
  snprintf(bias, sizeof bias, "model.layers.%d.mlp.gate.e_score_correction_bias", builder->layer);
  bool corrected = moe->balance == CH_BALANCE_LOSS_FREE;
  ch_node *chosen = ch_op_choose_experts(graph, logits, corrected ? ch_builder_param(builder, bias) : NULL,
                                         &choice, ch_moe_layers_before(builder->config, builder->layer));
  const ch_ffn_kind *kind = ch_ffn_of(builder->config);
  const ch_swiglu_clamps clamps = ch_ffn_clamps(builder->config);
  const bool biased = builder->config->mlp_bias;
  ch_expert_weights weights = {.experts = moe->experts,
                               .gate = expert_leaves(builder, "gate_proj", false),
                               .up = expert_leaves(builder, "up_proj", false),
                               .down = expert_leaves(builder, "down_proj", false),
                               .gate_bias = biased ? expert_leaves(builder, "gate_proj", true) : NULL,
                               .up_bias = biased ? expert_leaves(builder, "up_proj", true) : NULL,
                               .down_bias = biased ? expert_leaves(builder, "down_proj", true) : NULL,
                               .clamps = kind->clamped ? &clamps : NULL};
  if (!weights.gate || !weights.up || !weights.down) return NULL;
  if (biased && (!weights.gate_bias || !weights.up_bias || !weights.down_bias)) return NULL;
  ch_node *y = ch_op_experts(graph, x, ch_op_route(graph, logits, chosen, &spec), chosen, &weights);
  if (moe->shared == 0) return y;
  return ch_op_add(graph, y, ch_network(builder, kind, x, "shared_experts."));
}
