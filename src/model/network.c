/* Feed-forward networks: one record for each kind, and the network that all kinds share. */
#include "model/network.h"

#include <stdio.h>
#include <string.h>

#include "config/initial_std.h"

const char ch_ffn_swiglu[] = "silu";

/* Names as in Hugging Face's models: "silu" has a gate, "gelu", "relu" and "relu2" have none. */
static const ch_ffn_kind kinds[] = {
    {ch_ffn_swiglu, "SwiGLU", .gated = true, .gate = ch_op_swiglu},
    {"gelu", "GELU", .activation = ch_op_gelu},
    {"geglu", "GeGLU", .gated = true, .activation = ch_op_gelu},
    {"gelu_tanh", "GELU (tanh)", .activation = ch_op_gelu_tanh},
    {"geglu_tanh", "GeGLU (tanh)", .gated = true, .activation = ch_op_gelu_tanh},
    {"relu", "ReLU", .activation = ch_op_relu},
    {"reglu", "ReGLU", .gated = true, .activation = ch_op_relu},
    {"relu2", "squared-ReLU", .activation = ch_op_relu_squared},
    {"clamped_swiglu", "SwiGLU with clamps", .gated = true, .clamped = true},
    {"relu2_glu", "gated squared-ReLU", .gated = true, .activation = ch_op_relu_squared},
};
static const char *const names[] = {ch_ffn_swiglu, "gelu",           "geglu",     "relu",
                                    "reglu",       "relu2",          "relu2_glu", "gelu_tanh",
                                    "geglu_tanh",  "clamped_swiglu", NULL};

const char *const *ch_ffn_names(void) {
  return names;
}

const ch_ffn_kind *ch_ffn_of(const ch_config *config) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, config->hidden_act) == 0) return &kinds[i];
  return NULL;
}

ch_swiglu_clamps ch_ffn_clamps(const ch_config *config) {
  return (ch_swiglu_clamps){config->swiglu_alpha, config->swiglu_limit};
}

/* --- declaring ------------------------------------------------------------------------------------------ */

typedef struct network {
  ch_declaration *declaration;
  ch_param_kind counted;
  const char *part;
  bool biased;
} network;

static void declare(const network *n, const char *name, int64_t out, int64_t in, ch_param_role role) {
  ch_params *params = n->declaration->params;
  int layer = n->declaration->layer;
  double std = ch_initial_std_of(n->declaration->config, role, layer, in);
  int index = ch_params_matrix(params, n->counted, std, out, in, "model.layers.%d.mlp.%s%s.weight", layer,
                               n->part, name);
  ch_params_set_role(params, index, role);
  if (n->biased)
    ch_params_vector(params, n->counted, 0, out, "model.layers.%d.mlp.%s%s.bias", layer, n->part, name);
}

void ch_network_declare(ch_declaration *declaration, const ch_ffn_kind *kind, ch_param_kind counted,
                        const char *part, int64_t width, bool biased) {
  const ch_config *c = declaration->config;
  const network n = {declaration, counted, part, biased};
  if (kind->gated) declare(&n, "gate_proj", width, c->hidden_size, CH_PARAM_HIDDEN);
  declare(&n, "up_proj", width, c->hidden_size, CH_PARAM_HIDDEN);
  declare(&n, "down_proj", c->hidden_size, width, CH_PARAM_RESIDUAL);
}

/* --- building ------------------------------------------------------------------------------------------- */

enum { NAME_SIZE = 96 };

ch_node *ch_ffn_param(ch_builder *builder, const char *name) {
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.layers.%d.mlp.%s.weight", builder->layer, name);
  return ch_builder_param(builder, full);
}

ch_node *ch_ffn_bias(ch_builder *builder, const char *name) {
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.layers.%d.mlp.%s.bias", builder->layer, name);
  return ch_builder_param(builder, full);
}

/* Multiplies by a projection and adds its bias, if one was declared. */
static ch_node *project(ch_builder *builder, ch_node *x, const char *part, const char *name) {
  char matrix[64], full[NAME_SIZE];
  snprintf(matrix, sizeof matrix, "%s%s", part, name);
  snprintf(full, sizeof full, "model.layers.%d.mlp.%s.bias", builder->layer, matrix);
  ch_node *bias = ch_params_find(builder->params, full) >= 0 ? ch_builder_param(builder, full) : NULL;
  return ch_op_linear(builder->graph, x, ch_ffn_param(builder, matrix), bias);
}

/* Returns the input of the network's last product. */
static ch_node *activate(ch_builder *builder, const ch_ffn_kind *kind, ch_node *gate, ch_node *up) {
  ch_graph *graph = builder->graph;
  const ch_swiglu_clamps clamps = ch_ffn_clamps(builder->config);
  if (!kind->gated) return kind->activation(graph, up);
  if (kind->clamped) return ch_op_clamped_swiglu(graph, gate, up, &clamps);
  return kind->gate ? kind->gate(graph, gate, up) : ch_op_mul(graph, kind->activation(graph, gate), up);
}

ch_node *ch_network(ch_builder *builder, const ch_ffn_kind *kind, ch_node *x, const char *part) {
  ch_node *gate = kind->gated ? project(builder, x, part, "gate_proj") : NULL;
  ch_node *up = project(builder, x, part, "up_proj");
  return project(builder, activate(builder, kind, gate, up), part, "down_proj");
}
