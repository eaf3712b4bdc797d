/* Gated DeltaNet (Yang, Kautz & Hatamizadeh 2024): a layer with a state of a fixed size in place of keys and
 * values.
 *
 *   q, k, v = silu(conv(W x)),   q and k of length 1 by head
 *   b = sigmoid(W_b x), or 2 sigmoid(W_b x),
 *   a = exp(-exp(A_log) softplus(W_a x + dt_bias)), one for each value head
 *   S_t = a_t S_{t-1} + k_t (b_t (v_t - (a_t S_{t-1})^T k_t))^T,   o_t = S_t^T q_t / sqrt(d_k)
 *   y = W_o [RMSNorm(o) * silu(W_g x)]
 * The state of a sequence is S of every value head, and the last rows of W x that the short convolutions read.
 * Nothing is written token by token: the operations that read these states also update them. */
#include <math.h>

#include "attention/mechanism.h"

/* Parts of the state: S, and the earlier rows that each convolution reads. */
enum { STATE, CONV_Q, CONV_K, CONV_V, PARTS };

/* The epsilon that is added to a squared length before its root is taken. */
static const double length_eps = 1e-6;

static int64_t key_width(const ch_config *c) {
  return c->linear_attention.heads * c->linear_attention.head_dim;
}

static int64_t value_width(const ch_config *c) {
  return c->linear_attention.value_heads * c->linear_attention.value_head_dim;
}

/* --- tensors -------------------------------------------------------------------------------------------- */

/* Declares a projection and the convolution after it. */
static void declare_convolved(ch_declaration *declaration, const char *name, const char *conv,
                              int64_t width) {
  const ch_config *c = declaration->config;
  ch_declare_projection(declaration, name, width, c->hidden_size);
  if (c->linear_attention.conv && !declaration->shapes)
    ch_declare_conv(declaration, conv, width, c->linear_attention.conv);
}

static void gdn_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  const ch_linear_attention *l = &c->linear_attention;
  declare_convolved(declaration, "q_proj", "q_conv1d", key_width(c));
  declare_convolved(declaration, "k_proj", "k_conv1d", key_width(c));
  declare_convolved(declaration, "v_proj", "v_conv1d", value_width(c));
  ch_declare_projection(declaration, "a_proj", l->value_heads, c->hidden_size);
  ch_declare_projection(declaration, "b_proj", l->value_heads, c->hidden_size);
  ch_declare_drawn_vector(declaration, "A_log", l->value_heads, CH_PARAM_INIT_DECAY_RATE);
  ch_declare_drawn_vector(declaration, "dt_bias", l->value_heads, CH_PARAM_INIT_DECAY_BIAS);
  if (l->gate) ch_declare_projection(declaration, "g_proj", value_width(c), c->hidden_size);
  ch_declare_norm(declaration, "o_norm", l->value_head_dim);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, value_width(c));
}

/* --- states --------------------------------------------------------------------------------------------- */

static int gdn_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  const ch_linear_attention *l = &config->linear_attention;
  const int64_t seen = l->conv > 1 ? l->conv - 1 : 0;
  (void)layer;
  parts[STATE] = (ch_state_part){
      .name = "state", .width = l->value_heads * l->head_dim * l->value_head_dim, .kind = CH_PART_FIXED};
  parts[CONV_Q] = (ch_state_part){.name = "conv_q", .width = seen * key_width(config), .kind = CH_PART_FIXED};
  parts[CONV_K] = (ch_state_part){.name = "conv_k", .width = seen * key_width(config), .kind = CH_PART_FIXED};
  parts[CONV_V] =
      (ch_state_part){.name = "conv_v", .width = seen * value_width(config), .kind = CH_PART_FIXED};
  return PARTS;
}

/* --- graph ---------------------------------------------------------------------------------------------- */

static ch_kept_state kept_state(const ch_builder *builder, int part) {
  return (ch_kept_state){.is_kept = builder->cached, .layer = builder->layer, .part = part};
}

static ch_node *convolved(ch_builder *builder, ch_node *x, const char *name, const char *conv, int part) {
  const ch_kept_state kept = kept_state(builder, part);
  ch_node *weight = builder->config->linear_attention.conv ? ch_attention_param(builder, conv) : NULL;
  return ch_op_short_conv(builder->graph, ch_project(builder, x, name), weight, builder->document_start,
                          &kept);
}

/* Computes o_t of every value head. */
static ch_node *recalled(ch_builder *builder, ch_node *x) {
  const ch_linear_attention *l = &builder->config->linear_attention;
  ch_graph *graph = builder->graph;
  const ch_kept_state kept = kept_state(builder, STATE);
  ch_node *q = convolved(builder, x, "q_proj", "q_conv1d.weight", CONV_Q),
          *k = convolved(builder, x, "k_proj", "k_conv1d.weight", CONV_K);
  const ch_delta_operands operands = {
      .q = ch_op_l2norm(graph, q, l->head_dim, length_eps, 1 / sqrt((double)l->head_dim)),
      .k = ch_op_l2norm(graph, k, l->head_dim, length_eps, 1),
      .v = convolved(builder, x, "v_proj", "v_conv1d.weight", CONV_V),
      .decay = ch_op_decay(graph, ch_project(builder, x, "a_proj"), ch_attention_param(builder, "A_log"),
                           ch_attention_param(builder, "dt_bias")),
      .beta = ch_op_sigmoid(graph, ch_project(builder, x, "b_proj"), l->negative_eigenvalues ? 2 : 1)};
  return ch_op_delta_rule(graph, &operands, builder->document_start, l->heads, &kept);
}

static ch_node *gdn_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  (void)states;
  ch_node *o = ch_norm(builder, recalled(builder, x), "o_norm");
  if (builder->config->linear_attention.gate)
    o = ch_op_swiglu(builder->graph, ch_project(builder, x, "g_proj"), o);
  return ch_project(builder, o, "o_proj");
}

const ch_mechanism ch_mechanism_gdn = {
    .name = "gdn", .declare = gdn_declare, .state = gdn_state, .read = gdn_read};
