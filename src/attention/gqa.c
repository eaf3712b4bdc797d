/* Grouped-query attention: MHA (G = H), GQA, and MQA (G = 1) in one.
 *
 *   write:  k = RoPE(norm(W_k x)),  v = W_v x                       [G heads of d each]
 *   read:   q = RoPE(norm(W_q x));  y = W_o headnorm(softmax(q k^T / sqrt(d)) v)
 *
 * The norms only where the config asks for them. Query head h reads key-value head floor(h G / H).
 */
#include <math.h>

#include "attention/mechanism.h"

static void declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t queries = c->num_attention_heads * c->head_dim, keys = c->num_key_value_heads * c->head_dim;
  ch_declare_projection(declaration, "q_proj", queries, c->hidden_size);
  ch_declare_projection(declaration, "k_proj", keys, c->hidden_size);
  ch_declare_projection(declaration, "v_proj", keys, c->hidden_size);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, queries);
  if (c->attention_bias) {
    ch_declare_bias(declaration, "q_proj", queries);
    ch_declare_bias(declaration, "k_proj", keys);
    ch_declare_bias(declaration, "v_proj", keys);
  }
  if (c->attention_output_bias) ch_declare_bias(declaration, "o_proj", c->hidden_size);
  ch_qk_norm_declare(declaration, c->head_dim);
  ch_head_norm_declare(declaration, c->head_dim);
}

static int state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  (void)layer;
  int64_t width = config->num_key_value_heads * config->head_dim;
  parts[0] = (ch_state_part){"k", width};
  parts[1] = (ch_state_part){"v", width};
  return 2;
}

static void write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  ch_node *k = ch_qk_norm(builder, "k", ch_project(builder, x, "k_proj"));
  out[0] = ch_apply_rope(builder, k, builder->config->head_dim);
  out[1] = ch_project(builder, x, "v_proj");
}

static ch_node *read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *q = ch_qk_norm(builder, "q", ch_project(builder, x, "q_proj"));
  q = ch_apply_rope(builder, q, c->head_dim);
  ch_node *context = ch_attend_states(builder, q, states[0], states[1],
                                      (ch_attend_spec){.heads = c->num_attention_heads,
                                                       .kv_heads = c->num_key_value_heads,
                                                       .key_dim = c->head_dim,
                                                       .value_dim = c->head_dim,
                                                       .scale = 1 / sqrt((double)c->head_dim)});
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static int64_t total_effective_rank(const ch_config *config) {
  return config->num_attention_heads * config->head_dim;
}

static int64_t shared_latent_dim(const ch_config *config) {
  return config->num_key_value_heads * config->head_dim;
}

const ch_mechanism ch_mechanism_gqa = {.name = "gqa",
                                       .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM |
                                                  CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
                                                  CH_MODULE_HEAD_MIX | CH_MODULE_BIAS,
                                       .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
                                       .mixes = CH_ON_K | CH_ON_V,
                                       .declare = declare,
                                       .state = state,
                                       .write = write,
                                       .read = read,
                                       .total_effective_rank = total_effective_rank,
                                       .shared_latent_dim = shared_latent_dim};
