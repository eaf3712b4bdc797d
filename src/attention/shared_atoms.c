/* Matrices as combinations of atoms that all layers share (MASA eq. 2): W_l = sum over s of c[l, s] D_s, with learned
 * coefficients. With the types "sequential" and "repeat", W_l is a single atom, assigned as in sequential sharing
 * (Takase & Kiyono) or repeat-all-over (MobileLLM).
 *
 * Coefficients are trained directly ("direct"), or a small MLP computes them from an embedding of the layer ("mlp", as
 * in the paper); inference needs only its results. Each group of consecutive layers may have its own dictionary. */
#include <math.h>
#include <stdio.h>

#include "attention/weight_source.h"
#include "config/initial_std.h"

enum { EMBEDDING = 64, HIDDEN = 64, MLP_LAYERS = 3, NAME_SIZE = 160 };

/* E[gelu(z)^2] of a standard normal z. It scales initial weights so that a layer's outputs have the variance of its
   inputs. */
static const double gelu_power = 0.425;

/* --- declaring ------------------------------------------------------------------------------------------ */

/* Writes "model.dictionary.{name}.atoms", with "{g}." before the name for group g, or for a common dictionary the name
   of the atoms of this shape. */
static const char *atoms_name(const ch_config *config, int layer, const char *name, int64_t out, int64_t in,
                              char full[NAME_SIZE]) {
  int64_t layers;
  int group = ch_group_of_layer(config, layer, &layers);
  if (config->sharing.common_dictionary)
    snprintf(full, NAME_SIZE, "model.dictionary.common_%lldx%lld.atoms", (long long)out, (long long)in);
  else if (group >= 0)
    snprintf(full, NAME_SIZE, "model.dictionary.%d.%s.atoms", group, name);
  else
    snprintf(full, NAME_SIZE, "model.dictionary.%s.atoms", name);
  return full;
}

/* Returns the number S of atoms in the layer's dictionary: the config's number. Except in a common dictionary, it is
   at most one for each layer of the group. If the config has no number, returns the number in the file that is being
   opened. Returns 0 after a failure. */
static int64_t atom_count(const ch_declaration *declaration, const char *full) {
  int64_t layers, atoms = declaration->config->sharing.atoms;
  ch_group_of_layer(declaration->config, declaration->layer, &layers);
  if (atoms > 0 && declaration->config->sharing.common_dictionary) return atoms;
  if (atoms > 0) return atoms < layers ? atoms : layers;
  const ch_known_shape *known = ch_known_shape_of(declaration->params->known, full);
  if (known && known->rank == 3 && known->shape[0] > 0) return known->shape[0];
  ch_params_fail(declaration->params,
                 "\"sharing.atoms\" is missing, and the configuration's directory has no checkpoint that "
                 "shows it by the shape of "
                 "%s; set it to a whole number",
                 full);
  return 0;
}

/* Declares the atoms of a projection [out, in] of the layer. Returns their parameter's index, or -1 after a failure.
   They start with the average variance of the projections in the layers that use them. */
static int declare_atoms(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                         ch_param_role role) {
  ch_params *params = declaration->params;
  char full[NAME_SIZE];
  atoms_name(declaration->config, declaration->layer, name, out, in, full);
  int64_t count = atom_count(declaration, full);
  if (count < 1) return -1;
  int index = ch_params_find(params, full);
  double std = ch_initial_std_of(declaration->config, role, declaration->layer, in);
  if (index < 0) {
    index = ch_params_matrix(params, CH_PARAM_ATTENTION, std, out, in, "%s", full);
    ch_params_set_role(params, index, role);
  }
  if (index < 0) return -1;
  ch_param *row = &params->rows[index];
  /* the role of a common dictionary of hidden and output projections is CH_PARAM_HIDDEN */
  if (role == CH_PARAM_HIDDEN) row->role = role;
  if (row->rank == 3 && (row->shape[1] != out || row->shape[2] != in)) {
    ch_params_fail(
        params,
        "\"sharing.projections\" names \"%s\", which is [%lld, %lld] in one layer and [%lld, %lld] in "
        "another; shared matrices must have one shape, so leave it out",
        name, (long long)row->shape[1], (long long)row->shape[2], (long long)out, (long long)in);
    return -1;
  }
  row->rank = 3;
  row->shape[0] = count;
  row->shape[1] = out;
  row->shape[2] = in;
  row->std = sqrt((row->std * row->std * row->layers + std * std) / (row->layers + 1));
  row->layers++;
  return index;
}

