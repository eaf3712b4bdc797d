/* Head norm (the GroupNorm of MEA): RMSNorm over each head's context vector, with one weight for all heads. */
#include "attention/mechanism.h"

void ch_head_norm_declare(ch_declaration *declaration, int64_t value_dim) {
  if (declaration->config->attention.head_norm) ch_declare_norm(declaration, "head_norm", value_dim);
}

ch_node *ch_head_norm(ch_builder *builder, ch_node *context) {
  return builder->config->attention.head_norm ? ch_norm(builder, context, "head_norm") : context;
}
