/* Latent attention with separate latents of keys and values (MFA eqs. 4-5, S_k and S_v):
 *
 *   write:  c = norm(W_ka x)  [c_k],   r = RoPE(W_r x)  [r, one for all heads],   u = norm(W_va x)  [c_v]
 *   read:   k_h = heads of W_kb c,   v_h = heads of W_vb u;   the rest is as in mla.c
 *
 * Without the latent of one side (width 0), its keys W_k x [H n] and r, or its values W_v x [H v], are written in
 * full.
 *
 * In decoding each side is absorbed if that is less work than expanding it. An absorbed side is one key, or one
 * value, for all heads. */
#include "attention/mla_apart.h"

/* The sizes H, c_k, c_v (0: no latent), n, r and v. */
typedef struct sizes {
  int64_t heads, keys, values, nope, rope, value;
} sizes;

static sizes mla_apart_sizes_of(const ch_config *config) {
  const ch_attention_config *a = &config->attention;
  return (sizes){config->num_attention_heads, a->k_lora_rank,      a->v_lora_rank,
                 a->qk_nope_head_dim,         a->qk_rope_head_dim, a->v_head_dim};
}

bool ch_mla_is_apart(const ch_config *config) {
  return config->attention.k_lora_rank || config->attention.v_lora_rank;
}

ch_status ch_mla_apart_check(const ch_config *config, const char *where, ch_error *error) {
  const ch_attention_config *a = &config->attention;
  const char *given = a->k_lora_rank ? "k_lora_rank" : "v_lora_rank";
  if (a->kv_lora_rank)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.%s\" and \"attention.kv_lora_rank\" are both given; keys and values have "
                   "either separate latents or a common one",
                   where, given);
  if (a->gate_embedding_dim)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.gate_embedding_dim\" cannot be combined with \"attention.%s\": the gate "
                   "needs a common latent; use \"attention.kv_lora_rank\"",
                   where, given);
  return CH_OK;
}

/* --- tensors and state ---------------------------------------------------------------------------------- */

void ch_mla_apart_declare(ch_declaration *declaration) {
  int64_t width = declaration->config->hidden_size;
  sizes s = mla_apart_sizes_of(declaration->config);
  if (s.keys) {
    ch_declare_projection(declaration, "k_a_proj_with_mqa", s.keys + s.rope, width);
    ch_declare_norm(declaration, "k_a_layernorm", s.keys);
    ch_declare_projection(declaration, "k_b_proj", s.heads * s.nope, s.keys);
    ch_keep_plain(declaration, "k_b_proj");
  } else {
    ch_declare_projection(declaration, "k_proj", s.heads * s.nope, width);
    ch_declare_projection(declaration, "k_rope_proj", s.rope, width);
  }
  ch_knocking_declare(declaration, CH_ON_K, s.nope);
  ch_qk_norm_declare(declaration, CH_ON_K, s.nope + s.rope);
  if (s.values) {
    ch_declare_projection(declaration, "v_a_proj", s.values, width);
    ch_declare_norm(declaration, "v_a_layernorm", s.values);
    ch_declare_projection(declaration, "v_b_proj", s.heads * s.value, s.values);
    ch_keep_plain(declaration, "v_b_proj");
  } else
    ch_declare_projection(declaration, "v_proj", s.heads * s.value, width);
  ch_knocking_declare(declaration, CH_ON_V, s.value);
}

/* Returns the number of elements before the rotated key in the keys' part of the state: those of a latent, or of all
   heads' keys. */
static int64_t written_keys(const sizes *s) {
  return s->keys ? s->keys : s->heads * s->nope;
}

int ch_mla_apart_state(const ch_config *config, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  sizes s = mla_apart_sizes_of(config);
  parts[0] = (ch_state_part){.name = s.keys ? "k_latent" : "k",
                             .width = written_keys(&s) + s.rope,
                             .role = s.keys ? CH_ROLE_LATENT : CH_ROLE_KEY};
  parts[1] = (ch_state_part){.name = s.values ? "v_latent" : "v",
                             .width = s.values ? s.values : s.heads * s.value,
                             .role = s.values ? CH_ROLE_LATENT : CH_ROLE_VALUE};
  return 2;
}

int ch_mla_apart_rows(const ch_config *config, ch_state_rows made[2]) {
  sizes s = mla_apart_sizes_of(config);
  made[0] = (ch_state_rows){s.keys ? "k_b_proj" : "k_proj", CH_ON_K, s.nope, 0, s.nope};
  made[1] = (ch_state_rows){s.values ? "v_b_proj" : "v_proj", CH_ON_V, s.value, 0, s.value};
  return 2;
}

