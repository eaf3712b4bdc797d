/* QK norm (Qwen3): RMSNorm of every query and key head after projection, mixing and knocking, before RoPE. */
#include "attention/mechanism.h"

void ch_qk_norm_declare(ch_declaration *declaration, unsigned on, int64_t head_dim) {
  if (!declaration->config->attention.qk_norm) return;
  if (on & CH_ON_Q) ch_declare_norm(declaration, "q_norm", head_dim);
  if (on & CH_ON_K) ch_declare_norm(declaration, "k_norm", head_dim);
}

ch_node *ch_qk_norm(ch_builder *builder, unsigned on, ch_node *heads) {
  if (!builder->config->attention.qk_norm) return heads;
  return ch_norm(builder, heads, on == CH_ON_Q ? "q_norm" : "k_norm");
}
