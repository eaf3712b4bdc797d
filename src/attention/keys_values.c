/* Queries, keys and values by head, with the stages that modules add:
 *
 *   q = RoPE(norm(knock(W_q x)))
 *   k = RoPE(norm(knock(mix(W_k x)))),  v = knock(mix(W_v x))
 *
 * All stages are computed on write, unless there are fewer components than heads. Then components are cached, and
 * later stages are computed on read. RoPE rotates all heads equally, so rotated components can be mixed. The norm
 * and knocking need mixed, unrotated keys; with them components are cached unrotated. */
#include "attention/mechanism.h"

static void declare_part(ch_declaration *declaration, unsigned on, const char *projection) {
  const ch_config *c = declaration->config;
  int64_t width = ch_projected_heads(c, declaration->layer, on) * c->head_dim;
  ch_declare_projection(declaration, projection, width, c->hidden_size);
  if (c->attention_bias) ch_declare_bias(declaration, projection, width);
  ch_head_mix_declare(declaration, on);
  ch_knocking_declare(declaration, on, c->head_dim);
}

void ch_keys_values_declare(ch_declaration *declaration) {
  declare_part(declaration, CH_ON_K, "k_proj");
  declare_part(declaration, CH_ON_V, "v_proj");
}

void ch_query_modules_declare(ch_declaration *declaration) {
  ch_knocking_declare(declaration, CH_ON_Q, declaration->config->head_dim);
  ch_qk_norm_declare(declaration, CH_ON_Q | CH_ON_K, declaration->config->head_dim);
}

int ch_keys_values_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  parts[0] = (ch_state_part){
      .name = "k", .width = ch_cached_heads(config, layer, CH_ON_K) * config->head_dim, .role = CH_ROLE_KEY};
  parts[1] = (ch_state_part){.name = "v",
                             .width = ch_cached_heads(config, layer, CH_ON_V) * config->head_dim,
                             .role = CH_ROLE_VALUE};
  return 2;
}

static ch_node *turned(ch_builder *builder, ch_node *keys) {
  return ch_apply_rope(builder, keys, builder->config->head_dim, ch_rotary_dims(builder->config));
}

static ch_node *finished_keys(ch_builder *builder, ch_node *components) {
  ch_node *keys = ch_knock(builder, CH_ON_K, ch_mix_heads(builder, CH_ON_K, components));
  return turned(builder, ch_qk_norm(builder, CH_ON_K, keys));
}

ch_node *ch_finish_values(ch_builder *builder, ch_node *components) {
  return ch_knock(builder, CH_ON_V, ch_mix_heads(builder, CH_ON_V, components));
}

/* Returns true if keys have no QK norm and no knocking, so that rotation follows the mix directly. */
static bool mixes_rotated(const ch_config *config) {
  return !config->attention.qk_norm && !ch_is_knocked(config, CH_ON_K);
}

void ch_write_keys_values(ch_builder *builder, ch_node *x, ch_node *state[]) {
  const ch_config *c = builder->config;
  ch_node *keys = ch_project(builder, x, "k_proj"), *values = ch_project(builder, x, "v_proj");
  if (!ch_mixed_on_read(c, builder->layer, CH_ON_K))
    keys = finished_keys(builder, keys);
  else if (mixes_rotated(c))
    keys = turned(builder, keys);
  state[0] = keys;
  state[1] = ch_mixed_on_read(c, builder->layer, CH_ON_V) ? values : ch_finish_values(builder, values);
}

ch_node *ch_read_keys(ch_builder *builder, ch_node *state) {
  const ch_config *c = builder->config;
  if (!ch_mixed_on_read(c, builder->layer, CH_ON_K)) return state;
  return mixes_rotated(c) ? ch_mix_heads(builder, CH_ON_K, state) : finished_keys(builder, state);
}

ch_node *ch_read_values(ch_builder *builder, ch_node *state) {
  return ch_mixed_on_read(builder->config, builder->layer, CH_ON_V) ? ch_finish_values(builder, state)
                                                                    : state;
}

/* Returns true if the mix is folded into queries and contexts: both cached states are components that need only
   mixing before attention, and queries are few. Many queries share mixed tiles. */
static bool absorbs_mixes(const ch_builder *builder) {
  enum { FEW_QUERIES = 8 };
  const ch_config *c = builder->config;
  return builder->cached && builder->graph->length <= FEW_QUERIES && mixes_rotated(c) &&
         !ch_is_knocked(c, CH_ON_V) && ch_mixed_on_read(c, builder->layer, CH_ON_K) &&
         ch_mixed_on_read(c, builder->layer, CH_ON_V);
}

