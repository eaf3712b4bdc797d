/* x += Attn(RMSNorm(x)); x += FFN(RMSNorm(x)); then a final RMSNorm and the LM head. */
#include "model/transformer.h"

#include <stdio.h>
#include <stdlib.h>

#include "attention/registry.h"
#include "model/ffn.h"

/* --- tensors ------------------------------------------------------------------------------------------------- */

static void declare_norm(ch_params *params, int64_t n, const char *format, int layer) {
  char name[96];
  snprintf(name, sizeof name, format, layer);
  ch_params_vector(params, CH_PARAM_NORM, 1, n, "%s", name);
}

ch_status ch_model_declare(const ch_config *config, ch_params *params, ch_error *error) {
  const ch_mechanism *mechanism = ch_mechanism_of(config);
  if (!mechanism)
    return ch_fail(error, CH_ERROR_CONFIG, "attention.type %s is not known", config->attention.type);
  ch_declaration declaration = {.config = config, .params = params};
  double std = config->init == CH_INIT_DEEPSEEK ? 0.006 : 0.02;
  ch_params_matrix(params, CH_PARAM_EMBEDDING, 0.02, config->vocab_size, config->hidden_size,
                   "model.embed_tokens.weight");
  for (int layer = 0; layer < config->num_hidden_layers; layer++) {
    declaration.layer = layer;
    declare_norm(params, config->hidden_size, "model.layers.%d.input_layernorm.weight", layer);
    mechanism->declare(&declaration);
    declare_norm(params, config->hidden_size, "model.layers.%d.post_attention_layernorm.weight", layer);
    ch_ffn_declare(&declaration);
  }
  ch_params_vector(params, CH_PARAM_NORM, 1, config->hidden_size, "model.norm.weight");
  if (!config->tie_word_embeddings)
    ch_params_matrix(params, CH_PARAM_EMBEDDING, std, config->vocab_size, config->hidden_size,
                     "lm_head.weight");
  return ch_params_status(params, error);
}

/* --- graph --------------------------------------------------------------------------------------------------- */

static ch_node *norm(ch_builder *builder, ch_node *x, const char *name) {
  return ch_op_rmsnorm(builder->graph, x, ch_builder_param(builder, name), builder->config->rms_norm_eps);
}

static ch_node *block(ch_builder *builder, ch_node *x) {
  char name[96];
  snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", builder->layer);
  x = ch_op_add(builder->graph, x, ch_attention(builder, norm(builder, x, name)));
  snprintf(name, sizeof name, "model.layers.%d.post_attention_layernorm.weight", builder->layer);
  return ch_op_add(builder->graph, x, ch_ffn(builder, norm(builder, x, name)));
}

static ch_node *head(ch_builder *builder, ch_node *x, ch_head kind) {
  const char *name = builder->config->tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  ch_node *weight = ch_builder_param(builder, name);
  if (kind == CH_HEAD_LOSS)
    return ch_op_lm_loss(builder->graph, x, weight, ch_graph_input(builder->graph, CH_INPUT_TARGETS));
  return ch_op_linear(builder->graph, x, weight, NULL);
}

static ch_node *build(ch_builder *builder, const ch_model_graph *shape) {
  ch_graph *graph = builder->graph;
  if (shape->documents) builder->document_start = ch_graph_input(graph, CH_INPUT_DOCUMENT_START);
  ch_node *tokens = ch_graph_input(graph, CH_INPUT_TOKENS);
  ch_node *x = ch_op_embedding(graph, tokens, ch_builder_param(builder, "model.embed_tokens.weight"));
  for (builder->layer = 0; builder->layer < builder->config->num_hidden_layers; builder->layer++)
    x = block(builder, x);
  if (shape->head == CH_HEAD_LAST_LOGITS) x = ch_op_last_rows(graph, x);
  return head(builder, norm(builder, x, "model.norm.weight"), shape->head);
}

void ch_model_build(const ch_config *config, const ch_params *params, const ch_model_graph *shape,
                    ch_graph **graph, ch_node **root) {
  *root = NULL;
  *graph = ch_graph_create(shape->dtype, shape->sequences, shape->length);
  ch_node **leaves = calloc((size_t)params->count, sizeof *leaves);
  if (!*graph || !leaves) {
    if (*graph) ch_graph_fail(*graph, "no memory for a graph");
    free(leaves);
    return;
  }
  ch_builder builder = {.graph = *graph,
                        .config = config,
                        .params = params,
                        .leaves = leaves,
                        .trainable = shape->trainable,
                        .remember = shape->remember,
                        .gates_known = shape->gates_known,
                        .expand_gates = shape->expand_gates};
  *root = build(&builder, shape);
  free(leaves);
}
