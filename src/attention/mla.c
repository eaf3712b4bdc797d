/* Multi-head Latent Attention (DeepSeek-V2): one latent vector per token gives all heads' keys and values.
 *
 *   write:  c = norm(W_a x)  [c],   r = RoPE(W_r x)  [r, one for all heads]
 *   read:   (k_h, v_h) = heads of W_b c;   q_h = (nope, RoPE(rope)) of W_q x, or of W_qb norm(W_qa x)
 *           y = W_o headnorm(softmax(q_h (k_h, r)^T / sqrt(n + r)) v_h)
 *
 * Decoding does not expand the cache: W_UK is multiplied into the query, q_h^T W_UK c, and W_UV into the weighted sum
 * of latents. A pass of many queries expands the cache instead, a few hundred tokens at a time, if that needs fewer
 * products. With an embedding gate (EG-MLA) or a QK norm, neither matrix can be absorbed: latents are expanded block
 * by block on read. The QK norm covers whole heads (nope, rope) and (k_h, r). With it r is written unrotated, and
 * every key is normed and rotated on read.
 *
 * With "k_lora_rank" or "v_lora_rank", keys and values have separate latents instead (mla_apart.c).
 *
 * Layers of a group share the written state and its expansion; the group's first layer has the tensors. With
 * "layer_group_shares": "latent", they share only the latent, and each layer expands and gates it with its own
 * matrices. */
#include <math.h>

#include "attention/embedding_gate.h"
#include "attention/latent_query.h"
#include "attention/mla_apart.h"

/* The sizes H, c, n, r and v of the papers. */
typedef struct sizes {
  int64_t heads, latent, nope, rope, value;
} sizes;

static sizes mla_sizes_of(const ch_config *config) {
  const ch_attention_config *a = &config->attention;
  return (sizes){config->num_attention_heads, a->kv_lora_rank, a->qk_nope_head_dim, a->qk_rope_head_dim,
                 a->v_head_dim};
}

static int group_leader(const ch_config *config, int layer) {
  return layer - layer % (int)config->attention.layer_group_size;
}

static bool leads(const ch_config *config, int layer) {
  return group_leader(config, layer) == layer;
}

/* Returns the layer whose kv_b_proj, modules and gate expand the latents that `layer` reads. */
static int expanding_layer(const ch_config *config, int layer) {
  return config->attention.layer_group_shares == CH_GROUP_SHARES_LATENT ? layer : group_leader(config, layer);
}

/* Returns a copy of the builder, at the layer that expands latents. */
static ch_builder at_expanding_layer(const ch_builder *builder) {
  ch_builder there = *builder;
  there.layer = expanding_layer(builder->config, builder->layer);
  return there;
}

static ch_status check_group(const ch_config *config, const char *where, ch_error *error) {
  const ch_attention_config *a = &config->attention;
  if (a->layer_group_shares == CH_GROUP_SHARES_ALL) return CH_OK;
  if (a->layer_group_size == 1)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"attention.layer_group_shares\" is \"latent\", but \"attention.layer_group_size\" is 1, "
        "so no layers share anything; use groups of 2 layers or more, or share \"all\"",
        where);
  if (!ch_mla_is_apart(config)) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"attention.layer_group_shares\" is \"latent\", which cannot be combined with "
                 "\"attention.%s\"; use \"attention.kv_lora_rank\", or share \"all\"",
                 where, a->k_lora_rank ? "k_lora_rank" : "v_lora_rank");
}

static ch_status mla_check(const ch_config *config, const char *where, ch_error *error) {
  bool apart = ch_mla_is_apart(config);
  if (!config->attention.kv_lora_rank && !apart)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.kv_lora_rank\" is missing; \"attention.type\" \"mla\" needs it, or "
                   "\"attention.k_lora_rank\" or \"attention.v_lora_rank\" above 0",
                   where);
  CH_TRY(ch_latent_check_sizes(config, where, error));
  if (apart) CH_TRY(ch_mla_apart_check(config, where, error));
  CH_TRY(check_group(config, where, error));
  return ch_embedding_gate_check(config, where, error);
}

/* --- tensors and state ---------------------------------------------------------------------------------- */

