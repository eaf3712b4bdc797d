/* Knocking heads (KHA eqs. 5-9): one map shared by all heads of a layer, so that what one head learns the others get.
 *
 *   linear:  x W^T
 *   mlp:     2 (x W_up^T * sigmoid(x W_gate^T)) W_down^T
 *   gate:    2 x * sigmoid(x W_gate^T)                       (the paper's negative control)
 *
 * W, W_up and W_down start as the identity and W_gate at zero: the layer starts as if it had no knocking. With "init":
 * "random" all of them start like dense matrices (the control of section 3.3).
 */
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

/* The spread of a dense matrix with n inputs. */
static double dense_std(const ch_config *config, int64_t n) {
  return config->parametrization == CH_PARAMETRIZATION_SPECTRAL ? 1 / sqrt((double)n)
                                                                : ch_initial_std(config, n);
}

/* A map [n, n] that starts as the identity, or at zero, if the config does not want random ones. */
static void declare_map(ch_declaration *declaration, const char *name, int64_t n, bool identity) {
  const ch_config *c = declaration->config;
  bool random = c->attention.knocking.init == CH_KNOCKING_RANDOM;
  ch_param_init init = random     ? CH_PARAM_INIT_NORMAL
                       : identity ? CH_PARAM_INIT_ONE_HOT
                                  : CH_PARAM_INIT_CONSTANT;
  ch_param *row = ch_declare_head_matrix(declaration, name, n, n, init, random ? dense_std(c, n) : 0);
  if (row && identity) row->decay_to_identity = c->attention.knocking.decay_to_identity;
}

void ch_knocking_declare(ch_declaration *declaration, unsigned on, int64_t head_dim) {
  char name[NAME];
  if (!ch_is_knocked(declaration->config, on)) return;
  ch_knocking_type type = declaration->config->attention.knocking.type;
  if (type == CH_KNOCKING_LINEAR) declare_map(declaration, name_of(on, "", name), head_dim, true);
  if (type == CH_KNOCKING_MLP) declare_map(declaration, name_of(on, ".up", name), head_dim, true);
  if (type != CH_KNOCKING_LINEAR) declare_map(declaration, name_of(on, ".gate", name), head_dim, false);
  if (type == CH_KNOCKING_MLP) declare_map(declaration, name_of(on, ".down", name), head_dim, true);
}

/* Every head of x through one matrix. */
static ch_node *through(ch_builder *builder, unsigned on, const char *what, ch_node *x) {
  char name[NAME];
  return ch_op_linear(builder->graph, x, ch_attention_param(builder, name_of(on, what, name)), NULL);
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
