/* Tensor Product Attention (Zhang et al. 2025): a token's queries, keys and values are sums of a few products
 * of a vector over heads and a vector over dims.
 *
 *   write:  A_k [H, R_k], B_k = RoPE(W x) [R_k, d], A_v [H, R_v], B_v [R_v, d]
 *   read:   k_h = (1/R_k) sum over r of A_k[h, r] B_k[r], v_h and q_h in the same way;
 *           y = W_o headnorm(softmax(q k^T / sqrt(d)) v)
 *
 * With "a_factors": "fixed", the factors A are parameters and not written; with one-hot rows this is grouped-query
 * attention. Decoding materialises no head's key or value: each head combines the dot products of its query with B_k.
 * Fixed factors are multiplied into the queries before attention, and into the sums after it. The divisions by R are
 * part of the scale, and of the sum. */
#include <math.h>

#include "attention/mechanism.h"

/* Up to this many queries read the factors directly. For more queries, each token's keys and values are computed
   once. */
enum { FEW_QUERIES = 8 };

static bool is_fixed(const ch_config *config) {
  return config->attention.a_factors == CH_FACTORS_FIXED;
}

static ch_status tpa_check(const ch_config *c, const char *where, ch_error *error) {
  enum { MOST_WIDTH = 1 << 24 };
  const ch_attention_config *a = &c->attention;
  const struct {
    const char *name;
    int64_t rank;
  } ranks[] = {{"q_rank", a->q_rank}, {"k_rank", a->k_rank}, {"v_rank", a->v_rank}};
  int64_t heads = c->num_attention_heads, widest = heads > c->head_dim ? heads : c->head_dim;
  for (int i = 0; i < 3; i++) {
    if (i > 0 && !ranks[i].rank)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"attention.%s\" is missing; \"attention.type\" \"tpa\" needs it", where,
                     ranks[i].name);
    if (ranks[i].rank > MOST_WIDTH / widest)
      return ch_fail(error, CH_ERROR_CONFIG,
                     "%s: \"attention.%s\", %lld, times the greater of \"num_attention_heads\" and "
                     "\"head_dim\", %lld, must be at most %d",
                     where, ranks[i].name, (long long)ranks[i].rank, (long long)widest, MOST_WIDTH);
  }
  if (c->num_key_value_heads == heads) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"num_key_value_heads\" is %lld, but with \"attention.type\" \"tpa\" every one of the %lld "
      "query heads has its own key and value; leave it out",
      where, (long long)c->num_key_value_heads, (long long)heads);
}

/* --- tensors and state ---------------------------------------------------------------------------------- */

/* Declares the two factors of a state, such as "a_k_proj" and "b_k_proj", of `rank`. Projections start with the
   authors' standard deviations. Fixed factors start one-hot, with noise. */
static void declare_factors(ch_declaration *declaration, char state, int64_t rank) {
  const ch_config *c = declaration->config;
  int64_t heads = c->num_attention_heads, d = c->head_dim, width = c->hidden_size;
  const char *a = state == 'q'   ? "a_q_proj"
                  : state == 'k' ? "a_k_proj"
                                 : "a_v_proj",
             *b = state == 'q'   ? "b_q_proj"
                  : state == 'k' ? "b_k_proj"
                                 : "b_v_proj",
             *fixed = state == 'q'   ? "a_q.weight"
                      : state == 'k' ? "a_k.weight"
                                     : "a_v.weight";
  if (is_fixed(c)) {
    ch_param *row = ch_declare_head_matrix(declaration, fixed, heads, rank, CH_PARAM_INIT_ONE_HOT, 0.02);
    if (row) row->hot = (double)rank;
  } else {
    ch_declare_projection(declaration, a, heads * rank, width);
    ch_start_with(declaration, a, sqrt(2 / (double)(rank * (width + heads))));
  }
  ch_declare_projection(declaration, b, rank * d, width);
  ch_start_with(declaration, b, sqrt(2 / (double)(d * (width + rank))));
  if (!is_fixed(c)) ch_declare_product(declaration, a, b);
}