/* Declares the tensors of one latent for keys and values. */
static void declare_latent(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  sizes s = mla_sizes_of(c);
  if (leads(c, declaration->layer)) {
    ch_declare_projection(declaration, "kv_a_proj_with_mqa", s.latent + s.rope, c->hidden_size);
    ch_declare_norm(declaration, "kv_a_layernorm", s.latent);
  }
  if (expanding_layer(c, declaration->layer) != declaration->layer) return;
  ch_declare_projection(declaration, "kv_b_proj", s.heads * (s.nope + s.value), s.latent);
  ch_keep_plain(declaration, "kv_b_proj");
  ch_knocking_declare(declaration, CH_ON_K, s.nope);
  ch_knocking_declare(declaration, CH_ON_V, s.value);
  ch_embedding_gate_declare(declaration);
  ch_qk_norm_declare(declaration, CH_ON_K, s.nope + s.rope);
}

static void mla_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  sizes s = mla_sizes_of(c);
  ch_latent_query_declare(declaration);
  if (!ch_mla_is_apart(c))
    declare_latent(declaration);
  else if (leads(c, declaration->layer))
    ch_mla_apart_declare(declaration);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, s.heads * s.value);
  ch_head_norm_declare(declaration, s.value);
}

/* Lists a token's latent, which the first layer of a group stores, and the gate's parts in every layer that has a
   gate. */
static int mla_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  if (expanding_layer(config, layer) != layer) return 0;
  if (ch_mla_is_apart(config)) return ch_mla_apart_state(config, parts);
  sizes s = mla_sizes_of(config);
  int64_t width = leads(config, layer) ? s.latent + s.rope : 0;
  parts[0] = (ch_state_part){.name = "latent", .width = width, .role = CH_ROLE_LATENT};
  return 1 + ch_embedding_gate_state(config, parts + 1);
}

static ch_node *slice(ch_builder *builder, ch_node *heads, int64_t stride, int64_t offset, int64_t width) {
  return ch_op_slice_heads(builder->graph, heads, builder->config->num_attention_heads,
                           (ch_head_slice){stride, offset, width});
}

/* Joins heads of a and heads of b to heads of (a, b). */
static ch_node *join(ch_builder *builder, ch_node *a, int64_t a_width, ch_node *b, ch_head_slice b_slice) {
  return ch_op_join_heads(builder->graph, builder->config->num_attention_heads, 2, (ch_node *[]){a, b},
                          (ch_head_slice[]){{a_width, 0, a_width}, b_slice});
}

static double score_scale(const ch_builder *builder) {
  sizes s = mla_sizes_of(builder->config);
  return ch_latent_score_scale(builder->config) / sqrt((double)(s.nope + s.rope));
}

/* Expands the latents of tokens to keys and values of all heads, (k_h, v_h) head by head, before any gate. */
static ch_node *expanded(ch_builder *builder, ch_node *latent) {
  const ch_config *c = builder->config;
  sizes s = mla_sizes_of(c);
  int64_t width = s.nope + s.value;
  ch_node *kv = ch_project(builder, latent, "kv_b_proj");
  if (!ch_is_knocked(c, CH_ON_K) && !ch_is_knocked(c, CH_ON_V)) return kv;
  ch_node *k = ch_knock(builder, CH_ON_K, slice(builder, kv, width, 0, s.nope));
  ch_node *v = ch_knock(builder, CH_ON_V, slice(builder, kv, width, s.nope, s.value));
  return join(builder, k, s.nope, v, (ch_head_slice){s.value, 0, s.value});
}

static ch_node *latent_of(ch_builder *builder, ch_node *state) {
  return ch_op_slice_heads(builder->graph, state, 1,
                           (ch_head_slice){0, 0, mla_sizes_of(builder->config).latent});
}

/* Returns the normalised latent. *state receives the latent followed by the rotated key. */
static ch_node *write_latent(ch_builder *builder, ch_node *x, ch_node **state) {
  ch_graph *graph = builder->graph;
  sizes s = mla_sizes_of(builder->config);
  ch_node *both = ch_project(builder, x, "kv_a_proj_with_mqa");
  ch_node *latent = latent_of(builder, both);
  ch_node *rope = ch_op_slice_heads(graph, both, 1, (ch_head_slice){0, s.latent, s.rope});
  latent = ch_latent_norm(builder, latent, "kv_a_layernorm");
  if (!builder->config->attention.qk_norm) rope = ch_apply_rope(builder, rope, s.rope, s.rope);
  *state = ch_op_join_heads(graph, 1, 2, (ch_node *[]){latent, rope},
                            (ch_head_slice[]){{0, 0, s.latent}, {0, 0, s.rope}});
  return latent;
}

