/* Multi-matrix Factorization Attention (MFA eqs. 6-7): m large heads of C over one key and one value head.
 *
 *   write:  k = RoPE(norm(S_k x)),  v = S_v x                       [C each]
 *   read:   q_h = RoPE(norm(Q_h S_q x));  y = W_o headnorm(softmax(q k^T / sqrt(C)) v) */
#include <math.h>

#include "attention/factored_query.h"

static void mfa_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  ch_factored_query_declare(declaration);
  ch_keys_values_declare(declaration);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, c->num_attention_heads * c->head_dim);
  ch_head_norm_declare(declaration, c->head_dim);
}

static ch_node *mfa_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *q = ch_factored_query(builder, x);
  ch_node *context = ch_attend_keys_values(builder, q, states, 1 / sqrt((double)c->head_dim));
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static int mfa_rows(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  int count = ch_rows_by_head(config, made);
  made[0].name = "q_b_proj";
  return count;
}

static const char *const keys[] = {"q_lora_rank", "q_a_norm", NULL};

static const ch_preset presets[] = {
    {"mfa", "elements per head", "multi-matrix factorization attention: wide heads, one key and one value",
     ch_preset_factored},
    {0},
};

const ch_mechanism ch_mechanism_mfa = {.name = "mfa",
                                       .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM |
                                                  CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
                                                  CH_MODULE_SINK_LOGITS | CH_MODULE_KV_GROUP,
                                       .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
                                       .keys = keys,
                                       .defaults = ch_one_key_head,
                                       .check = ch_check_one_key_head,
                                       .declare = mfa_declare,
                                       .state = ch_keys_values_state,
                                       .write = ch_write_keys_values,
                                       .read = mfa_read,
                                       .rows = mfa_rows,
                                       .total_effective_rank = ch_rank_of_heads,
                                       .shared_latent_dim = ch_width_of_shared_heads,
                                       .presets = presets};
