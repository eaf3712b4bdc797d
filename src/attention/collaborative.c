/* Collaborative heads (Cordonnier et al. 2020): one query and one key for all heads. Each head weights their dims.
 *
 *   write:  k = RoPE(W_k x)  [D~],   e = U x  [H, with "content_bias"],   v = knock(W_v x)  [G heads of d]
 *   read:   s_h = (RoPE(W_q x * m_h) . k + e_h) / sqrt(d);   y = W_o headnorm(softmax(s) v)
 * RoPE rotates blocks of d, each as a head, so that D~ = H d with m_h one on block h is multi-head attention. The
 * elements e follow the key: the query of head h ends in row h of the identity, which selects e_h. */
#include <math.h>

#include "attention/mechanism.h"

static ch_status collaborative_check(const ch_config *c, const char *where, ch_error *error) {
  enum { MOST_WIDTH = 1 << 24 };
  int64_t shared = c->attention.shared_qk_dim, heads = c->num_attention_heads;
  if (!shared)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"attention.shared_qk_dim\" is missing; \"attention.type\" \"collaborative\" needs it", where);
  if (c->position == CH_POSITION_ROPE && shared % c->head_dim != 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.shared_qk_dim\" is %lld; with \"position\": \"rope\" it must be a "
                   "multiple of \"head_dim\", %lld",
                   where, (long long)shared, (long long)c->head_dim);
  if (shared > MOST_WIDTH / heads - heads)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"attention.shared_qk_dim\", %lld, times \"num_attention_heads\", %lld, must be at most %d",
        where, (long long)shared, (long long)heads, MOST_WIDTH);
  return CH_OK;
}

static int64_t key_width(const ch_config *config) {
  return config->attention.shared_qk_dim + (config->attention.content_bias ? config->num_attention_heads : 0);
}

/* Returns the initial standard deviation of the mixing weights: Xavier's, as in the paper's code. With the spectral
   rule, sums over D~ start with the size of sums over d for all widths. */
static double mixing_std(const ch_config *config) {
  double shared = (double)config->attention.shared_qk_dim;
  if (config->parametrization == CH_PARAMETRIZATION_SPECTRAL) return sqrt((double)config->head_dim / shared);
  return sqrt(2 / ((double)config->num_attention_heads + shared));
}

static void collaborative_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t shared = c->attention.shared_qk_dim, heads = c->num_attention_heads, d = c->head_dim;
  ch_declare_projection(declaration, "q_proj", shared, c->hidden_size);
  ch_declare_projection(declaration, "k_proj", shared, c->hidden_size);
  ch_declare_head_matrix(declaration, "mixing.weight", heads, shared, CH_PARAM_INIT_NORMAL, mixing_std(c));
  if (c->attention.content_bias) ch_declare_matrix(declaration, "content_bias.weight", heads, c->hidden_size);
  ch_declare_projection(declaration, "v_proj", c->num_key_value_heads * d, c->hidden_size);
  ch_knocking_declare(declaration, CH_ON_V, d);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, heads * d);
  ch_head_norm_declare(declaration, d);
}

static int collaborative_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  (void)layer;
  parts[0] = (ch_state_part){.name = "k", .width = key_width(config), .role = CH_ROLE_KEY};
  parts[1] = (ch_state_part){
      .name = "v", .width = config->num_key_value_heads * config->head_dim, .role = CH_ROLE_VALUE};
  return 2;
}

static void collaborative_write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  const ch_config *c = builder->config;
  int64_t shared = c->attention.shared_qk_dim, heads = c->num_attention_heads;
  ch_node *key = ch_apply_rope(builder, ch_project(builder, x, "k_proj"), c->head_dim, c->head_dim);
  if (c->attention.content_bias) {
    ch_node *bias = ch_op_linear(builder->graph, x, ch_attention_param(builder, "content_bias.weight"), NULL);
    key = ch_op_join_heads(builder->graph, 1, 2, (ch_node *[]){key, bias},
                           (ch_head_slice[]){{0, 0, shared}, {0, 0, heads}});
  }
  out[0] = key;
  out[1] = ch_knock(builder, CH_ON_V, ch_project(builder, x, "v_proj"));
}

/* Returns the shared query with each head's weights [N, H key_width]. */
static ch_node *queries(ch_builder *builder, ch_node *x) {
  const ch_config *c = builder->config;
  ch_graph *graph = builder->graph;
  int64_t heads = c->num_attention_heads;
  ch_node *q = ch_op_repeat_heads(graph, ch_project(builder, x, "q_proj"), c->attention.shared_qk_dim, heads);
  q = ch_op_mul(graph, q, ch_attention_param(builder, "mixing.weight"));
  q = ch_rotate_queries(builder, q, c->head_dim, c->head_dim);
  return c->attention.content_bias ? ch_op_tag_heads(graph, q, heads) : q;
}

/* Attends with one key for all heads. The cache holds the key once. Without a cache, it is repeated for every
   head of values. */
static ch_node *collaborative_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  int64_t groups = c->num_key_value_heads, width = key_width(c);
  bool one = builder->cached && groups > 1;
  ch_node *keys = one ? states[0] : ch_op_repeat_heads(builder->graph, states[0], width, groups);
  ch_node *context = ch_attend_states(builder, queries(builder, x), keys, states[1],
                                      (ch_attend_spec){.heads = c->num_attention_heads,
                                                       .kv_heads = groups,
                                                       .one_key = one,
                                                       .key_dim = width,
                                                       .value_dim = c->head_dim,
                                                       .scale = 1 / sqrt((double)c->head_dim)});
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static int collaborative_rows(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  made[0] = (ch_state_rows){"v_proj", CH_ON_V, config->head_dim, 0, config->head_dim};
  return 1;
}

static int64_t total_effective_rank(const ch_config *config) {
  return config->num_attention_heads * config->attention.shared_qk_dim;
}

static int64_t shared_latent_dim(const ch_config *config) {
  return config->attention.shared_qk_dim;
}

static const char *const keys[] = {"shared_qk_dim", "content_bias", NULL};

/* Sets the shared dims to `number`. The default for 0 is a third of the dims of all heads, in whole heads, as in the
   paper for BERT (256 of 768). */
static ch_status third_of_heads(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  config->attention.shared_qk_dim =
      number ? number : (config->num_attention_heads + 2) / 3 * config->head_dim;
  return CH_OK;
}

static const ch_preset presets[] = {
    {"collab", "elements of the key",
     "collaborative heads: all heads weight the dims of one query and one key (default: a third of mha's)",
     third_of_heads},
    {0},
};

const ch_mechanism ch_mechanism_collaborative = {.name = "collaborative",
                                                 .modules = CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR |
                                                            CH_MODULE_KNOCK_OTHER | CH_MODULE_SINK_LOGITS,
                                                 .knocks = CH_ON_V,
                                                 .keys = keys,
                                                 .check = collaborative_check,
                                                 .declare = collaborative_declare,
                                                 .state = collaborative_state,
                                                 .write = collaborative_write,
                                                 .read = collaborative_read,
                                                 .rows = collaborative_rows,
                                                 .total_effective_rank = total_effective_rank,
                                                 .shared_latent_dim = shared_latent_dim,
                                                 .presets = presets};
