/* Grouped-Tied Attention (Zadouri et al.): the first half of a group's value is also the first half of its key. The
 * key's second half is one rotary vector for all groups.
 *
 *   write:  t = knock(mix(W_kv x))  [G heads of d],   r = RoPE(W_r x)  [d/2]
 *   read:   k_g = (t_g[0 : d/2], r),  v_g = t_g;   y = W_o headnorm(softmax(q k^T / sqrt(d)) v)
 * The last d/2 dims of a query are rotated, the first d/2 are not. Names of modules on the tied state begin with "v".
 * The QK norm covers whole keys (t_g[0 : d/2], W_r x). With the norm, r is written unrotated, and every key is normed
 * and rotated on read. */
#include <math.h>

#include "attention/mechanism.h"

static ch_status gta_check(const ch_config *c, const char *where, ch_error *error) {
  int64_t divisor = c->position == CH_POSITION_ROPE ? 4 : 2;
  if (c->head_dim % divisor == 0) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"head_dim\" is %lld; it must be a multiple of %lld with \"attention.type\" \"gta\": "
                 "half of a key is rotary",
                 where, (long long)c->head_dim, (long long)divisor);
}

static void gta_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t queries = c->num_attention_heads * c->head_dim;
  ch_declare_projection(declaration, "q_proj", queries, c->hidden_size);
  ch_query_modules_declare(declaration);
  ch_declare_projection(declaration, "kv_proj",
                        ch_projected_heads(c, declaration->layer, CH_ON_V) * c->head_dim, c->hidden_size);
  ch_head_mix_declare(declaration, CH_ON_V);
  ch_knocking_declare(declaration, CH_ON_V, c->head_dim);
  ch_declare_projection(declaration, "k_rope_proj", c->head_dim / 2, c->hidden_size);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, queries);
  ch_head_norm_declare(declaration, c->head_dim);
}

static int gta_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  parts[0] = (ch_state_part){.name = "kv",
                             .width = ch_cached_heads(config, layer, CH_ON_V) * config->head_dim,
                             .role = CH_ROLE_LATENT};
  parts[1] = (ch_state_part){.name = "k_rope", .width = config->head_dim / 2, .role = CH_ROLE_KEY};
  return 2;
}

static void gta_write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  const ch_config *c = builder->config;
  ch_node *tied = ch_project(builder, x, "kv_proj");
  out[0] = ch_mixed_on_read(c, builder->layer, CH_ON_V) ? tied : ch_finish_values(builder, tied);
  out[1] = ch_project(builder, x, "k_rope_proj");
  if (!c->attention.qk_norm) out[1] = ch_apply_rope(builder, out[1], c->head_dim / 2, c->head_dim / 2);
}

/* Joins tied states and rotary vectors to the keys of all groups. */
static ch_node *joined_keys(ch_builder *builder, ch_node *tied, ch_node *rotary) {
  const ch_config *c = builder->config;
  int64_t d = c->head_dim;
  ch_node *keys = ch_op_join_heads(builder->graph, c->num_key_value_heads, 2, (ch_node *[]){tied, rotary},
                                   (ch_head_slice[]){{d, 0, d / 2}, {0, 0, d / 2}});
  if (!c->attention.qk_norm) return keys;
  return ch_apply_rope(builder, ch_qk_norm(builder, CH_ON_K, keys), d, d / 2);
}

static ch_node *gta_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  int64_t d = c->head_dim;
  ch_node *q = ch_finish_queries(builder, ch_project(builder, x, "q_proj"), d / 2);
  ch_node *tied =
      ch_mixed_on_read(c, builder->layer, CH_ON_V) ? ch_finish_values(builder, states[0]) : states[0];
  ch_node *context = ch_attend_states(builder, q, joined_keys(builder, tied, states[1]), tied,
                                      (ch_attend_spec){.heads = c->num_attention_heads,
                                                       .kv_heads = c->num_key_value_heads,
                                                       .key_dim = d,
                                                       .value_dim = d,
                                                       .scale = 1 / sqrt((double)d)});
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

/* Lists the rows for knocking. The tied rows are both keys and values. */
static int gta_rows(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  int64_t d = config->head_dim;
  made[0] = (ch_state_rows){"q_proj", CH_ON_Q, d, 0, d};
  made[1] = (ch_state_rows){"kv_proj", CH_ON_V, d, 0, d};
  return 2;
}

static const ch_preset presets[] = {
    {"gta", ch_preset_counts_groups,
     "grouped-tied attention: keys and values are one state (default: as gqa)", ch_preset_grouped},
    {0},
};

const ch_mechanism ch_mechanism_gta = {
    .name = "gta",
    .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
               CH_MODULE_HEAD_MIX | CH_MODULE_SINK_LOGITS | CH_MODULE_KV_GROUP,
    .knocks = CH_ON_Q | CH_ON_V,
    .mixes = CH_ON_V,
    .check = gta_check,
    .declare = gta_declare,
    .state = gta_state,
    .write = gta_write,
    .read = gta_read,
    .rows = gta_rows,
    .total_effective_rank = ch_rank_of_heads,
    .shared_latent_dim = ch_width_of_shared_heads,
    .presets = presets};
