/* Declares the tensors of a layer other than projections, and builds their leaves and norms in the graph. */
#include <math.h>
#include <stdio.h>

#include "attention/mechanism.h"
#include "config/initial_std.h"

enum { NAME_SIZE = 160 };

/* --- declaring ------------------------------------------------------------------------------------------ */

const char *ch_attention_module(const ch_config *config, int layer) {
  return ch_layer_is_linear(config, layer) ? "linear_attn" : "self_attn";
}

/* Returns true if the layer reads another layer's keys and values, and this tensor is used to compute them. */
static bool is_left_out(const ch_declaration *declaration, const char *name) {
  return ch_writing_layer(declaration->config, declaration->layer) != declaration->layer &&
         ch_is_of_writer(name);
}

static int add_vector(ch_declaration *declaration, const char *name, const char *suffix, int64_t n,
                      double start) {
  if (is_left_out(declaration, name)) return -1;
  return ch_params_vector(declaration->params, CH_PARAM_ATTENTION, start, n, "model.layers.%d.%s.%s%s",
                          declaration->layer, ch_attention_module(declaration->config, declaration->layer),
                          name, suffix);
}

void ch_declare_norm(ch_declaration *declaration, const char *name, int64_t n) {
  add_vector(declaration, name, ".weight", n, 1);
}

void ch_declare_bias(ch_declaration *declaration, const char *name, int64_t n) {
  add_vector(declaration, name, ".bias", n, 0);
}

void ch_declare_vector(ch_declaration *declaration, const char *name, int64_t n, double start, double std) {
  int index = add_vector(declaration, name, "", n, start);
  if (index >= 0) declaration->params->rows[index].std = std;
}

ch_param *ch_declare_head_matrix(ch_declaration *declaration, const char *name, int64_t rows, int64_t columns,
                                 ch_param_init init, double std) {
  if (is_left_out(declaration, name)) return NULL;
  int index = ch_params_matrix(declaration->params, CH_PARAM_ATTENTION, std, rows, columns,
                               "model.layers.%d.self_attn.%s", declaration->layer, name);
  if (index < 0) return NULL;
  ch_param *row = &declaration->params->rows[index];
  row->init = init;
  row->role = CH_PARAM_MIX;
  row->always_real = true;
  return row;
}

void ch_declare_drawn_vector(ch_declaration *declaration, const char *name, int64_t n, ch_param_init init) {
  int index = add_vector(declaration, name, "", n, 0);
  if (index >= 0) declaration->params->rows[index].init = init;
}

/* A convolution starts as in PyTorch: uniform within ±1 / sqrt(taps). */
void ch_declare_conv(ch_declaration *declaration, const char *name, int64_t channels, int64_t taps) {
  int index = ch_params_matrix(declaration->params, CH_PARAM_ATTENTION, 1 / sqrt(3.0 * (double)taps),
                               channels, taps, "model.layers.%d.%s.%s.weight", declaration->layer,
                               ch_attention_module(declaration->config, declaration->layer), name);
  if (index < 0) return;
  ch_param *row = &declaration->params->rows[index];
  row->rank = 3;
  row->shape[1] = 1;
  row->shape[2] = taps;
  row->init = CH_PARAM_INIT_UNIFORM;
  row->role = CH_PARAM_MIX;
  row->always_real = true;
  row->block_quantisable = false;
}

void ch_declare_matrix(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  ch_params_matrix(declaration->params, CH_PARAM_ATTENTION, ch_initial_std(declaration->config, in), out, in,
                   "model.layers.%d.self_attn.%s", declaration->layer, name);
}

/* --- building ------------------------------------------------------------------------------------------- */

ch_node *ch_builder_param(ch_builder *builder, const char *name) {
  int index = ch_params_find(builder->params, name);
  if (index < 0) return ch_graph_fail(builder->graph, "no parameter %s was declared", name);
  const ch_param *param = &builder->params->rows[index];
  if (!builder->leaves[index])
    builder->leaves[index] = ch_graph_param(builder->graph, index, param->name, param->rank, param->shape,
                                            builder->trainable && !param->frozen);
  return builder->leaves[index];
}

ch_node *ch_attention_param(ch_builder *builder, const char *name) {
  char full[NAME_SIZE];
  int layer = ch_is_of_writer(name) ? ch_writing_layer(builder->config, builder->layer) : builder->layer;
  snprintf(full, sizeof full, "model.layers.%d.%s.%s", layer, ch_attention_module(builder->config, layer),
           name);
  return ch_builder_param(builder, full);
}

static ch_node *norm_with(ch_builder *builder, ch_node *x, const char *name, double eps) {
  char weight[64];
  snprintf(weight, sizeof weight, "%s.weight", name);
  return ch_op_rmsnorm(builder->graph, x, ch_attention_param(builder, weight), eps);
}

ch_node *ch_norm(ch_builder *builder, ch_node *x, const char *name) {
  return norm_with(builder, x, name, builder->config->rms_norm_eps);
}

ch_node *ch_latent_norm(ch_builder *builder, ch_node *latent, const char *name) {
  double eps = builder->config->attention.latent_norm_eps;
  return norm_with(builder, latent, name, eps ? eps : builder->config->rms_norm_eps);
}
