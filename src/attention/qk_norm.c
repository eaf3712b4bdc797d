/* QK norm: RMSNorm of every query and key head (Qwen3), or of all heads of a token as one vector (OLMo 2),
 * after projection, mixing and knocking, before RoPE. */
#include "attention/mechanism.h"

void ch_qk_norm_declare(ch_declaration *declaration, unsigned on, int64_t head_dim) {
  const ch_config *c = declaration->config;
  bool all = c->attention.qk_norm_over == CH_QK_NORM_ALL;
  if (!c->attention.qk_norm) return;
  if (on & CH_ON_Q) ch_declare_norm(declaration, "q_norm", head_dim * (all ? c->num_attention_heads : 1));
  if (on & CH_ON_K) ch_declare_norm(declaration, "k_norm", head_dim * (all ? ch_heads_of(c, CH_ON_K) : 1));
}

ch_node *ch_qk_norm(ch_builder *builder, unsigned on, ch_node *heads) {
  if (!builder->config->attention.qk_norm) return heads;
  return ch_norm(builder, heads, on == CH_ON_Q ? "q_norm" : "k_norm");
}
