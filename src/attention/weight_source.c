/* Finds the weight source of a projection by its name, and defines the dense source: every layer has its own
 * matrix. */
#include "attention/weight_source.h"

#include <stdio.h>

#include "config/initial_std.h"

static void dense_declare(ch_declaration *declaration, const char *name, int64_t out, int64_t in,
                          ch_param_role role) {
  double std = ch_initial_std_of(declaration->config, role, declaration->layer, in);
  int index = ch_params_matrix(declaration->params, CH_PARAM_ATTENTION, std, out, in,
                               "model.layers.%d.%s.%s.weight", declaration->layer,
                               ch_attention_module(declaration->config, declaration->layer), name);
  ch_params_set_role(declaration->params, index, role);
}

static ch_node *dense_weight(ch_builder *builder, const char *name) {
  char full[96];
  snprintf(full, sizeof full, "%s.weight", name);
  return ch_attention_param(builder, full);
}

static const ch_weight_source dense = {.declare = dense_declare, .weight = dense_weight};

const ch_weight_source *ch_weight_source_of(const ch_config *config, const char *name) {
  if (!ch_is_shared(config, name)) return &dense;
  switch (config->sharing.type) {
  case CH_SHARING_MASA:
    return &ch_source_masa;
  case CH_SHARING_SEQUENTIAL:
  case CH_SHARING_REPEAT:
    return &ch_source_one_atom;
  case CH_SHARING_LOW_RANK:
    return &ch_source_low_rank;
  case CH_SHARING_NONE:
    break;
  }
  return &dense;
}
