/* QK norm (Qwen3): RMSNorm of every query and key head after projection, before RoPE. */
#include <stdio.h>

#include "attention/mechanism.h"

void ch_qk_norm_declare(ch_declaration *declaration, int64_t head_dim) {
  if (!declaration->config->attention.qk_norm) return;
  ch_declare_norm(declaration, "q_norm", head_dim);
  ch_declare_norm(declaration, "k_norm", head_dim);
}

ch_node *ch_qk_norm(ch_builder *builder, const char *which, ch_node *heads) {
  if (!builder->config->attention.qk_norm) return heads;
  char name[32];
  snprintf(name, sizeof name, "%s_norm.weight", which);
  return ch_op_rmsnorm(builder->graph, heads, ch_attention_param(builder, name),
                       builder->config->rms_norm_eps);
}
