/* Grouped-query attention: MHA (G = H), GQA, and MQA (G = 1) in one.
 *
 *   write:  k of G_k heads of d, v of G_v heads of d
 *   read:   y = W_o headnorm(softmax(q k^T / sqrt(d)) v)
 *
 * The queries, keys and values are those of keys_values.c. Query head h reads key head floor(h G_k / H) and value
 * head floor(h G_v / H). Usually G_k = G_v = G. */
#include "attention/mechanism.h"

static void gqa_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t queries = c->num_attention_heads * c->head_dim;
  ch_declare_projection(declaration, "q_proj", queries, c->hidden_size);
  if (c->attention_bias) ch_declare_bias(declaration, "q_proj", queries);
  ch_query_modules_declare(declaration);
  ch_keys_values_declare(declaration);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, queries);
  if (c->attention_output_bias) ch_declare_bias(declaration, "o_proj", c->hidden_size);
  ch_head_norm_declare(declaration, c->head_dim);
}

static ch_node *gqa_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  ch_node *context = ch_attend_by_head(builder, ch_project(builder, x, "q_proj"), states);
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static const char *const keys[] = {"num_key_heads", "num_value_heads", "exclusive", NULL};

/* --- presets -------------------------------------------------------------------------------------------- */

static ch_status one_group(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)number;
  return ch_preset_groups(config, 1, where, error);
}

static const ch_preset presets[] = {
    {"mha", NULL, "multi-head attention: keys and values for every query head", NULL},
    {"gqa", ch_preset_counts_groups,
     "grouped-query attention: query heads share key-value heads (default: 4 share 1)", ch_preset_grouped},
    {"mqa", NULL, "multi-query attention: one key-value head for all query heads", one_group},
    {0},
};

const ch_mechanism ch_mechanism_gqa = {
    .name = "gqa",
    .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
               CH_MODULE_HEAD_MIX | CH_MODULE_BIAS | CH_MODULE_OUTPUT_BIAS | CH_MODULE_BY_HEAD |
               CH_MODULE_SINK_LOGITS | CH_MODULE_KV_GROUP,
    .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
    .mixes = CH_ON_K | CH_ON_V,
    .keys = keys,
    .declare = gqa_declare,
    .state = ch_keys_values_state,
    .write = ch_write_keys_values,
    .read = gqa_read,
    .rows = ch_rows_by_head,
    .total_effective_rank = ch_rank_of_heads,
    .shared_latent_dim = ch_width_of_shared_heads,
    .presets = presets};
