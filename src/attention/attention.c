/* The pieces every mechanism is made of: projections, rotation, reading states; and the attention of a layer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "attention/weight_source.h"
#include "config/initial_std.h"

enum { NAME_SIZE = 160 };

/* --- declaring ----------------------------------------------------------------------------------------------- */

/* By whichever source the config names for it. */
static void declare_by_source(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                              double std) {
  if (declaration->shapes) {
    ch_note_projection(declaration->shapes, name, out, in);
    return;
  }
  ch_weight_source_of(declaration->config, name)->declare(declaration, name, out, in, std);
  ch_residual_declare(declaration, name, out, in, std);
}

void ch_declare_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  declare_by_source(declaration, name, out, in, ch_initial_std(declaration->config, in));
}

void ch_declare_output_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  declare_by_source(declaration, name, out, in,
                    ch_initial_output_std(declaration->config, declaration->layer, in));
}

void ch_keep_plain(ch_declaration *declaration, const char *name) {
  char full[NAME_SIZE];
  if (declaration->shapes) return;
  snprintf(full, sizeof full, "model.layers.%d.self_attn.%s.weight", declaration->layer, name);
  int index = ch_params_find(declaration->params, full);
  if (index >= 0) declaration->params->rows[index].in_blocks = false;
}

static int add_vector(ch_declaration *declaration, const char *name, const char *suffix, int64_t n,
                      double start) {
  return ch_params_vector(declaration->params, CH_PARAM_ATTENTION, start, n, "model.layers.%d.self_attn.%s%s",
                          declaration->layer, name, suffix);
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
  int index = ch_params_matrix(declaration->params, CH_PARAM_ATTENTION, std, rows, columns,
                               "model.layers.%d.self_attn.%s", declaration->layer, name);
  if (index < 0) return NULL;
  ch_param *row = &declaration->params->rows[index];
  row->init = init;
  row->always_real = true;
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

ch_node *ch_projection_weight(ch_builder *builder, const char *name) {
  ch_node *weight = ch_weight_source_of(builder->config, name)->weight(builder, name);
  return ch_add_residual(builder, weight, name);
}

ch_node *ch_project(ch_builder *builder, ch_node *x, const char *name) {
  char bias[64], full[NAME_SIZE];
  snprintf(bias, sizeof bias, "%s.bias", name);
  bool biased = ch_params_find(builder->params, full_name(builder, bias, full)) >= 0;
  ch_node *bias_leaf = biased ? ch_attention_param(builder, bias) : NULL;
  const ch_weight_source *source = ch_weight_source_of(builder->config, name);
  ch_node *y = source->project ? source->project(builder, x, name, bias_leaf)
                               : ch_op_linear(builder->graph, x, source->weight(builder, name), bias_leaf);
  return ch_add_residual_of(builder, y, x, name);
}

ch_node *ch_norm_with(ch_builder *builder, ch_node *x, const char *name, double eps) {
  char weight[64];
  snprintf(weight, sizeof weight, "%s.weight", name);
  return ch_op_rmsnorm(builder->graph, x, ch_attention_param(builder, weight), eps);
}

ch_node *ch_norm(ch_builder *builder, ch_node *x, const char *name) {
  return ch_norm_with(builder, x, name, builder->config->rms_norm_eps);
}

/* --- positions ----------------------------------------------------------------------------------------------- */

/* What turns `rotary` dims, made once for all layers. */
static ch_angles *angles_of(ch_builder *builder, int64_t rotary) {
  ch_angles *angles = builder->angles;
  while (angles && angles->rotary != rotary) angles = angles->next;
  if (angles) return angles;
  ch_arena *arena = &builder->graph->arena;
  angles = ch_arena_alloc(arena, sizeof *angles);
  double *frequencies = ch_arena_alloc(arena, (size_t)(rotary / 2 + 1) * sizeof *frequencies);
  if (!angles || !frequencies) {
    ch_graph_fail(builder->graph, "no memory for rotary frequencies");
    return NULL;
  }
  ch_rope_frequencies(builder->config, rotary, frequencies);
  *angles = (ch_angles){.rotary = rotary, .frequencies = frequencies, .next = builder->angles};
  return builder->angles = angles;
}

static ch_node *rope_of_states(ch_builder *builder, ch_angles *angles, ch_node *x, int64_t head_dim) {
  if (!angles->levels)
    angles->levels = ch_rope_levels_for(builder->graph, angles->rotary, angles->frequencies);
  return ch_op_rope_states(builder->graph, x, angles->levels, angles->rotary, head_dim,
                           builder->config->rope_interleaved);
}

/* The table of this run's positions. */
static ch_node *table_of(ch_builder *builder, ch_angles *angles) {
  ch_graph *graph = builder->graph;
  if (!angles->table)
    angles->table = ch_op_rope_table(graph, ch_graph_input(graph, CH_INPUT_POSITIONS), angles->rotary,
                                     angles->frequencies);
  return angles->table;
}

ch_node *ch_apply_rope(ch_builder *builder, ch_node *x, int64_t head_dim, int64_t rotary) {
  if (builder->config->position != CH_POSITION_ROPE || !x) return x;
  ch_angles *angles = angles_of(builder, rotary);
  if (!angles) return NULL;
  if (x->streamed) return rope_of_states(builder, angles, x, head_dim);
  return ch_op_rope(builder->graph, x, table_of(builder, angles), head_dim,
                    builder->config->rope_interleaved);
}

/* YaRN scales cosines and sines of queries and keys alike: once for both, here. */
ch_node *ch_rotate_queries(ch_builder *builder, ch_node *q, int64_t head_dim, int64_t rotary) {
  double scale = ch_rope_score_scale(builder->config);
  if (scale == 1 || builder->config->position != CH_POSITION_ROPE || !q)
    return ch_apply_rope(builder, q, head_dim, rotary);
  ch_angles *angles = angles_of(builder, rotary);
  if (!angles) return NULL;
  if (!angles->query_table)
    angles->query_table = ch_op_scale(builder->graph, table_of(builder, angles), scale);
  return ch_op_rope(builder->graph, q, angles->query_table, head_dim, builder->config->rope_interleaved);
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

const double *ch_alibi_slopes(ch_builder *builder, int64_t first, int64_t step, int64_t count) {
  if (builder->config->position != CH_POSITION_ALIBI) return NULL;
  int64_t heads = builder->config->num_attention_heads;
  double *slopes = ch_arena_alloc(&builder->graph->arena, (size_t)heads * sizeof *slopes);
  if (!slopes) {
    ch_graph_fail(builder->graph, "no memory for ALiBi slopes");
    return NULL;
  }
  alibi_slopes(heads, slopes);
  for (int64_t i = 0; i < count; i++) slopes[i] = slopes[first + i * step];
  return slopes;
}

ch_node *ch_attend_states(ch_builder *builder, ch_node *q, ch_node *keys, ch_node *values,
                          ch_attend_spec spec) {
  spec.causal = builder->causal;
  if (!spec.slopes) spec.slopes = ch_alibi_slopes(builder, 0, 1, spec.heads);
  return ch_op_attend(builder->graph, q, keys, values, builder->document_start, &spec);
}

/* --- a layer ------------------------------------------------------------------------------------------------- */

static ch_status write_states(ch_builder *builder, const ch_mechanism *mechanism, ch_node *x) {
  ch_state_part parts[CH_MAX_STATE_PARTS];
  ch_node *state[CH_MAX_STATE_PARTS] = {0};
  int count = mechanism->state(builder->config, builder->layer, parts);
  if (count == 0) return CH_OK;
  mechanism->write(builder, x, state);
  for (int p = 0; p < count; p++) {
    if (state[p] && ch_node_columns(state[p]) != parts[p].width) {
      ch_graph_fail(builder->graph, "%s writes %lld elements of %s where its state has %lld", mechanism->name,
                    (long long)ch_node_columns(state[p]), parts[p].name, (long long)parts[p].width);
      return CH_ERROR_CONFIG;
    }
    builder->states[p] = builder->remember
                             ? ch_op_remember(builder->graph, state[p], builder->layer, p, parts[p].kind,
                                              ch_part_type(&parts[p], &builder->cache))
                             : state[p];
  }
  return CH_OK;
}

ch_node *ch_attention(ch_builder *builder, ch_node *x) {
  const ch_mechanism *mechanism = ch_mechanism_of(builder->config);
  if (write_states(builder, mechanism, x) != CH_OK) return NULL;
  return mechanism->read(builder, x, builder->states);
}

int ch_rows_by_head(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  int64_t d = config->head_dim;
  made[0] = (ch_state_rows){"q_proj", CH_ON_Q, d, 0, d};
  made[1] = (ch_state_rows){"k_proj", CH_ON_K, d, 0, d};
  made[2] = (ch_state_rows){"v_proj", CH_ON_V, d, 0, d};
  return 3;
}