static void mla_write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  const ch_config *c = builder->config;
  if (ch_mla_is_apart(c)) {
    ch_mla_apart_write(builder, x, out);
    return;
  }
  ch_node *latent = leads(c, builder->layer) ? write_latent(builder, x, out) : NULL;
  if (!c->attention.gate_embedding_dim) return;
  if (!latent) latent = latent_of(builder, builder->written[0]);
  ch_write_embedding_gate(builder, expanded(builder, latent), out + 1);
}

/* --- reading by expansion: training, long prompts, and after an embedding gate -------------------------- */

static ch_node *attend_expanded(ch_builder *builder, ch_node *q, ch_node *const states[]) {
  sizes s = mla_sizes_of(builder->config);
  ch_node *latent = latent_of(builder, states[0]);
  ch_node *rope = ch_op_slice_heads(builder->graph, states[0], 1, (ch_head_slice){0, s.latent, s.rope});
  ch_builder there = at_expanding_layer(builder);
  ch_node *kv = ch_read_embedding_gate(&there, expanded(&there, latent), states + 1);
  int64_t width = s.nope + s.value;
  ch_node *keys = ch_op_join_heads(builder->graph, s.heads, 2, (ch_node *[]){kv, rope},
                                   (ch_head_slice[]){{width, 0, s.nope}, {0, 0, s.rope}});
  if (builder->config->attention.qk_norm)
    keys = ch_apply_rope(builder, ch_qk_norm(&there, CH_ON_K, keys), s.nope + s.rope, s.rope);
  return ch_attend_states(builder, q, keys, kv,
                          (ch_attend_spec){.heads = s.heads,
                                           .kv_heads = s.heads,
                                           .key_dim = s.nope + s.rope,
                                           .value_dim = s.value,
                                           .value_columns = {s.nope, width},
                                           .scale = score_scale(builder)});
}

/* --- reading latents directly --------------------------------------------------------------------------- */

/* Multiplies every query head by W_UK^T, or every sum of latents by W_UV. `builder` is at the layer that has the
   matrix. */
static ch_node *through_kv_b(ch_builder *builder, ch_node *x, int64_t first, int64_t rows, bool transposed) {
  sizes s = mla_sizes_of(builder->config);
  ch_node *weight = ch_projection_weight(builder, "kv_b_proj");
  return ch_op_head_product(builder->graph, x, weight,
                            (ch_head_rows){s.heads, s.nope + s.value, first, rows, transposed});
}

static ch_node *attend_absorbed(ch_builder *builder, ch_node *q, ch_node *state) {
  sizes s = mla_sizes_of(builder->config);
  int64_t width = s.nope + s.rope;
  ch_builder there = at_expanding_layer(builder);
  ch_node *nope = ch_knock_query_for_keys(&there, slice(builder, q, width, 0, s.nope), s.nope);
  ch_node *folded = through_kv_b(&there, nope, 0, s.nope, true);
  q = join(builder, folded, s.latent, q, (ch_head_slice){width, s.nope, s.rope});
  ch_node *latents = ch_attend_states(builder, q, state, state,
                                      (ch_attend_spec){.heads = s.heads,
                                                       .kv_heads = 1,
                                                       .key_dim = s.latent + s.rope,
                                                       .value_dim = s.latent,
                                                       .value_columns = {0, s.latent + s.rope},
                                                       .scale = score_scale(builder)});
  return ch_knock(&there, CH_ON_V, through_kv_b(&there, latents, s.nope, s.value, false));
}

/* Returns the number of multiply-adds that expand one head's key and value of one token. */
static int64_t expanding(const ch_config *config) {
  sizes s = mla_sizes_of(config);
  if (ch_mla_is_apart(config)) return ch_mla_apart_expanding(config);
  return s.latent * (s.nope + s.value) + (ch_is_knocked(config, CH_ON_K) ? s.nope * s.nope : 0) +
         (ch_is_knocked(config, CH_ON_V) ? s.value * s.value : 0);
}

