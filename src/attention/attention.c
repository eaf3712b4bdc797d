/* The pieces every mechanism is made of: projections, rotation, reading states; and the attention of a layer. */
#include <math.h>
#include <stdio.h>

#include "attention/registry.h"
#include "attention/weight_source.h"

enum { NAME_SIZE = 160 };

/* --- declaring ----------------------------------------------------------------------------------------------- */

static double initial_std(const ch_config *config) {
  return config->init == CH_INIT_DEEPSEEK ? 0.006 : 0.02;
}

void ch_declare_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  declaration->source->declare(declaration, name, out, in, initial_std(declaration->config));
}

void ch_declare_output_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  double std = initial_std(declaration->config);
  if (declaration->config->init == CH_INIT_DEFAULT) std /= sqrt(2.0 * (declaration->layer + 1));
  declaration->source->declare(declaration, name, out, in, std);
}

void ch_declare_norm(ch_declaration *declaration, const char *name, int64_t n) {
  ch_params_vector(declaration->params, CH_PARAM_ATTENTION, CH_PARAM_INIT_ONES, n,
                   "model.layers.%d.self_attn.%s.weight", declaration->layer, name);
}

void ch_declare_bias(ch_declaration *declaration, const char *name, int64_t n) {
  ch_params_vector(declaration->params, CH_PARAM_ATTENTION, CH_PARAM_INIT_ZEROS, n,
                   "model.layers.%d.self_attn.%s.bias", declaration->layer, name);
}

int ch_declare_head_matrix(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                           double std) {
  int row = ch_params_matrix(declaration->params, CH_PARAM_ATTENTION, std, out, in,
                             "model.layers.%d.self_attn.%s.weight", declaration->layer, name);
  if (row >= 0) declaration->params->rows[row].always_real = true;
  return row;
}

/* --- building ------------------------------------------------------------------------------------------------ */

ch_node *ch_builder_param(ch_builder *builder, const char *name) {
  int index = ch_params_find(builder->params, name);
  if (index < 0) return ch_graph_fail(builder->graph, "no parameter %s was declared", name);
  const ch_param *param = &builder->params->rows[index];
  if (!builder->leaves[index])
    builder->leaves[index] = ch_graph_param(builder->graph, index, param->name, param->rank, param->shape,
                                            builder->trainable && !param->frozen);
  return builder->leaves[index];
}

static const char *full_name(const ch_builder *builder, const char *name, char buffer[NAME_SIZE]) {
  snprintf(buffer, NAME_SIZE, "model.layers.%d.self_attn.%s", builder->layer, name);
  return buffer;
}

ch_node *ch_attention_param(ch_builder *builder, const char *name) {
  char full[NAME_SIZE];
  return ch_builder_param(builder, full_name(builder, name, full));
}

ch_node *ch_project(ch_builder *builder, ch_node *x, const char *name) {
  char bias[64], full[NAME_SIZE];
  snprintf(bias, sizeof bias, "%s.bias", name);
  bool biased = ch_params_find(builder->params, full_name(builder, bias, full)) >= 0;
  ch_node *weight = builder->source->weight(builder, name);
  ch_node *bias_leaf = biased ? ch_attention_param(builder, bias) : NULL;
  return ch_op_linear(builder->graph, x, weight, bias_leaf);
}

ch_node *ch_apply_rope(ch_builder *builder, ch_node *x, int64_t head_dim) {
  if (builder->config->position != CH_POSITION_ROPE) return x;
  return ch_op_rope(builder->graph, x, builder->rope_table, head_dim, builder->config->rope_interleaved);
}

/* ALiBi's published slopes: 2^(-8(h+1)/H) for H a power of two; else those of the next lower power, then every second
   one of twice that power. */
static void alibi_slopes(int64_t heads, double *slopes) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  for (int64_t h = 0; h < heads; h++)
    slopes[h] = h < power ? exp2(-8.0 * (double)(h + 1) / (double)power)
                          : exp2(-4.0 * (double)(2 * (h - power) + 1) / (double)power);
}

bool ch_complete_attend(ch_builder *builder, ch_attend_spec *spec) {
  spec->causal = true;
  if (builder->config->position != CH_POSITION_ALIBI) return true;
  double *slopes = ch_arena_alloc(&builder->graph->arena, (size_t)spec->heads * sizeof *slopes);
  if (!slopes) {
    ch_graph_fail(builder->graph, "no memory for ALiBi slopes");
    return false;
  }
  alibi_slopes(spec->heads, slopes);
  spec->slopes = slopes;
  return true;
}

ch_node *ch_attend_states(ch_builder *builder, ch_node *q, ch_node *keys, ch_node *values,
                          ch_attend_spec spec) {
  if (!ch_complete_attend(builder, &spec)) return NULL;
  return ch_op_attend(builder->graph, q, keys, values, builder->document_start, &spec);
}

ch_node *ch_attention(ch_builder *builder, ch_node *x) {
  const ch_mechanism *mechanism = ch_mechanism_of(builder->config);
  ch_state_part parts[CH_MAX_STATE_PARTS];
  ch_node *state[CH_MAX_STATE_PARTS] = {0};
  int count = mechanism->state(builder->config, builder->layer, parts);
  mechanism->write(builder, x, state);
  for (int p = 0; p < count; p++) {
    if (state[p] && ch_node_columns(state[p]) != parts[p].width)
      return ch_graph_fail(builder->graph, "%s writes %lld elements of %s where its state has %lld",
                           mechanism->name, (long long)ch_node_columns(state[p]), parts[p].name,
                           (long long)parts[p].width);
    if (builder->remember) state[p] = ch_op_remember(builder->graph, state[p], builder->layer, p);
  }
  return mechanism->read(builder, x, state);
}
