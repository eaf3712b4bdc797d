/* Mixture-of-Head attention (Jin et al. 2024): grouped-query attention in which each token weights its heads.
 *
 *   write:  k, v of G heads of d, as gqa
 *   read:   o_h as gqa, after head norm;   y = W_o [g_1 o_1 ... g_H o_H]
 *           p = softmax(W_r x) of the last H - s heads, S the k largest;
 *           r_i = k p_i / (sum of p over S) on S, else 0
 *           u = s softmax(W_s x) of the first s heads;  [a_1, a_2] = 2 softmax(W_h x);
 *           g = [a_1 u, a_2 r], without s: r
 *
 * All heads have keys and values, so the cache is that of gqa. In training, a balance loss spreads the choices evenly
 * over the heads. */

#include "attention/mechanism.h"
#include "config/initial_std.h"

extern const ch_mechanism ch_mechanism_gqa;

static int64_t routed_heads(const ch_config *config) {
  return config->num_attention_heads - config->attention.shared_heads;
}

static ch_status moh_check(const ch_config *c, const char *where, ch_error *error) {
  const ch_attention_config *a = &c->attention;
  if (!a->active_heads)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.active_heads\" is missing; \"attention.type\" \"moh\" needs it", where);
  if (a->shared_heads >= c->num_attention_heads)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.shared_heads\" is %lld; it must be below \"num_attention_heads\", %lld, "
                   "or there is nothing to choose",
                   where, (long long)a->shared_heads, (long long)c->num_attention_heads);
  if (a->active_heads > routed_heads(c))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.active_heads\" is %lld; it must be at most %lld: \"num_attention_heads\" "
                   "minus \"attention.shared_heads\"",
                   where, (long long)a->active_heads, (long long)routed_heads(c));
  if (c->num_attention_heads > CH_MAX_EXPERTS)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"num_attention_heads\" is %lld, but \"attention.type\" \"moh\" supports at most %d",
                   where, (long long)c->num_attention_heads, CH_MAX_EXPERTS);
  return CH_OK;
}

static void moh_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t shared = c->attention.shared_heads;
  ch_mechanism_gqa.declare(declaration);
  ch_declare_matrix(declaration, "head_gate.routed.weight", routed_heads(c), c->hidden_size);
  if (shared > 1) ch_declare_matrix(declaration, "head_gate.shared.weight", shared, c->hidden_size);
  if (shared > 0) ch_declare_matrix(declaration, "head_gate.stage.weight", 2, c->hidden_size);
}

static ch_node *logits(ch_builder *builder, ch_node *x, const char *name) {
  return ch_op_linear(builder->graph, x, ch_attention_param(builder, name), NULL);
}

/* Computes g [N, H]. The balance loss is the experts' loss (route.c) times k: the paper's f_i is a share of tokens, and
   that of route.c is a share of choices. */
static ch_node *weights(ch_builder *builder, ch_node *x) {
  const ch_attention_config *a = &builder->config->attention;
  ch_graph *graph = builder->graph;
  const ch_choice_spec choice = {.active = a->active_heads};
  const ch_route_spec spec = {.renormalise = true,
                              .scale = (double)a->active_heads,
                              .balance_coefficient = a->balance_coefficient * (double)a->active_heads};
  ch_node *routed = logits(builder, x, "head_gate.routed.weight");
  ch_node *chosen = ch_op_choose_experts(graph, routed, NULL, &choice, -1);
  ch_node *stage = a->shared_heads > 0 ? logits(builder, x, "head_gate.stage.weight") : NULL;
  ch_node *shared = a->shared_heads > 1 ? logits(builder, x, "head_gate.shared.weight") : NULL;
  return ch_op_head_weights(graph, ch_op_route(graph, routed, chosen, &spec), chosen, stage, shared,
                            routed_heads(builder->config), a->shared_heads);
}

static ch_node *moh_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *context =
      ch_head_norm(builder, ch_attend_by_head(builder, ch_project(builder, x, "q_proj"), states));
  ch_node *weight = ch_op_repeat_heads(builder->graph, weights(builder, x), 1, c->head_dim);
  return ch_project(builder, ch_op_mul(builder->graph, context, weight), "o_proj");
}

static const char *const keys[] = {"num_key_heads", "num_value_heads",     "exclusive", "shared_heads",
                                   "active_heads",  "balance_coefficient", NULL};

/* Presets a quarter of the heads as shared and half of the heads as active routed ones, so that three quarters are
   active. */
static ch_status three_quarters(ch_config *config, int64_t number, const char *where, ch_error *error) {
  int64_t heads = config->num_attention_heads;
  CH_TRY(ch_preset_grouped(config, number, where, error));
  config->attention.shared_heads = heads / 4;
  config->attention.active_heads = heads / 2 > 1 ? heads / 2 : 1;
  return CH_OK;
}

static const ch_preset presets[] = {
    {"moh", ch_preset_counts_groups,
     "mixture of heads: a quarter of the heads is always active, another half is chosen for each "
     "token (default: as gqa)",
     three_quarters},
    {0},
};

const ch_mechanism ch_mechanism_moh = {
    .name = "moh",
    .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
               CH_MODULE_HEAD_MIX | CH_MODULE_BIAS | CH_MODULE_SINK_LOGITS | CH_MODULE_KV_GROUP,
    .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
    .mixes = CH_ON_K | CH_ON_V,
    .keys = keys,
    .check = moh_check,
    .declare = moh_declare,
    .state = ch_keys_values_state,
    .write = ch_write_keys_values,
    .read = moh_read,
    .rows = ch_rows_by_head,
    .total_effective_rank = ch_rank_of_heads,
    .shared_latent_dim = ch_width_of_shared_heads,
    .presets = presets};