void ch_mla_apart_write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  ch_graph *graph = builder->graph;
  sizes s = mla_apart_sizes_of(builder->config);
  ch_node *keys, *rope;
  if (s.keys) {
    ch_node *both = ch_project(builder, x, "k_a_proj_with_mqa");
    keys = ch_latent_norm(builder, ch_op_slice_heads(graph, both, 1, (ch_head_slice){0, 0, s.keys}),
                          "k_a_layernorm");
    rope = ch_op_slice_heads(graph, both, 1, (ch_head_slice){0, s.keys, s.rope});
  } else {
    keys = ch_knock(builder, CH_ON_K, ch_project(builder, x, "k_proj"));
    rope = ch_project(builder, x, "k_rope_proj");
  }
  if (!builder->config->attention.qk_norm) rope = ch_apply_rope(builder, rope, s.rope, s.rope);
  out[0] = ch_op_join_heads(graph, 1, 2, (ch_node *[]){keys, rope},
                            (ch_head_slice[]){{0, 0, written_keys(&s)}, {0, 0, s.rope}});
  out[1] = s.values ? ch_latent_norm(builder, ch_project(builder, x, "v_a_proj"), "v_a_layernorm")
                    : ch_knock(builder, CH_ON_V, ch_project(builder, x, "v_proj"));
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* Returns the number of multiply-adds that expand a head's key, or value, of a token from its latent. */
static int64_t expanding(const ch_config *config, unsigned on) {
  sizes s = mla_apart_sizes_of(config);
  int64_t latent = on == CH_ON_K ? s.keys : s.values, dim = on == CH_ON_K ? s.nope : s.value;
  return latent * dim + (latent && ch_is_knocked(config, on) ? dim * dim : 0);
}

int64_t ch_mla_apart_expanding(const ch_config *config) {
  return expanding(config, CH_ON_K) + expanding(config, CH_ON_V);
}

/* Returns true if attention reads latents of keys, or of values, directly. It does so if absorbing is possible and
   needs no more multiply-adds than expanding the latents once for all queries of the pass. */
static bool is_absorbed(const ch_builder *builder, unsigned on) {
  sizes s = mla_apart_sizes_of(builder->config);
  int64_t latent = on == CH_ON_K ? s.keys : s.values, dim = on == CH_ON_K ? s.nope : s.value;
  if (on == CH_ON_K && builder->config->attention.qk_norm) return false;
  return builder->cached && latent &&
         builder->graph->length * (latent - dim) <= expanding(builder->config, on);
}

/* Multiplies every head's query by W_kb^T, after linear knocking. */
static ch_node *folded_query(ch_builder *builder, ch_node *q) {
  ch_graph *graph = builder->graph;
  sizes s = mla_apart_sizes_of(builder->config);
  int64_t width = s.nope + s.rope;
  ch_node *nope = ch_op_slice_heads(graph, q, s.heads, (ch_head_slice){width, 0, s.nope});
  nope = ch_knock_query_for_keys(builder, nope, s.nope);
  nope = ch_op_head_product(graph, nope, ch_projection_weight(builder, "k_b_proj"),
                            (ch_head_rows){s.heads, s.nope, 0, s.nope, true});
  return ch_op_join_heads(graph, s.heads, 2, (ch_node *[]){nope, q},
                          (ch_head_slice[]){{s.keys, 0, s.keys}, {width, s.nope, s.rope}});
}

/* Returns the keys of all heads [H (n + r)]. */
static ch_node *keys_of(ch_builder *builder, ch_node *state) {
  ch_graph *graph = builder->graph;
  sizes s = mla_apart_sizes_of(builder->config);
  ch_node *nope = state;
  if (s.keys) {
    nope = ch_op_slice_heads(graph, state, 1, (ch_head_slice){0, 0, s.keys});
    nope = ch_knock(builder, CH_ON_K, ch_project(builder, nope, "k_b_proj"));
  }
  ch_node *keys = ch_op_join_heads(graph, s.heads, 2, (ch_node *[]){nope, state},
                                   (ch_head_slice[]){{s.nope, 0, s.nope}, {0, written_keys(&s), s.rope}});
  if (!builder->config->attention.qk_norm) return keys;
  return ch_apply_rope(builder, ch_qk_norm(builder, CH_ON_K, keys), s.nope + s.rope, s.rope);
}

/* Returns the values of all heads [H v]. */
static ch_node *values_of(ch_builder *builder, ch_node *state) {
  if (!builder->config->attention.v_lora_rank) return state;
  return ch_knock(builder, CH_ON_V, ch_project(builder, state, "v_b_proj"));
}

ch_node *ch_mla_apart_attend(ch_builder *builder, ch_builder *there, ch_node *q, ch_node *const states[],
                             double scale) {
  sizes s = mla_apart_sizes_of(builder->config);
  bool latent_keys = is_absorbed(builder, CH_ON_K), latent_values = is_absorbed(builder, CH_ON_V),
       both = latent_keys && latent_values;
  if (latent_keys) q = folded_query(there, q);
  ch_node *context = ch_attend_states(builder, q, latent_keys ? states[0] : keys_of(there, states[0]),
                                      latent_values ? states[1] : values_of(there, states[1]),
                                      (ch_attend_spec){.heads = s.heads,
                                                       .kv_heads = both ? 1 : s.heads,
                                                       .key_dim = (latent_keys ? s.keys : s.nope) + s.rope,
                                                       .value_dim = latent_values ? s.values : s.value,
                                                       .one_key = latent_keys && !both,
                                                       .one_value = latent_values && !both,
                                                       .scale = scale});
  if (!latent_values) return context;
  context = ch_op_head_product(builder->graph, context, ch_projection_weight(there, "v_b_proj"),
                               (ch_head_rows){s.heads, s.value, 0, s.value, false});
  return ch_knock(there, CH_ON_V, context);
}

/* Returns the smaller of the widths of the spaces that hold all heads' keys and all heads' values. */
int64_t ch_mla_apart_shared_dim(const ch_config *config) {
  sizes s = mla_apart_sizes_of(config);
  int64_t keys = s.keys ? s.keys : s.heads * s.nope, values = s.values ? s.values : s.heads * s.value;
  return keys < values ? keys : values;
}
