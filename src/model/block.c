/* The pre-norm block that all models share. */
#include "model/block.h"

#include <stdio.h>

#include "attention/registry.h"
#include "model/ffn.h"

enum { NAME_SIZE = 96 };

void ch_model_norm_declare(const ch_config *config, ch_params *params, const char *name) {
  ch_params_vector(params, CH_PARAM_NORM, 1, config->hidden_size, "%s.weight", name);
  if (ch_config_is_vision(config))
    ch_params_vector(params, CH_PARAM_NORM, 0, config->hidden_size, "%s.bias", name);
}

ch_node *ch_model_norm(ch_builder *builder, ch_node *x, const char *name) {
  const ch_config *c = builder->config;
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "%s.weight", name);
  ch_node *weight = ch_builder_param(builder, full);
  if (!ch_config_is_vision(c)) return ch_op_rmsnorm(builder->graph, x, weight, c->rms_norm_eps);
  snprintf(full, sizeof full, "%s.bias", name);
  return ch_op_layernorm(builder->graph, x, weight, ch_builder_param(builder, full), c->layer_norm_eps);
}

static const char *norm_name(int layer, const char *name, char buffer[NAME_SIZE]) {
  snprintf(buffer, NAME_SIZE, "model.layers.%d.%s", layer, name);
  return buffer;
}

static const char before_attention[] = "input_layernorm", before_ffn[] = "post_attention_layernorm";

void ch_block_declare(ch_declaration *declaration) {
  const ch_config *config = declaration->config;
  char name[NAME_SIZE];
  ch_model_norm_declare(config, declaration->params, norm_name(declaration->layer, before_attention, name));
  ch_mechanism_of(config)->declare(declaration);
  ch_model_norm_declare(config, declaration->params, norm_name(declaration->layer, before_ffn, name));
  ch_ffn_declare(declaration);
}

ch_node *ch_block(ch_builder *builder, ch_node *x) {
  char name[NAME_SIZE];
  ch_node *normed = ch_model_norm(builder, x, norm_name(builder->layer, before_attention, name));
  x = ch_op_add(builder->graph, x, ch_attention(builder, normed));
  normed = ch_model_norm(builder, x, norm_name(builder->layer, before_ffn, name));
  return ch_op_add(builder->graph, x, ch_ffn(builder, normed));
}
