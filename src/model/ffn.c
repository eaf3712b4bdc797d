/* Feed-forward networks: SwiGLU, W_down (silu(W_gate x) * W_up x), and GELU, W_down gelu(W_up x). */
#include "model/ffn.h"

#include <math.h>
#include <stdio.h>

void ch_ffn_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  ch_params *params = declaration->params;
  int layer = declaration->layer;
  bool deepseek = c->init == CH_INIT_DEEPSEEK;
  double std = deepseek ? 0.006 : 0.02, down_std = deepseek ? std : std / sqrt(2.0 * (layer + 1));
  if (c->hidden_act == CH_ACTIVATION_SILU)
    ch_params_matrix(params, CH_PARAM_FFN, std, c->intermediate_size, c->hidden_size,
                     "model.layers.%d.mlp.gate_proj.weight", layer);
  ch_params_matrix(params, CH_PARAM_FFN, std, c->intermediate_size, c->hidden_size,
                   "model.layers.%d.mlp.up_proj.weight", layer);
  ch_params_matrix(params, CH_PARAM_FFN, down_std, c->hidden_size, c->intermediate_size,
                   "model.layers.%d.mlp.down_proj.weight", layer);
}

static ch_node *linear(ch_builder *builder, ch_node *x, const char *name) {
  char full[96];
  snprintf(full, sizeof full, "model.layers.%d.mlp.%s.weight", builder->layer, name);
  return ch_op_linear(builder->graph, x, ch_builder_param(builder, full), NULL);
}

ch_node *ch_ffn(ch_builder *builder, ch_node *x) {
  ch_node *up, *hidden;
  if (builder->config->hidden_act == CH_ACTIVATION_SILU) {
    ch_node *gate = linear(builder, x, "gate_proj");
    up = linear(builder, x, "up_proj");
    hidden = ch_op_swiglu(builder->graph, gate, up);
  } else {
    up = linear(builder, x, "up_proj");
    hidden = ch_op_gelu(builder->graph, up);
  }
  return linear(builder, hidden, "down_proj");
}
