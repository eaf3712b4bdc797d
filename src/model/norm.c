/* The kinds of norms, one record each. */
#include "model/norm.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 96 };

static ch_node *rmsnorm(const ch_builder *builder, ch_node *x, ch_node *weight, ch_node *bias) {
  (void)bias;
  return ch_op_rmsnorm(builder->graph, x, weight, builder->config->rms_norm_eps);
}

static ch_node *layernorm(const ch_builder *builder, ch_node *x, ch_node *weight, ch_node *bias) {
  return ch_op_layernorm(builder->graph, x, weight, bias, builder->config->layer_norm_eps);
}

static const ch_norm_kind kinds[] = {{"rmsnorm", false, rmsnorm}, {"layernorm", true, layernorm}};
static const char *const names[] = {"rmsnorm", "layernorm", NULL};

const char *const *ch_norm_names(void) {
  return names;
}

static const ch_norm_kind *kind_of(const ch_config *config) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].name, config->norm) == 0) return &kinds[i];
  return NULL;
}

void ch_model_norm_declare(const ch_config *config, ch_params *params, const char *name) {
  ch_params_vector(params, CH_PARAM_NORM, 1, config->hidden_size, "%s.weight", name);
  if (kind_of(config)->biased)
    ch_params_vector(params, CH_PARAM_NORM, 0, config->hidden_size, "%s.bias", name);
}

ch_node *ch_model_norm(ch_builder *builder, ch_node *x, const char *name) {
  const ch_norm_kind *kind = kind_of(builder->config);
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "%s.weight", name);
  ch_node *weight = ch_builder_param(builder, full), *bias = NULL;
  snprintf(full, sizeof full, "%s.bias", name);
  if (kind->biased) bias = ch_builder_param(builder, full);
  return kind->build(builder, x, weight, bias);
}

static const char final_norm[] = "model.norm";

void ch_final_norm_declare(const ch_config *config, ch_params *params) {
  if (config->norm_placement != CH_NORM_POST) ch_model_norm_declare(config, params, final_norm);
}

ch_node *ch_final_norm(ch_builder *builder, ch_node *x) {
  return builder->config->norm_placement != CH_NORM_POST ? ch_model_norm(builder, x, final_norm) : x;
}