static void declare_picked(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                           ch_param_role role) {
  declare_atoms(declaration, name, out, in, role);
}

static void declare_mlp_layer(ch_declaration *declaration, const char *name, int layer, int64_t out,
                              int64_t in, double power) {
  ch_params *params = declaration->params;
  int weight = ch_params_matrix(params, CH_PARAM_ATTENTION, sqrt(1 / ((double)in * power)), out, in,
                                "model.dictionary.%s.mlp.%d.weight", name, layer);
  int bias =
      ch_params_vector(params, CH_PARAM_ATTENTION, 0, out, "model.dictionary.%s.mlp.%d.bias", name, layer);
  if (weight < 0 || bias < 0) return;
  params->rows[weight].always_real = true;
  params->rows[weight].role = CH_PARAM_COEFFICIENT_MLP;
  params->rows[weight].training_only = params->rows[bias].training_only = true;
}

/* Declares the block embedding and the MLP of a projection once for all layers. The MLP has S outputs for each layer's
   embedding. Returns the embedding's parameter index, or -1 after a failure. */
static int declare_mlp(ch_declaration *declaration, const char *name) {
  const ch_config *c = declaration->config;
  ch_params *params = declaration->params;
  int64_t atoms = c->sharing.atoms;
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.dictionary.%s.block_embedding", name);
  int index = ch_params_find(params, full);
  if (index < 0) {
    index = ch_params_matrix(params, CH_PARAM_ATTENTION, 1, c->num_hidden_layers, EMBEDDING, "%s", full);
    declare_mlp_layer(declaration, name, 0, HIDDEN, EMBEDDING, 1);
    declare_mlp_layer(declaration, name, 1, HIDDEN, HIDDEN, gelu_power);
    declare_mlp_layer(declaration, name, 2, atoms, HIDDEN, gelu_power * (double)atoms);
  }
  if (index < 0) return -1;
  params->rows[index].always_real = params->rows[index].training_only = true;
  params->rows[index].role = CH_PARAM_COEFFICIENT_MLP;
  params->rows[index].stands_for += atoms;
  return index;
}

/* Declares atoms and coefficients. The coefficients have variance 1/S, so that W_l starts with the variance of an
   atom. */
static void declare_masa(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                         ch_param_role role) {
  const ch_sharing *sharing = &declaration->config->sharing;
  ch_params *params = declaration->params;
  int atoms = declare_atoms(declaration, name, out, in, role), coefficients;
  if (atoms < 0) return;
  if (sharing->coefficients == CH_COEFFICIENTS_MLP) {
    coefficients = declare_mlp(declaration, name);
  } else {
    int64_t count = params->rows[atoms].shape[0];
    coefficients = ch_params_vector(params, CH_PARAM_ATTENTION, 0, count,
                                    "model.layers.%d.self_attn.%s.coefficients", declaration->layer, name);
    if (coefficients >= 0) params->rows[coefficients].std = 1 / sqrt((double)count);
    ch_params_set_role(params, coefficients,
                       role == CH_PARAM_RESIDUAL ? CH_PARAM_RESIDUAL_COEFFICIENTS : CH_PARAM_COEFFICIENTS);
  }
  if (coefficients >= 0) params->rows[coefficients].atoms = atoms;
}

/* --- building ------------------------------------------------------------------------------------------- */

static ch_node *dictionary_param(ch_builder *builder, const char *name, const char *part) {
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.dictionary.%s.%s", name, part);
  return ch_builder_param(builder, full);
}

/* Returns the parameter index of a layer's coefficients, or of the MLP's block embedding; -1 if it was not
   declared. */
static int coefficients_row(const ch_config *config, const ch_params *params, int layer, const char *name) {
  char full[NAME_SIZE];
  if (config->sharing.coefficients == CH_COEFFICIENTS_MLP)
    snprintf(full, sizeof full, "model.dictionary.%s.block_embedding", name);
  else
    snprintf(full, sizeof full, "model.layers.%d.self_attn.%s.coefficients", layer, name);
  return ch_params_find(params, full);
}

int ch_atoms_row(const ch_config *config, const ch_params *params, int layer, const char *name) {
  if (!ch_is_shared(config, name) || config->sharing.type == CH_SHARING_LOW_RANK) return -1;
  if (config->sharing.type == CH_SHARING_MASA) {
    int coefficients = coefficients_row(config, params, layer, name);
    return coefficients < 0 ? -1 : params->rows[coefficients].atoms;
  }
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.dictionary.%s.atoms", name);
  return ch_params_find(params, full);
}

