/* Queries of unrotated and rotated dims, by one matrix or by two factors with a norm between them, as in
 * DeepSeek-V2. */
#include "attention/latent_query.h"

#include <math.h>

static int64_t width_of_head(const ch_config *config) {
  return config->attention.qk_nope_head_dim + config->attention.qk_rope_head_dim;
}

/* Returns the factor of the normed low-rank query with "latent_scale". */
static double query_scale(const ch_config *config) {
  return sqrt((double)config->hidden_size / (double)config->attention.q_lora_rank);
}

void ch_latent_query_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t width = c->num_attention_heads * width_of_head(c), rank = c->attention.q_lora_rank;
  if (rank) {
    ch_declare_projection(declaration, "q_a_proj", rank, c->hidden_size);
    ch_declare_norm(declaration, "q_a_layernorm", rank);
    ch_declare_projection(declaration, "q_b_proj", width, rank);
    if (c->attention.latent_scale) ch_declare_scaled_input(declaration, "q_b_proj", query_scale(c));
  } else
    ch_declare_projection(declaration, "q_proj", width, c->hidden_size);
  ch_knocking_declare(declaration, CH_ON_Q, c->attention.qk_nope_head_dim);
  ch_qk_norm_declare(declaration, CH_ON_Q, width_of_head(c));
}

/* Applies the knocking map to the n unrotated dims of every head. */
static ch_node *knocked(ch_builder *builder, ch_node *q) {
  const ch_config *c = builder->config;
  int64_t heads = c->num_attention_heads, nope = c->attention.qk_nope_head_dim, width = width_of_head(c);
  if (!ch_is_knocked(c, CH_ON_Q)) return q;
  ch_node *turned = ch_knock(builder, CH_ON_Q,
                             ch_op_slice_heads(builder->graph, q, heads, (ch_head_slice){width, 0, nope}));
  return ch_op_join_heads(builder->graph, heads, 2, (ch_node *[]){turned, q},
                          (ch_head_slice[]){{nope, 0, nope}, {width, nope, width - nope}});
}

ch_node *ch_latent_queries(ch_builder *builder, ch_node *x) {
  const ch_config *c = builder->config;
  bool latent = c->attention.q_lora_rank > 0;
  if (latent) x = ch_latent_norm(builder, ch_project(builder, x, "q_a_proj"), "q_a_layernorm");
  if (latent && c->attention.latent_scale) x = ch_op_scale(builder->graph, x, query_scale(c));
  ch_node *q = knocked(builder, ch_project(builder, x, latent ? "q_b_proj" : "q_proj"));
  return ch_rotate_queries(builder, ch_qk_norm(builder, CH_ON_Q, q), width_of_head(c),
                           c->attention.qk_rope_head_dim);
}

ch_status ch_latent_check_sizes(const ch_config *config, const char *where, ch_error *error) {
  const ch_attention_config *a = &config->attention;
  const char *missing = !a->qk_nope_head_dim   ? "qk_nope_head_dim"
                        : !a->qk_rope_head_dim ? "qk_rope_head_dim"
                        : !a->v_head_dim       ? "v_head_dim"
                                               : NULL;
  if (missing)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.%s\" is missing; \"attention.type\" \"%s\" needs it", where, missing,
                   a->type);
  if (config->position == CH_POSITION_ROPE && a->qk_rope_head_dim % 2)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.qk_rope_head_dim\" is %lld; it must be even with \"position\": \"rope\" "
                   "(dims rotate in pairs)",
                   where, (long long)a->qk_rope_head_dim);
  return CH_OK;
}

/* Returns a quarter of all heads together, H d, at most 4 d. DeepSeek-V2's latent is 4 d (512 for heads of 128). Its
   Lite model and the MFA paper have 16 heads, of which 4 d is a quarter. With fewer heads, 4 d would compress
   less. */
int64_t ch_usual_latent(const ch_config *config) {
  int64_t quarters = config->num_attention_heads < 16 ? config->num_attention_heads : 16;
  return (quarters * config->head_dim + 3) / 4;
}

/* Presets DeepSeek-V2's proportions: per head d value dims, d unrotated and d / 2 rotated query dims. */
ch_status ch_preset_latent(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  ch_attention_config *a = &config->attention;
  a->qk_nope_head_dim = a->v_head_dim = config->head_dim;
  a->qk_rope_head_dim = (config->head_dim / 2 + 1) / 2 * 2;
  a->kv_lora_rank = number ? number : ch_usual_latent(config);
  config->num_key_value_heads = config->num_attention_heads;
  config->head_dim = 0;
  return CH_OK;
}
