/* Declares and applies projections, from any source of their matrices. */
#include <stdio.h>
#include <string.h>

#include "attention/weight_source.h"

enum { NAME_SIZE = 160 };

/* --- declaring ------------------------------------------------------------------------------------------ */

ch_projection_shape *ch_noted_projection(ch_projection_shapes *shapes, const char *name) {
  for (int i = 0; i < shapes->count; i++)
    if (strcmp(shapes->rows[i].name, name) == 0) return &shapes->rows[i];
  return NULL;
}

static void note_projection(ch_projection_shapes *shapes, const char *name, int64_t out, int64_t in) {
  ch_projection_shape *row = ch_noted_projection(shapes, name);
  if (!row && shapes->count < CH_MAX_PROJECTIONS) {
    row = &shapes->rows[shapes->count++];
    *row = (ch_projection_shape){.name = name, .out = out, .in = in};
  }
  if (!row) return;
  row->layers++;
  if (row->out == out && row->in == in) return;
  row->other_out = out;
  row->other_in = in;
}

/* Declares a projection by the weight source that the config names for it. */
static void declare_by_source(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                              ch_param_role role) {
  if (ch_writing_layer(declaration->config, declaration->layer) != declaration->layer &&
      ch_is_of_writer(name))
    return;
  if (declaration->shapes) {
    note_projection(declaration->shapes, name, out, in);
    return;
  }
  ch_weight_source_of(declaration->config, name)->declare(declaration, name, out, in, role);
  ch_residual_declare(declaration, name, out, in);
}

void ch_declare_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  declare_by_source(declaration, name, out, in, CH_PARAM_HIDDEN);
}

void ch_declare_output_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  declare_by_source(declaration, name, out, in, CH_PARAM_RESIDUAL);
}

void ch_declare_gate_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  declare_by_source(declaration, name, out, in, CH_PARAM_GATE);
}

/* Returns the row of a projection that has its own matrix, or -1. */
static int dense_row(const ch_declaration *declaration, const char *name) {
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.layers.%d.%s.%s.weight", declaration->layer,
           ch_attention_module(declaration->config, declaration->layer), name);
  return ch_params_find(declaration->params, full);
}

void ch_declare_product(ch_declaration *declaration, const char *first, const char *second) {
  const char *const names[] = {first, second};
  if (declaration->shapes) return;
  for (int i = 0; i < 2; i++) {
    int index = dense_row(declaration, names[i]);
    if (index >= 0) declaration->params->rows[index].factor = true;
  }
}

void ch_start_with(ch_declaration *declaration, const char *name, double std) {
  if (declaration->shapes || declaration->config->init != CH_INIT_DEFAULT) return;
  int index = dense_row(declaration, name);
  if (index >= 0) declaration->params->rows[index].std = std;
}

void ch_declare_scaled_input(ch_declaration *declaration, const char *name, double scale) {
  if (declaration->shapes) return;
  int index = dense_row(declaration, name);
  if (index >= 0) declaration->params->rows[index].input_scale = scale;
}

void ch_keep_plain(ch_declaration *declaration, const char *name) {
  if (declaration->shapes) return;
  int index = dense_row(declaration, name);
  if (index >= 0) declaration->params->rows[index].block_quantisable = false;
}

/* --- building ------------------------------------------------------------------------------------------- */

/* Returns a copy of the builder at the layer that has the projection. */
static ch_builder at_owner(const ch_builder *builder, const char *name) {
  ch_builder owner = *builder;
  if (ch_is_of_writer(name)) owner.layer = ch_writing_layer(builder->config, builder->layer);
  return owner;
}

ch_node *ch_projection_weight(ch_builder *given, const char *name) {
  ch_builder owner = at_owner(given, name), *builder = &owner;
  ch_node *weight = ch_weight_source_of(builder->config, name)->weight(builder, name);
  return ch_add_residual(builder, weight, name);
}

ch_node *ch_project(ch_builder *given, ch_node *x, const char *name) {
  ch_builder owner = at_owner(given, name), *builder = &owner;
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.layers.%d.%s.%s.bias", builder->layer,
           ch_attention_module(builder->config, builder->layer), name);
  ch_node *bias = ch_params_find(builder->params, full) >= 0 ? ch_builder_param(builder, full) : NULL;
  const ch_weight_source *source = ch_weight_source_of(builder->config, name);
  ch_node *y = source->project ? source->project(builder, x, name, bias)
                               : ch_op_linear(builder->graph, x, source->weight(builder, name), bias);
  return ch_add_residual_of(builder, y, x, name);
}