static void tpa_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t heads = c->num_attention_heads * c->head_dim;
  if (c->attention.q_rank)
    declare_factors(declaration, 'q', c->attention.q_rank);
  else
    ch_declare_projection(declaration, "q_proj", heads, c->hidden_size);
  declare_factors(declaration, 'k', c->attention.k_rank);
  declare_factors(declaration, 'v', c->attention.v_rank);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, heads);
  ch_head_norm_declare(declaration, c->head_dim);
}

/* The index of each factor among the parts of the state, or -1 for fixed factors, which are not in the state. `count`
   is the number of parts. */
typedef struct places {
  int a_k, b_k, a_v, b_v, count;
} places;

static places places_of(const ch_config *config) {
  return is_fixed(config) ? (places){-1, 0, -1, 1, 2} : (places){0, 1, 2, 3, 4};
}

static int tpa_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  (void)layer;
  const ch_attention_config *a = &config->attention;
  places at = places_of(config);
  int64_t heads = config->num_attention_heads, d = config->head_dim;
  if (!is_fixed(config)) {
    parts[at.a_k] = (ch_state_part){.name = "a_k", .width = heads * a->k_rank, .role = CH_ROLE_KEY};
    parts[at.a_v] = (ch_state_part){.name = "a_v", .width = heads * a->v_rank, .role = CH_ROLE_VALUE};
  }
  parts[at.b_k] = (ch_state_part){.name = "b_k", .width = a->k_rank * d, .role = CH_ROLE_KEY};
  parts[at.b_v] = (ch_state_part){.name = "b_v", .width = a->v_rank * d, .role = CH_ROLE_VALUE};
  return at.count;
}

static void tpa_write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  const ch_config *c = builder->config;
  places at = places_of(c);
  if (!is_fixed(c)) {
    out[at.a_k] = ch_project(builder, x, "a_k_proj");
    out[at.a_v] = ch_project(builder, x, "a_v_proj");
  }
  out[at.b_k] = ch_apply_rope(builder, ch_project(builder, x, "b_k_proj"), c->head_dim, c->head_dim);
  out[at.b_v] = ch_project(builder, x, "b_v_proj");
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* Computes heads from a token's own factor over heads, or from the parameter if `a` is NULL, without the division by
   the rank. */
static ch_node *tpa_heads_of(ch_builder *builder, ch_node *a, ch_node *b, const char *fixed) {
  if (!a) return ch_op_head_mix(builder->graph, b, ch_attention_param(builder, fixed));
  return ch_op_factor_product(builder->graph, a, b, builder->config->num_attention_heads, 1);
}

static ch_node *queries(ch_builder *builder, ch_node *x) {
  const ch_config *c = builder->config;
  int64_t rank = c->attention.q_rank, d = c->head_dim;
  if (!rank) return ch_rotate_queries(builder, ch_project(builder, x, "q_proj"), d, d);
  ch_node *a = is_fixed(c) ? NULL : ch_project(builder, x, "a_q_proj");
  ch_node *b = ch_rotate_queries(builder, ch_project(builder, x, "b_q_proj"), d, d);
  return tpa_heads_of(builder, a, b, "a_q.weight");
}

/* Returns the factor of scores, which includes the divisions by the ranks of queries and keys. */
static double score_scale(const ch_config *c) {
  double rank = (double)(c->attention.q_rank ? c->attention.q_rank : 1) * (double)c->attention.k_rank;
  return 1 / (sqrt((double)c->head_dim) * rank);
}