/* Returns the coefficients of all layers [L, S], computed by the MLP, or of this layer [S]. */
static ch_node *coefficients_of(ch_builder *builder, const char *name, int row) {
  ch_node *x = ch_builder_param(builder, builder->params->rows[row].name);
  if (builder->config->sharing.coefficients == CH_COEFFICIENTS_DIRECT) return x;
  for (int layer = 0; layer < MLP_LAYERS; layer++) {
    if (layer > 0) x = ch_op_gelu(builder->graph, x);
    char weight[32], bias[32];
    snprintf(weight, sizeof weight, "mlp.%d.weight", layer);
    snprintf(bias, sizeof bias, "mlp.%d.bias", layer);
    x = ch_op_linear(builder->graph, x, dictionary_param(builder, name, weight),
                     dictionary_param(builder, name, bias));
  }
  return x;
}

ch_node *ch_masa_coefficients(ch_builder *builder, const char *name, int64_t *row) {
  int declared = coefficients_row(builder->config, builder->params, builder->layer, name);
  if (declared < 0)
    return ch_graph_fail(builder->graph, "no parameter was declared for %s of layer %d", name,
                         builder->layer);
  *row = builder->config->sharing.coefficients == CH_COEFFICIENTS_DIRECT ? 0 : builder->layer;
  return coefficients_of(builder, name, declared);
}

static ch_node *masa_weight(ch_builder *builder, const char *name) {
  int64_t row;
  ch_node *coefficients = ch_masa_coefficients(builder, name, &row);
  if (!coefficients) return NULL;
  int row_of_atoms = ch_atoms_row(builder->config, builder->params, builder->layer, name);
  ch_node *atoms = ch_builder_param(builder, builder->params->rows[row_of_atoms].name);
  return ch_op_combine_atoms(builder->graph, atoms, coefficients, row);
}

/* Up to this many tokens, if the dictionary was not materialised, x is multiplied by all atoms at once and the products
   are combined, so that no matrix is written only to be read once. */
enum { FEW_ROWS = 4 };

static bool takes_atoms(const ch_builder *builder, const ch_node *x, const ch_param *atoms,
                        const ch_node *bias) {
  bool direct = builder->config->sharing.coefficients == CH_COEFFICIENTS_DIRECT;
  return builder->cached && direct && !bias && x && !x->streamed && ch_node_rows(x) <= FEW_ROWS &&
         ch_node_columns(x) == atoms->shape[2];
}

static ch_node *masa_project(ch_builder *builder, ch_node *x, const char *name, ch_node *bias) {
  ch_graph *graph = builder->graph;
  int index = ch_atoms_row(builder->config, builder->params, builder->layer, name);
  const ch_param *atoms = index < 0 ? NULL : &builder->params->rows[index];
  if (!atoms || !takes_atoms(builder, x, atoms, bias))
    return ch_op_linear(graph, x, masa_weight(builder, name), bias);
  int own = coefficients_row(builder->config, builder->params, builder->layer, name);
  const int64_t stacked[] = {atoms->shape[0] * atoms->shape[1], atoms->shape[2]},
                row[] = {1, atoms->shape[0]};
  ch_node *all = ch_graph_param(graph, index, atoms->name, 2, stacked, false);
  ch_node *mix = ch_graph_param(graph, own, builder->params->rows[own].name, 2, row, false);
  return ch_op_head_mix(graph, ch_op_linear(graph, x, all, NULL), mix);
}

const ch_weight_source ch_source_masa = {
    .declare = declare_masa, .weight = masa_weight, .project = masa_project};

/* --- one atom per layer --------------------------------------------------------------------------------- */

int64_t ch_atom_of_layer(const ch_config *config, int layer) {
  const ch_sharing *sharing = &config->sharing;
  if (sharing->type == CH_SHARING_SEQUENTIAL) return layer * sharing->atoms / config->num_hidden_layers;
  return sharing->type == CH_SHARING_REPEAT ? layer % sharing->atoms : -1;
}

static ch_node *picked_weight(ch_builder *builder, const char *name) {
  return ch_op_combine_atoms(builder->graph, dictionary_param(builder, name, "atoms"), NULL,
                             ch_atom_of_layer(builder->config, builder->layer));
}

const ch_weight_source ch_source_one_atom = {.declare = declare_picked, .weight = picked_weight};