/* Returns true if absorbing is possible, and needs no more multiply-adds than expanding keys and values once for all
   queries of the pass. */
static bool is_absorbed(const ch_builder *builder) {
  const ch_config *c = builder->config;
  sizes s = mla_sizes_of(c);
  if (!builder->cached || c->attention.gate_embedding_dim || c->attention.qk_norm) return false;
  return builder->graph->length * (2 * s.latent - s.nope - s.value) <= expanding(c);
}

/* Returns the number of queries at which expanding keys and values costs a quarter of the attention itself. */
static int64_t long_pass(const ch_config *config) {
  sizes s = mla_sizes_of(config);
  return 4 * expanding(config) / (s.nope + s.rope + s.value);
}

static ch_node *mla_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  ch_node *q = ch_latent_queries(builder, x);
  ch_builder there = at_expanding_layer(builder);
  ch_node *context;
  if (ch_mla_is_apart(builder->config))
    context = ch_mla_apart_attend(builder, &there, q, states, score_scale(builder));
  else if (is_absorbed(builder))
    context = attend_absorbed(builder, q, states[0]);
  else if (ch_gate_groups_tokens(builder))
    context = ch_attend_gated(&there, q, ch_projection_weight(&there, "kv_b_proj"), states[0], states + 1);
  else
    context = attend_expanded(builder, q, states);
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static int mla_rows(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  sizes s = mla_sizes_of(config);
  const char *query = config->attention.q_lora_rank ? "q_b_proj" : "q_proj";
  made[0] = (ch_state_rows){query, CH_ON_Q, s.nope + s.rope, 0, s.nope};
  if (ch_mla_is_apart(config)) return 1 + ch_mla_apart_rows(config, made + 1);
  made[1] = (ch_state_rows){"kv_b_proj", CH_ON_K, s.nope + s.value, 0, s.nope};
  made[2] = (ch_state_rows){"kv_b_proj", CH_ON_V, s.nope + s.value, s.nope, s.value};
  return 3;
}

static int64_t total_effective_rank(const ch_config *config) {
  return config->num_attention_heads * config->attention.qk_nope_head_dim;
}

static int64_t shared_latent_dim(const ch_config *config) {
  return ch_mla_is_apart(config) ? ch_mla_apart_shared_dim(config) : config->attention.kv_lora_rank;
}

/* Presets a latent of N elements, by default one head's size (EG-MLA's kv64 for heads of 64), and a table with a
   quarter of the model's width as columns, as the paper recommends (512 for a width of 2048). */
static ch_status gated_sizes(ch_config *config, int64_t number, const char *where, ch_error *error) {
  config->attention.gate_embedding_dim = (config->hidden_size + 3) / 4;
  return ch_preset_latent(config, number ? number : config->head_dim, where, error);
}

static const char *const keys[] = {
    "q_lora_rank",      "kv_lora_rank",     "k_lora_rank",        "v_lora_rank",        "qk_nope_head_dim",
    "qk_rope_head_dim", "v_head_dim",       "gate_embedding_dim", "gate_embedding_std", "gate_op",
    "gate_norm",        "layer_group_size", "layer_group_shares", "latent_norm_eps",    NULL};

static const ch_preset presets[] = {
    {"mla", "latent elements", "multi-head latent attention: keys and values from one latent per token",
     ch_preset_latent},
    {"egmla", "latent elements",
     "embedding-gated multi-head latent attention: a smaller latent, gated by the token", gated_sizes},
    {0},
};

const ch_mechanism ch_mechanism_mla = {.name = "mla",
                                       .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM |
                                                  CH_MODULE_KNOCK_LINEAR | CH_MODULE_OWN_SIZES |
                                                  CH_MODULE_SINK_LOGITS | CH_MODULE_KV_GROUP,
                                       .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
                                       .keys = keys,
                                       .check = mla_check,
                                       .declare = mla_declare,
                                       .state = mla_state,
                                       .write = mla_write,
                                       .read = mla_read,
                                       .rows = mla_rows,
                                       .long_pass = long_pass,
                                       .total_effective_rank = total_effective_rank,
                                       .shared_latent_dim = shared_latent_dim,
                                       .presets = presets};
