/* Low-rank projections: W_l = B_l A_l with A [rank, in] and B [out, rank], each layer with its own pair. */
#include <math.h>
#include <stdio.h>

#include "attention/weight_source.h"
#include "config/initial_std.h"

/* The rank: what the config says, or the rows of A in the file that is being opened. 0 after a failure. */
static int64_t rank_of(ch_declaration *declaration, const char *name) {
  int64_t rank = declaration->config->sharing.rank;
  if (rank > 0) return rank;
  char full[160];
  snprintf(full, sizeof full, "model.layers.%d.self_attn.%s.a.weight", declaration->layer, name);
  const ch_known_shape *known = ch_known_shape_of(declaration->params->known, full);
  if (known && known->rank == 2 && known->shape[0] > 0) return known->shape[0];
  ch_params_fail(
      declaration->params,
      "\"sharing.rank\" is missing, and no checkpoint beside the configuration says it by the shape of "
      "%s; set it to a whole number",
      full);
  return 0;
}

/* Both factors are initialised as linear weights; an output projection's division by depth applies to B. */
static void declare(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                    ch_param_role role) {
  const ch_config *c = declaration->config;
  ch_params *params = declaration->params;
  int layer = declaration->layer;
  int64_t rank = rank_of(declaration, name);
  if (rank < 1) return;
  double first = role == CH_PARAM_GATE ? 1 / sqrt((double)in) : ch_initial_std(c, in);
  int a = ch_params_matrix(params, CH_PARAM_ATTENTION, first, rank, in,
                           "model.layers.%d.self_attn.%s.a.weight", layer, name);
  int b = ch_params_matrix(params, CH_PARAM_ATTENTION, ch_initial_std_of(c, role, layer, rank), out, rank,
                           "model.layers.%d.self_attn.%s.b.weight", layer, name);
  if (a < 0 || b < 0) return;
  params->rows[a].factor = params->rows[b].factor = true;
  params->rows[b].role = role;
}

static ch_node *factor(ch_builder *builder, const char *name, char which) {
  char full[96];
  snprintf(full, sizeof full, "%s.%c.weight", name, which);
  return ch_attention_param(builder, full);
}

static ch_node *weight(ch_builder *builder, const char *name) {
  return ch_op_matrix_product(builder->graph, factor(builder, name, 'b'), factor(builder, name, 'a'));
}

static ch_node *project(ch_builder *builder, ch_node *x, const char *name, ch_node *bias) {
  ch_node *inner = ch_op_linear(builder->graph, x, factor(builder, name, 'a'), NULL);
  return ch_op_linear(builder->graph, inner, factor(builder, name, 'b'), bias);
}

const ch_weight_source ch_source_low_rank = {.declare = declare, .weight = weight, .project = project};
