/* Gated attention (Qiu et al. 2025): grouped-query attention. A gate of the query's token multiplies the outputs of
 * heads element by element.
 *
 *   write:  k, v of G heads of d, as gqa
 *   read:   y = W_o (sigmoid(W_g x) * headnorm(softmax(q k^T / sqrt(d)) v))
 *
 * The gate is computed from the query's own token, so it is not cached. */
#include "attention/mechanism.h"

extern const ch_mechanism ch_mechanism_gqa;

static void gated_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  ch_mechanism_gqa.declare(declaration);
  ch_declare_projection(declaration, "g_proj", c->num_attention_heads * c->head_dim, c->hidden_size);
}

static ch_node *gated_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  ch_node *context = ch_attend_by_head(builder, ch_project(builder, x, "q_proj"), states);
  ch_node *gate = ch_project(builder, x, "g_proj");
  context = ch_op_sigmoid_gate(builder->graph, ch_head_norm(builder, context), gate, 1);
  return ch_project(builder, context, "o_proj");
}

static const char *const keys[] = {"num_key_heads", "num_value_heads", "exclusive", NULL};

static const ch_preset presets[] = {
    {"gated", ch_preset_counts_groups,
     "gated attention: the output of each head passes a sigmoid gate (default: as gqa)", ch_preset_grouped},
    {0},
};

const ch_mechanism ch_mechanism_gated = {
    .name = "gated",
    .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
               CH_MODULE_HEAD_MIX | CH_MODULE_BIAS | CH_MODULE_SINK_LOGITS | CH_MODULE_KV_GROUP,
    .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
    .mixes = CH_ON_K | CH_ON_V,
    .keys = keys,
    .declare = gated_declare,
    .state = ch_keys_values_state,
    .write = ch_write_keys_values,
    .read = gated_read,
    .rows = ch_rows_by_head,
    .total_effective_rank = ch_rank_of_heads,
    .shared_latent_dim = ch_width_of_shared_heads,
    .presets = presets};
