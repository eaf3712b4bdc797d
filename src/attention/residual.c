/* Residuals that compression adds to a projection's matrix: W_l = What_l + b_l a_l, a [rank, in] and b [out, rank].
 * There is no configuration key for them: a matrix has a residual if its checkpoint has the tensors, and their shape
 * gives the rank. */
#include <stdio.h>
#include <string.h>

#include "attention/weight_source.h"
#include "config/initial_std.h"

enum { NAME_SIZE = 160 };

void ch_residual_declare(ch_declaration *declaration, const char *name, int64_t out, int64_t in) {
  ch_params *params = declaration->params;
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.layers.%d.self_attn.%s.residual.a.weight", declaration->layer, name);
  const ch_known_shape *known = ch_known_shape_of(params->known, full);
  bool ours = strncmp(declaration->config->model_type, "crosshead", strlen("crosshead")) == 0;
  if (!known || !ours) return; /* other families' checkpoints have no residuals */
  if (known->rank != 2 || known->shape[0] < 1) {
    ch_params_fail(params, "%s must be a matrix [rank, %lld] with a rank of at least 1", full, (long long)in);
    return;
  }
  int64_t rank = known->shape[0];
  ch_params_matrix(params, CH_PARAM_ATTENTION, ch_initial_std(declaration->config, in), rank, in, "%s", full);
  ch_params_matrix(params, CH_PARAM_ATTENTION, 0, out, rank, "model.layers.%d.self_attn.%s.residual.b.weight",
                   declaration->layer, name);
}

bool ch_has_residual(const ch_params *params, int layer, const char *name) {
  char full[NAME_SIZE];
  snprintf(full, sizeof full, "model.layers.%d.self_attn.%s.residual.a.weight", layer, name);
  return ch_params_find(params, full) >= 0;
}

static ch_node *factor(ch_builder *builder, const char *name, char which) {
  char full[96];
  snprintf(full, sizeof full, "%s.residual.%c.weight", name, which);
  return ch_attention_param(builder, full);
}

ch_node *ch_add_residual(ch_builder *builder, ch_node *weight, const char *name) {
  if (!ch_has_residual(builder->params, builder->layer, name)) return weight;
  ch_node *product =
      ch_op_matrix_product(builder->graph, factor(builder, name, 'b'), factor(builder, name, 'a'));
  return ch_op_add(builder->graph, weight, product);
}

ch_node *ch_add_residual_of(ch_builder *builder, ch_node *y, ch_node *x, const char *name) {
  if (!ch_has_residual(builder->params, builder->layer, name)) return y;
  ch_node *inner = ch_op_linear(builder->graph, x, factor(builder, name, 'a'), NULL);
  return ch_op_add(builder->graph, y, ch_op_linear(builder->graph, inner, factor(builder, name, 'b'), NULL));
}
