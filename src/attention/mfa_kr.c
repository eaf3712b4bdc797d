/* MFA with key reuse (MFA eqs. 8-9): the value is the key plus a gated linear map of it.
 *
 *   write:  k = S_k x                                               [C, before RoPE: the whole state]
 *   read:   y = W_o headnorm(softmax(q RoPE(norm(k))^T / sqrt(C)) v),   v = k + alpha * (N k)
 *
 * alpha starts at zero. The map is linear, so decoding applies it once to the weighted sum of keys. With other
 * settings of `value_reuse`, the map has only some of these parts, as in Table 5: v = k + N k, v = N k, v = k. */
#include <math.h>

#include "attention/factored_query.h"

static void mfa_kr_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  ch_factored_query_declare(declaration);
  ch_declare_projection(declaration, "k_proj", c->head_dim, c->hidden_size);
  ch_knocking_declare(declaration, CH_ON_K, c->head_dim);
  ch_value_reuse made = c->attention.value_reuse;
  if (made != CH_REUSE_KEY) ch_declare_projection(declaration, "v_reuse", c->head_dim, c->head_dim);
  ch_keep_plain(declaration, "v_reuse");
  if (made == CH_REUSE_GATED) ch_declare_vector(declaration, "v_reuse.gate", c->head_dim, 0, 0);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, c->num_attention_heads * c->head_dim);
  ch_head_norm_declare(declaration, c->head_dim);
}

static int mfa_kr_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  (void)layer;
  parts[0] = (ch_state_part){.name = "k", .width = config->head_dim, .role = CH_ROLE_LATENT};
  return 1;
}

static void mfa_kr_write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  out[0] = ch_project(builder, x, "k_proj");
}

/* Multiplies every head by (I + diag(alpha) N), or by the part of it that `value_reuse` selects. */
static ch_node *reuse(ch_builder *builder, ch_node *keys) {
  ch_value_reuse made = builder->config->attention.value_reuse;
  if (made == CH_REUSE_KEY) return keys;
  ch_node *mapped = ch_project(builder, keys, "v_reuse");
  if (made == CH_REUSE_PROJECTION) return mapped;
  if (made == CH_REUSE_GATED)
    mapped = ch_op_mul(builder->graph, mapped, ch_attention_param(builder, "v_reuse.gate"));
  return ch_op_add(builder->graph, keys, mapped);
}

static ch_node *mfa_kr_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *keys = ch_qk_norm(builder, CH_ON_K, ch_knock(builder, CH_ON_K, states[0]));
  keys = ch_apply_rope(builder, keys, c->head_dim, c->head_dim);
  ch_node *values = builder->cached ? states[0] : reuse(builder, states[0]);
  ch_node *context = ch_attend_states(builder, ch_factored_query(builder, x), keys, values,
                                      (ch_attend_spec){.heads = c->num_attention_heads,
                                                       .kv_heads = 1,
                                                       .key_dim = c->head_dim,
                                                       .value_dim = c->head_dim,
                                                       .scale = 1 / sqrt((double)c->head_dim)});
  if (builder->cached) context = reuse(builder, context);
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

/* Lists the rows for knocking. Values are computed from keys before knocking, so knocking on keys cannot be
   folded into the projection. */
static int mfa_kr_rows(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  made[0] = (ch_state_rows){"q_b_proj", CH_ON_Q, config->head_dim, 0, config->head_dim};
  return 1;
}

static const char *const keys[] = {"q_lora_rank", "q_a_norm", "value_reuse", NULL};

static const ch_preset presets[] = {
    {"mfa_kr", "elements per head",
     "multi-matrix factorization attention with key reuse: one key per token, values computed from it",
     ch_preset_factored},
    {0},
};

const ch_mechanism ch_mechanism_mfa_kr = {.name = "mfa_kr",
                                          .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM |
                                                     CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
                                                     CH_MODULE_SINK_LOGITS | CH_MODULE_KV_GROUP,
                                          .knocks = CH_ON_Q | CH_ON_K,
                                          .keys = keys,
                                          .defaults = ch_one_key_head,
                                          .check = ch_check_one_key_head,
                                          .declare = mfa_kr_declare,
                                          .state = mfa_kr_state,
                                          .write = mfa_kr_write,
                                          .read = mfa_kr_read,
                                          .rows = mfa_kr_rows,
                                          .total_effective_rank = ch_rank_of_heads,
                                          .shared_latent_dim = ch_width_of_shared_heads,
                                          .presets = presets};
