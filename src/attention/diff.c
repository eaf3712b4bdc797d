/* Differential attention (Ye et al.; MEA eqs. 4-6): heads in pairs. The second head's weights are subtracted.
 *
 *   write:  k, v of G heads of d, as gqa
 *   read:   C_i = (softmax(q_2i k_2i^T / sqrt(d)) - lambda_i softmax(q_2i+1 k_2i+1^T / sqrt(d)))
 *                * (v_2i, v_2i+1)
 *           y = W_o (1 - lambda_init) headnorm(C)                   [heads of 2 d]
 *
 * lambda_init = 0.8 - 0.6 exp(-0.3 layer). lambda is one number per pair, or exp(q1 . k1) - exp(q2 . k2) +
 * lambda_init for the whole layer. Without the head norm, there is no factor (1 - lambda_init). */
#include <math.h>

#include "attention/mechanism.h"

static const char *const vectors[] = {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"};

static double initial_lambda(int layer) {
  return 0.8 - 0.6 * exp(-0.3 * layer);
}

static void diff_defaults(ch_config *config) {
  config->attention.head_norm = true;
}

static ch_status diff_check(const ch_config *c, const char *where, ch_error *error) {
  const char *key = c->num_attention_heads % 2   ? "num_attention_heads"
                    : c->num_key_value_heads % 2 ? "num_key_value_heads"
                                                 : NULL;
  if (!key) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"%s\" must be even with \"attention.type\" \"diff\": heads form pairs", where, key);
}

static void diff_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t queries = c->num_attention_heads * c->head_dim;
  ch_declare_projection(declaration, "q_proj", queries, c->hidden_size);
  if (c->attention_bias) ch_declare_bias(declaration, "q_proj", queries);
  ch_query_modules_declare(declaration);
  ch_keys_values_declare(declaration);
  if (c->attention.diff_lambda == CH_DIFF_PER_PAIR)
    ch_declare_vector(declaration, "lambda", c->num_attention_heads / 2, initial_lambda(declaration->layer),
                      0);
  else
    for (int i = 0; i < 4; i++) ch_declare_vector(declaration, vectors[i], c->head_dim, 0, 0.1);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, queries);
  if (c->attention_output_bias) ch_declare_bias(declaration, "o_proj", c->hidden_size);
  ch_head_norm_declare(declaration, 2 * c->head_dim);
}

static ch_node *lambda_of(ch_builder *builder) {
  if (builder->config->attention.diff_lambda == CH_DIFF_PER_PAIR)
    return ch_attention_param(builder, "lambda");
  ch_node *v[4];
  for (int i = 0; i < 4; i++) v[i] = ch_attention_param(builder, vectors[i]);
  return ch_op_diff_lambda(builder->graph, v[0], v[1], v[2], v[3], initial_lambda(builder->layer));
}

/* Computes the attention of the first (side 0) or second (side 1) heads of all pairs, over both values of their
   pair. */
static ch_node *attend(ch_builder *builder, ch_node *q, ch_node *keys, ch_node *values, int64_t side) {
  const ch_config *c = builder->config;
  int64_t d = c->head_dim, pairs = c->num_attention_heads / 2;
  return ch_attend_states(builder, q, keys, values,
                          (ch_attend_spec){.heads = pairs,
                                           .kv_heads = c->num_key_value_heads / 2,
                                           .key_dim = d,
                                           .value_dim = 2 * d,
                                           .q_columns = {side * d, 2 * d},
                                           .key_columns = {side * d, 2 * d},
                                           .scale = 1 / sqrt((double)d),
                                           .slopes = ch_alibi_slopes(builder, side, 2, pairs)});
}

/* Returns (1 - lambda_init) headnorm(context), or the context without a head norm. The factor multiplies the norm's
   weight. */
static ch_node *normed(ch_builder *builder, ch_node *context) {
  if (!builder->config->attention.head_norm) return context;
  ch_node *weight = ch_op_scale(builder->graph, ch_attention_param(builder, "head_norm.weight"),
                                1 - initial_lambda(builder->layer));
  return ch_op_rmsnorm(builder->graph, context, weight, builder->config->rms_norm_eps);
}

static ch_node *diff_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *q = ch_finish_queries(builder, ch_project(builder, x, "q_proj"), c->head_dim);
  ch_node *keys = ch_read_keys(builder, states[0]), *values = ch_read_values(builder, states[1]);
  ch_node *first = attend(builder, q, keys, values, 0), *second = attend(builder, q, keys, values, 1);
  ch_node *context =
      ch_op_subtract_scaled(builder->graph, first, second, lambda_of(builder), c->num_attention_heads / 2);
  return ch_project(builder, normed(builder, context), "o_proj");
}

/* Presets `number` key-value heads; for 0, as many as query heads, as in MHA. */
static ch_status all_groups(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return ch_preset_groups(config, number ? number : config->num_attention_heads, where, error);
}

static const char *const keys[] = {"diff_lambda", NULL};

static const ch_preset presets[] = {
    {"diff", ch_preset_counts_groups, "differential attention: weights of one head minus those of another",
     all_groups},
    {0},
};

const ch_mechanism ch_mechanism_diff = {
    .name = "diff",
    .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
               CH_MODULE_HEAD_MIX | CH_MODULE_BIAS | CH_MODULE_OUTPUT_BIAS,
    .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
    .mixes = CH_ON_K | CH_ON_V,
    .keys = keys,
    .defaults = diff_defaults,
    .check = diff_check,
    .declare = diff_declare,
    .state = ch_keys_values_state,
    .write = ch_write_keys_values,
    .read = diff_read,
    .rows = ch_rows_by_head,
    .total_effective_rank = ch_rank_of_heads,
    .shared_latent_dim = ch_width_of_shared_heads,
    .presets = presets};