static ch_node *attend_components(ch_builder *builder, ch_node *q, ch_node *const state[], double scale) {
  const ch_config *c = builder->config;
  int64_t width = ch_cached_heads(c, builder->layer, CH_ON_K) * c->head_dim, heads = c->num_attention_heads;
  q = ch_op_spread_heads(builder->graph, q, ch_attention_param(builder, "k_mix.weight"), heads);
  ch_node *sums = ch_attend_states(
      builder, q, state[0], state[1],
      (ch_attend_spec){.heads = heads, .kv_heads = 1, .key_dim = width, .value_dim = width, .scale = scale});
  return ch_op_collapse_heads(builder->graph, sums, ch_attention_param(builder, "v_mix.weight"), heads);
}

/* Returns the number of pairs of a key and a value head: the least common multiple of G_k and G_v. It divides
   H because both do. */
static int64_t pairs_of(const ch_config *config) {
  int64_t keys = ch_heads_of(config, CH_ON_K), values = ch_heads_of(config, CH_ON_V), pairs = keys;
  while (pairs % values != 0) pairs += keys;
  return pairs;
}

/* Returns true if several pairs read one head in the cache. The head is then not repeated. */
static bool is_one(const ch_builder *builder, unsigned on) {
  return builder->cached && ch_heads_of(builder->config, on) == 1 && pairs_of(builder->config) > 1;
}

/* Returns one head for each pair, except if is_one is true. The cache stores each head once, and heads are repeated
   on read. */
static ch_node *for_pairs(ch_builder *builder, unsigned on, ch_node *heads) {
  const ch_config *c = builder->config;
  if (is_one(builder, on)) return heads;
  return ch_op_repeat_heads(builder->graph, heads, c->head_dim, pairs_of(c) / ch_heads_of(c, on));
}

ch_node *ch_attend_keys_values(ch_builder *builder, ch_node *q, ch_node *const state[], double scale) {
  const ch_config *c = builder->config;
  if (absorbs_mixes(builder)) return attend_components(builder, q, state, scale);
  return ch_attend_states(builder, q, for_pairs(builder, CH_ON_K, ch_read_keys(builder, state[0])),
                          for_pairs(builder, CH_ON_V, ch_read_values(builder, state[1])),
                          (ch_attend_spec){.heads = c->num_attention_heads,
                                           .kv_heads = pairs_of(c),
                                           .one_key = is_one(builder, CH_ON_K),
                                           .one_value = is_one(builder, CH_ON_V),
                                           .key_dim = c->head_dim,
                                           .value_dim = c->head_dim,
                                           .scale = scale});
}

/* Removes from contexts their part along the values of their own tokens. The values are those that attention read:
   cached ones include rounding. */
static ch_node *excluded(ch_builder *builder, ch_node *context, ch_node *values) {
  if (!builder->config->attention.exclusive) return context;
  values = ch_read_values(builder, ch_op_own_states(builder->graph, values));
  return ch_op_exclude(builder->graph, context, values, builder->config->num_attention_heads);
}

ch_node *ch_attend_by_head(ch_builder *builder, ch_node *q, ch_node *const state[]) {
  const ch_config *c = builder->config;
  q = ch_finish_queries(builder, q, ch_rotary_dims(c));
  ch_node *context = ch_attend_keys_values(builder, q, state, ch_score_scale(c));
  return excluded(builder, context, state[1]);
}

ch_node *ch_finish_queries(ch_builder *builder, ch_node *q, int64_t rotary) {
  q = ch_qk_norm(builder, CH_ON_Q, ch_knock(builder, CH_ON_Q, q));
  return ch_rotate_queries(builder, q, builder->config->head_dim, rotary);
}

int64_t ch_rank_of_heads(const ch_config *config) {
  return config->num_attention_heads * config->head_dim;
}

int64_t ch_width_of_shared_heads(const ch_config *config) {
  int64_t least = ch_unmixed_entry(config);
  for (int layer = 0; layer < config->num_hidden_layers; layer++) {
    int64_t keys = ch_cached_heads(config, layer, CH_ON_K), values = ch_cached_heads(config, layer, CH_ON_V);
    if (keys < least) least = keys;
    if (values < least) least = values;
  }
  return least * config->head_dim;
}

int ch_rows_by_head(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  int64_t d = config->head_dim;
  made[0] = (ch_state_rows){"q_proj", CH_ON_Q, d, 0, d};
  made[1] = (ch_state_rows){"k_proj", CH_ON_K, d, 0, d};
  made[2] = (ch_state_rows){"v_proj", CH_ON_V, d, 0, d};
  return 3;
}
