/* Knocking heads (KHA eqs. 5-9): one map shared by all heads of a layer, so that heads learn from each other. With
 * "per_head", each head has its own map: a control without the sharing.
 *
 *   linear:  x W^T
 *   mlp:     2 (x W_up^T * sigmoid(x W_gate^T)) W_down^T
 *   gate:    2 x * sigmoid(x W_gate^T)                       (the paper's negative control)
 *
 * W, W_up and W_down start as the identity and W_gate at zero: the layer starts as if it had no knocking. With
 * "init": "random", all of them start like dense matrices (the control of section 3.3). */
#include <math.h>
#include <stdio.h>

#include "attention/mechanism.h"
#include "config/initial_std.h"

enum { NAME = 32 };

static const char *name_of(unsigned on, const char *what, char buffer[NAME]) {
  snprintf(buffer, NAME, "%s_knock%s.weight", on == CH_ON_Q ? "q" : on == CH_ON_K ? "k" : "v", what);
  return buffer;
}

bool ch_is_knocked(const ch_config *config, unsigned on) {
  return config->attention.knocking.on & on;
}

/* Declares a map [n, n], or one for each head [heads, n, n]. It starts as the identity or at zero, or random if the
   config has "init": "random". */
static void declare_map(ch_declaration *declaration, unsigned on, const char *what, int64_t n,
                        bool identity) {
  const ch_config *c = declaration->config;
  char name[NAME];
  bool random = c->attention.knocking.init == CH_KNOCKING_RANDOM;
  ch_param_init init = random     ? CH_PARAM_INIT_NORMAL
                       : identity ? CH_PARAM_INIT_ONE_HOT
                                  : CH_PARAM_INIT_CONSTANT;
  bool spectral = c->parametrization == CH_PARAMETRIZATION_SPECTRAL;
  double std = !random ? 0 : spectral ? 1 / sqrt((double)n) : ch_initial_std(c, n);
  ch_param *row = ch_declare_head_matrix(declaration, name_of(on, what, name), n, n, init, std);
  if (!row) return;
  if (c->attention.knocking.per_head) {
    row->rank = 3;
    row->shape[0] = on == CH_ON_Q ? c->num_attention_heads : ch_heads_of(c, on);
    row->shape[1] = row->shape[2] = n;
  }
  if (identity) row->decay_to_identity = c->attention.knocking.decay_to_identity;
}

void ch_knocking_declare(ch_declaration *declaration, unsigned on, int64_t head_dim) {
  if (!ch_is_knocked(declaration->config, on)) return;
  ch_knocking_type type = declaration->config->attention.knocking.type;
  if (type == CH_KNOCKING_LINEAR) declare_map(declaration, on, "", head_dim, true);
  if (type == CH_KNOCKING_MLP) declare_map(declaration, on, ".up", head_dim, true);
  if (type != CH_KNOCKING_LINEAR) declare_map(declaration, on, ".gate", head_dim, false);
  if (type == CH_KNOCKING_MLP) declare_map(declaration, on, ".down", head_dim, true);
}

/* Multiplies every head of x by the shared map, or by its own. */
static ch_node *through(ch_builder *builder, unsigned on, const char *what, ch_node *x) {
  char name[NAME];
  ch_node *map = ch_attention_param(builder, name_of(on, what, name));
  if (!map || map->rank == 2) return ch_op_linear(builder->graph, x, map, NULL);
  return ch_op_head_product(builder->graph, x, map,
                            (ch_head_rows){map->shape[0], map->shape[1], 0, map->shape[1], false});
}

ch_node *ch_knock(ch_builder *builder, unsigned on, ch_node *heads) {
  if (!ch_is_knocked(builder->config, on)) return heads;
  ch_knocking_type type = builder->config->attention.knocking.type;
  if (type == CH_KNOCKING_LINEAR) return through(builder, on, "", heads);
  ch_node *gate = through(builder, on, ".gate", heads);
  if (type == CH_KNOCKING_GATE) return ch_op_sigmoid_gate(builder->graph, heads, gate, 2);
  ch_node *up = through(builder, on, ".up", heads);
  return through(builder, on, ".down", ch_op_sigmoid_gate(builder->graph, up, gate, 2));
}

ch_node *ch_knock_query_for_keys(ch_builder *builder, ch_node *q, int64_t dim) {
  const ch_config *c = builder->config;
  char name[NAME];
  if (!ch_is_knocked(c, CH_ON_K)) return q;
  int64_t stride = c->attention.knocking.per_head ? dim : 0;
  return ch_op_head_product(builder->graph, q, ch_attention_param(builder, name_of(CH_ON_K, "", name)),
                            (ch_head_rows){c->num_attention_heads, stride, 0, dim, true});
}
