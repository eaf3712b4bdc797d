/* Feed-forward networks: SwiGLU, W_down (silu(W_gate x) * W_up x), and GELU, W_down gelu(W_up x), with biases in models
 * of images. */
#include "model/ffn.h"

#include <stdio.h>

#include "config/initial_std.h"

/* --- declaring ----------------------------------------------------------------------------------------------- */

static void declare(ch_declaration *declaration, ch_param_kind kind, const char *part, const char *name,
                    int64_t out, int64_t in, bool last) {
  const ch_config *c = declaration->config;
  double std = last ? ch_initial_output_std(c, declaration->layer, in) : ch_initial_std(c, in);
  ch_params_matrix(declaration->params, kind, std, out, in, "model.layers.%d.mlp.%s%s.weight",
                   declaration->layer, part, name);
}

static void declare_bias(ch_declaration *declaration, const char *name, int64_t n) {
  if (ch_config_is_vision(declaration->config))
    ch_params_vector(declaration->params, CH_PARAM_FFN, 0, n, "model.layers.%d.mlp.%s.bias",
                     declaration->layer, name);
}

void ch_swiglu_declare(ch_declaration *declaration, ch_param_kind kind, const char *part, int64_t width) {
  int64_t hidden = declaration->config->hidden_size;
  declare(declaration, kind, part, "gate_proj", width, hidden, false);
  declare(declaration, kind, part, "up_proj", width, hidden, false);
  declare(declaration, kind, part, "down_proj", hidden, width, true);
}

void ch_ffn_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  if (ch_moe_in_layer(c, declaration->layer)) {
    ch_moe_declare(declaration);
  } else if (c->hidden_act == CH_ACTIVATION_SILU) {
    ch_swiglu_declare(declaration, CH_PARAM_FFN, "", c->intermediate_size);
  } else {
    declare(declaration, CH_PARAM_FFN, "", "up_proj", c->intermediate_size, c->hidden_size, false);
    declare_bias(declaration, "up_proj", c->intermediate_size);
    declare(declaration, CH_PARAM_FFN, "", "down_proj", c->hidden_size, c->intermediate_size, true);
    declare_bias(declaration, "down_proj", c->hidden_size);
  }
}

/* --- building ------------------------------------------------------------------------------------------------ */

ch_node *ch_ffn_param(ch_builder *builder, const char *name) {
  char full[96];
  snprintf(full, sizeof full, "model.layers.%d.mlp.%s.weight", builder->layer, name);
  return ch_builder_param(builder, full);
}

static ch_node *linear(ch_builder *builder, ch_node *x, const char *part, const char *name) {
  char both[64];
  snprintf(both, sizeof both, "%s%s", part, name);
  return ch_op_linear(builder->graph, x, ch_ffn_param(builder, both), NULL);
}

ch_node *ch_swiglu(ch_builder *builder, ch_node *x, const char *part) {
  ch_node *gate = linear(builder, x, part, "gate_proj"), *up = linear(builder, x, part, "up_proj");
  return linear(builder, ch_op_swiglu(builder->graph, gate, up), part, "down_proj");
}

/* With a bias where one was declared. */
static ch_node *biased_linear(ch_builder *builder, ch_node *x, const char *name) {
  char full[96];
  snprintf(full, sizeof full, "model.layers.%d.mlp.%s.bias", builder->layer, name);
  ch_node *bias = ch_params_find(builder->params, full) >= 0 ? ch_builder_param(builder, full) : NULL;
  return ch_op_linear(builder->graph, x, ch_ffn_param(builder, name), bias);
}

ch_node *ch_ffn(ch_builder *builder, ch_node *x) {
  if (ch_moe_in_layer(builder->config, builder->layer)) return ch_moe(builder, x);
  if (builder->config->hidden_act == CH_ACTIVATION_SILU) return ch_swiglu(builder, x, "");
  ch_node *up = biased_linear(builder, x, "up_proj");
  return biased_linear(builder, ch_op_gelu(builder->graph, up), "down_proj");
}