static ch_node *attend_heads(ch_builder *builder, ch_node *q, ch_node *const states[]) {
  const ch_config *c = builder->config;
  places at = places_of(c);
  ch_node *keys = tpa_heads_of(builder, at.a_k < 0 ? NULL : states[at.a_k], states[at.b_k], "a_k.weight");
  ch_node *values = tpa_heads_of(builder, at.a_v < 0 ? NULL : states[at.a_v], states[at.b_v], "a_v.weight");
  return ch_attend_states(builder, q, keys, values,
                          (ch_attend_spec){.heads = c->num_attention_heads,
                                           .kv_heads = c->num_attention_heads,
                                           .key_dim = c->head_dim,
                                           .value_dim = c->head_dim,
                                           .scale = score_scale(c)});
}

static ch_node *attend_factors(ch_builder *builder, ch_node *q, ch_node *const states[]) {
  const ch_config *c = builder->config;
  places at = places_of(c);
  const ch_visibility seen = ch_visibility_of(builder);
  const ch_factor_spec spec = {.heads = c->num_attention_heads,
                               .k_rank = c->attention.k_rank,
                               .v_rank = c->attention.v_rank,
                               .scale = score_scale(c),
                               .soft_cap = c->attn_logit_softcapping,
                               .slopes = ch_alibi_slopes(builder, 0, 1, c->num_attention_heads),
                               .window = seen.window,
                               .sinks = seen.sinks};
  return ch_op_factor_attend(builder->graph, q, states[at.a_k], states[at.b_k], states[at.a_v],
                             states[at.b_v], builder->document_start, seen.logits, &spec);
}

/* Attends with fixed factors over heads: all heads share one key and one value of all ranks. */
static ch_node *attend_fixed(ch_builder *builder, ch_node *q, ch_node *const states[]) {
  const ch_config *c = builder->config;
  places at = places_of(c);
  int64_t heads = c->num_attention_heads, d = c->head_dim;
  q = ch_op_spread_heads(builder->graph, q, ch_attention_param(builder, "a_k.weight"), heads);
  ch_node *sums = ch_attend_states(builder, q, states[at.b_k], states[at.b_v],
                                   (ch_attend_spec){.heads = heads,
                                                    .kv_heads = 1,
                                                    .key_dim = c->attention.k_rank * d,
                                                    .value_dim = c->attention.v_rank * d,
                                                    .scale = score_scale(c)});
  return ch_op_collapse_heads(builder->graph, sums, ch_attention_param(builder, "a_v.weight"), heads);
}

static ch_node *tpa_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *q = queries(builder, x);
  bool few = builder->cached && builder->graph->length <= FEW_QUERIES;
  ch_node *context = !few          ? attend_heads(builder, q, states)
                     : is_fixed(c) ? attend_fixed(builder, q, states)
                                   : attend_factors(builder, q, states);
  context = ch_op_scale(builder->graph, context, 1 / (double)c->attention.v_rank);
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static int64_t shared_latent_dim(const ch_config *config) {
  return config->attention.k_rank * config->head_dim;
}

static const char *const keys[] = {"q_rank", "k_rank", "v_rank", "a_factors", NULL};

/* Presets rank 6 for queries and rank N for keys and values, by default 2. 6 and 2 are the ranks of the paper's
   models. */
static ch_status usual_ranks(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  config->attention.q_rank = 6;
  config->attention.k_rank = config->attention.v_rank = number ? number : 2;
  return CH_OK;
}

static const ch_preset presets[] = {
    {"tpa", "ranks of keys and values",
     "tensor product attention: keys and values are sums of 2 outer products of two vectors", usual_ranks},
    {0},
};

const ch_mechanism ch_mechanism_tpa = {.name = "tpa",
                                       .modules = CH_MODULE_HEAD_NORM | CH_MODULE_SINK_LOGITS,
                                       .keys = keys,
                                       .check = tpa_check,
                                       .declare = tpa_declare,
                                       .state = tpa_state,
                                       .write = tpa_write,
                                       .read = tpa_read,
                                       .total_effective_rank = ch_rank_of_heads,
                                       .shared_latent_dim = shared_latent_dim,
                                       .presets = presets};
