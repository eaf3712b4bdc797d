/* Low-rank projections: W_l = B_l A_l with A_l [rank, in] and B_l [out, rank], where each layer has its own pair. In
 * Basis Sharing (arXiv 2410.03765), W_l = B_l A_g: the layers of group g share the first factor, their basis, and B_l
 * has the layer's coefficients. */
#include <math.h>
#include <stdio.h>

#include "attention/weight_source.h"
#include "config/initial_std.h"

enum { NAME_SIZE = 160 };

static void own_first_name(int layer, const char *name, char full[NAME_SIZE]) {
  snprintf(full, NAME_SIZE, "model.layers.%d.self_attn.%s.a.weight", layer, name);
}

/* Writes the name of the first factor that the layers of a group share. Returns false if there are no
   groups. */
static bool basis_name(const ch_config *config, int layer, const char *name, char full[NAME_SIZE]) {
  int64_t layers;
  int group = ch_group_of_layer(config, layer, &layers);
  if (group >= 0) snprintf(full, NAME_SIZE, "model.dictionary.%d.%s.basis", group, name);
  return group >= 0;
}

/* Writes the name of A: the layer's own if the file that is being opened has it, else its group's. */
static void first_name(const ch_declaration *declaration, const char *name, char full[NAME_SIZE]) {
  own_first_name(declaration->layer, name, full);
  if (!ch_known_shape_of(declaration->params->known, full))
    basis_name(declaration->config, declaration->layer, name, full);
}

/* Returns the rank in the config, or else the number of rows of the first factor in the file that is being opened.
   Returns 0 after a failure. */
static int64_t rank_of(ch_declaration *declaration, const char *first) {
  int64_t rank = declaration->config->sharing.rank;
  if (rank > 0) return rank;
  const ch_known_shape *known = ch_known_shape_of(declaration->params->known, first);
  if (known && known->rank == 2 && known->shape[0] > 0) return known->shape[0];
  ch_params_fail(declaration->params,
                 "\"sharing.rank\" is missing, and the configuration's directory has no checkpoint that "
                 "shows it by the shape of "
                 "%s; set it to a whole number",
                 first);
  return 0;
}

/* Declares the first factor of a matrix, unless an earlier layer of the group did. Returns its index in params->rows,
   or -1 after a failure. */
static int declare_first(ch_declaration *declaration, const char *name, const char *full, double std,
                         int64_t rank, int64_t in) {
  ch_params *params = declaration->params;
  int index = ch_params_find(params, full);
  if (index < 0) return ch_params_matrix(params, CH_PARAM_ATTENTION, std, rank, in, "%s", full);
  if (params->rows[index].shape[1] == in) return index;
  ch_params_fail(
      params,
      "\"sharing.projections\" names \"%s\", which has %lld inputs in one layer of a group and %lld "
      "in another; a shared factor needs one number, so leave it out",
      name, (long long)params->rows[index].shape[1], (long long)in);
  return -1;
}

/* Declares both factors. Their product starts with the variance of the dense matrix that they replace. A starts like
   that matrix, without an output projection's division by depth. B is scaled so that the rank times both variances is
   the matrix's variance. */
static void low_rank_declare(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                             ch_param_role role) {
  const ch_config *c = declaration->config;
  ch_params *params = declaration->params;
  int layer = declaration->layer;
  char full[NAME_SIZE];
  first_name(declaration, name, full);
  int64_t rank = rank_of(declaration, full);
  if (rank < 1) return;
  double first = role == CH_PARAM_GATE ? 1 / sqrt((double)in) : ch_initial_std(c, in);
  double second = ch_initial_std_of(c, role, layer, in) / (first * sqrt((double)rank));
  int a = declare_first(declaration, name, full, first, rank, in);
  int b = ch_params_matrix(params, CH_PARAM_ATTENTION, second, out, rank,
                           "model.layers.%d.self_attn.%s.b.weight", layer, name);
  if (a < 0 || b < 0) return;
  params->rows[a].factor = params->rows[b].factor = true;
  params->rows[b].role = role;
}

static ch_node *first_factor(ch_builder *builder, const char *name) {
  char full[NAME_SIZE], shared[NAME_SIZE];
  own_first_name(builder->layer, name, full);
  bool own = ch_params_find(builder->params, full) >= 0;
  return ch_builder_param(builder,
                          !own && basis_name(builder->config, builder->layer, name, shared) ? shared : full);
}

static ch_node *second_factor(ch_builder *builder, const char *name) {
  char full[96];
  snprintf(full, sizeof full, "%s.b.weight", name);
  return ch_attention_param(builder, full);
}

static ch_node *weight(ch_builder *builder, const char *name) {
  return ch_op_matrix_product(builder->graph, second_factor(builder, name), first_factor(builder, name));
}

static ch_node *project(ch_builder *builder, ch_node *x, const char *name, ch_node *bias) {
  ch_node *inner = ch_op_linear(builder->graph, x, first_factor(builder, name), NULL);
  return ch_op_linear(builder->graph, inner, second_factor(builder, name), bias);
}

const ch_weight_source ch_source_low_rank = {
    .declare = low_rank_declare, .weight = weight, .project = project};
