/* Declares and builds the model: embedding, blocks, a final norm and a head. */
#include "model/transformer.h"

#include <stdlib.h>

#include "attention/registry.h"
#include "config/initial_std.h"
#include "config/spectral.h"
#include "model/block.h"
#include "model/norm.h"
#include "model/vit.h"

/* --- tensors -------------------------------------------------------------------------------------------- */

static void declare_embedding(const ch_config *config, ch_params *params) {
  if (ch_config_is_vision(config))
    ch_vit_declare_embedding(config, params);
  else
    ch_params_set_role(params,
                       ch_params_matrix(params, CH_PARAM_EMBEDDING, ch_initial_embedding_std(config),
                                        config->vocab_size, config->hidden_size, "model.embed_tokens.weight"),
                       config->tie_word_embeddings ? CH_PARAM_TIED : CH_PARAM_LOOKUP);
  if (config->position == CH_POSITION_LEARNED)
    ch_params_set_role(params,
                       ch_params_matrix(params, CH_PARAM_POSITION, ch_initial_embedding_std(config),
                                        config->max_position_embeddings, config->hidden_size,
                                        "model.embed_positions.weight"),
                       CH_PARAM_LOOKUP);
}

static void declare_head(const ch_config *config, ch_params *params) {
  if (ch_config_is_vision(config))
    ch_vit_declare_head(config, params);
  else if (!config->tie_word_embeddings)
    ch_params_set_role(params,
                       ch_params_matrix(params, CH_PARAM_EMBEDDING,
                                        ch_initial_std(config, config->hidden_size), config->vocab_size,
                                        config->hidden_size, "lm_head.weight"),
                       CH_PARAM_HEAD);
}

ch_status ch_model_declare(const ch_config *config, ch_params *params, ch_error *error) {
  if (!ch_mechanism_of(config))
    return ch_fail(error, CH_ERROR_CONFIG, "attention.type %s is not known", config->attention.type);
  ch_declaration declaration = {.config = config, .params = params};
  declare_embedding(config, params);
  for (int layer = 0; layer < config->num_hidden_layers; layer++) {
    declaration.layer = layer;
    ch_block_declare(&declaration);
  }
  ch_final_norm_declare(config, params);
  declare_head(config, params);
  if (config->parametrization == CH_PARAMETRIZATION_SPECTRAL) ch_spectral(config, params);
  return ch_params_status(params, error);
}

/* --- graph ---------------------------------------------------------------------------------------------- */

static ch_node *embedding(ch_builder *builder) {
  if (ch_config_is_vision(builder->config)) return ch_vit_embedding(builder);
  const ch_config *c = builder->config;
  ch_graph *graph = builder->graph;
  ch_node *x = ch_op_embedding(graph, ch_graph_input(graph, CH_INPUT_TOKENS),
                               ch_builder_param(builder, "model.embed_tokens.weight"));
  if (c->position == CH_POSITION_LEARNED)
    x = ch_op_add(graph, x,
                  ch_op_embedding(graph, ch_graph_input(graph, CH_INPUT_POSITIONS),
                                  ch_builder_param(builder, "model.embed_positions.weight")));
  return c->embedding_multiplier == 1 ? x : ch_op_scale(graph, x, c->embedding_multiplier);
}

static ch_node *lm_head(ch_builder *builder, ch_node *x, ch_head kind) {
  ch_graph *graph = builder->graph;
  const char *name = builder->config->tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  if (kind == CH_HEAD_STATES) return x;
  if (kind == CH_HEAD_LAST_LOGITS) x = ch_op_sequence_row(graph, x, graph->length - 1);
  x = ch_final_norm(builder, x);
  double divisor = builder->config->logits_scaling, cap = builder->config->final_logit_softcapping;
  if (divisor != 1) x = ch_op_scale(graph, x, 1 / divisor);
  ch_node *weight = ch_builder_param(builder, name);
  if (kind == CH_HEAD_LOSS || kind == CH_HEAD_SCORES)
    return ch_op_lm_loss(graph, x, weight, ch_graph_input(graph, CH_INPUT_TARGETS), cap);
  if (kind == CH_HEAD_RANKS)
    return ch_op_lm_loss_and_rank(graph, x, weight, ch_graph_input(graph, CH_INPUT_TARGETS), cap);
  ch_node *logits = ch_op_linear(graph, x, weight, NULL);
  return cap > 0 ? ch_op_soft_cap(graph, logits, cap) : logits;
}

static ch_node *build(ch_builder *builder, const ch_model_graph *shape) {
  if (shape->head == CH_HEAD_OF_STATES)
    return lm_head(builder, ch_graph_states(builder->graph, builder->config->hidden_size), shape->head);
  if (shape->documents) builder->document_start = ch_graph_input(builder->graph, CH_INPUT_DOCUMENT_START);
  ch_node *x = embedding(builder);
  for (builder->layer = 0; builder->layer < builder->config->num_hidden_layers; builder->layer++)
    x = ch_block(builder, x);
  if (ch_config_is_vision(builder->config)) return ch_vit_head(builder, x, shape);
  return lm_head(builder, x, shape->head);
}

void ch_model_build(const ch_config *config, const ch_params *params, const ch_model_graph *shape,
                    ch_graph **graph, ch_node **root) {
  bool vision = ch_config_is_vision(config);
  *root = NULL;
  *graph = ch_graph_create(shape->dtype, shape->sequences,
                           vision ? ch_config_image_tokens(config) : shape->length);
  ch_node **leaves = calloc((size_t)params->count, sizeof *leaves);
  if (!*graph || !leaves) {
    if (*graph) ch_graph_no_memory(*graph);
    free(leaves);
    return;
  }
  (*graph)->compute = shape->compute;
  (*graph)->trainable = shape->trainable;
  ch_angles *angles = NULL;
  ch_builder builder = {.graph = *graph,
                        .angles = &angles,
                        .config = config,
                        .params = params,
                        .leaves = leaves,
                        .trainable = shape->trainable,
                        .causal = config->causal,
                        .cached = shape->cached,
                        .cache = shape->cache,
                        .capacity = shape->capacity,
                        .context = shape->context    ? shape->context
                                   : shape->capacity ? shape->capacity
                                                     : shape->length,
                        .gates_known = shape->gates_known,
                        .expand_gates = shape->expand_gates,
                        .table_shares = shape->table_shares};
  *root = build(&builder, shape);
  free(leaves);
}

bool ch_reads_rounded(const ch_graph *graph, int parameter) {
  bool read = false;
  for (int id = 0; id < graph->count; id++) {
    const ch_node *node = graph->nodes[id];
    for (int i = 0; i < node->inputs; i++) {
      if (node->in[i]->kind != CH_NODE_PARAM || node->in[i]->index != parameter) continue;
      if (!node->op->takes_rounded || !node->op->takes_rounded(node, i)) return false;
      read = true;
    }
  }
  return read;
}
