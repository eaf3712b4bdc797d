/* Differential attention (1.6): the definition, and combinations of both lambdas, the head norm, grouped pairs, mixed
 * heads, knocking and positions. */
#include <math.h>

#include "mechanism.h"

static double dot_of(reference_run *run, const char *a_name, const char *b_name) {
  int64_t d = run->config->head_dim;
  const double *a = reference_vector(run, a_name, d), *b = reference_vector(run, b_name, d);
  double sum = 0;
  for (int64_t i = 0; i < d; i++) sum += a[i] * b[i];
  return sum;
}

/* Returns lambda [heads / 2]. */
static double *lambdas(reference_run *run, double initial) {
  const reference_config *c = run->config;
  double *lambda = reference_zeros(run, c->heads / 2);
  double one = 0;
  if (!c->lambda_a_pair)
    one = exp(dot_of(run, "self_attn.lambda_q1", "self_attn.lambda_k1")) -
          exp(dot_of(run, "self_attn.lambda_q2", "self_attn.lambda_k2")) + initial;
  for (int64_t p = 0; p < c->heads / 2; p++)
    lambda[p] = c->lambda_a_pair ? reference_vector(run, "self_attn.lambda", c->heads / 2)[p] : one;
  return lambda;
}

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim, pairs = c->heads / 2;
  double *q, *k, *v, initial = 0.8 - 0.6 * exp(-0.3 * run->layer);
  reference_queries_keys_values(run, x, &q, &k, &v);
  const double *lambda = lambdas(run, initial);
  double *context = reference_zeros(run, run->length * pairs * 2 * d);
  double *weights = reference_zeros(run, run->length);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t p = 0; p < pairs; p++) {
      int64_t pair = p * c->groups / c->heads; /* pair of key-value heads */
      for (int64_t side = 0; side < 2; side++) {
        int64_t head = 2 * p + side;
        reference_scores(run, head, t, q + (t * c->heads + head) * d, k + (2 * pair + side) * d,
                         c->groups * d, d, 1 / sqrt((double)d), weights);
        reference_softmax(run, t, weights);
        /* The two values of a pair are adjacent. */
        reference_gather(run, t, weights, side ? -lambda[p] : 1, v + 2 * pair * d, c->groups * d, 2 * d,
                         context + (t * pairs + p) * 2 * d);
      }
    }
  reference_head_norm(run, context, pairs, 2 * d);
  for (int64_t i = 0; c->head_norm && i < run->length * pairs * 2 * d; i++) context[i] *= 1 - initial;
  return reference_project(run, "o_proj", context, c->heads * d, c->hidden);
}

static void complete(reference_config *c) {
  c->context_dim = 2 * c->head_dim;
}

static int64_t others(const reference_config *c, int layer) {
  (void)layer;
  return c->lambda_a_pair ? c->heads / 2 : 4 * c->head_dim;
}

static const tried with_experts[] = {{"'diff_lambda': 'per_pair'", "'num_key_value_heads': 2"}, {0}};

static const tried long_texts[] = {
    {"", "'num_key_value_heads': 2, 'head_dim': 24"},
    {"'diff_lambda': 'per_pair', 'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}",
     "'num_key_value_heads': 2, 'head_dim': 24, 'position': 'alibi'"},
    {0},
};

static const tried learns[] = {
    {"'diff_lambda': 'per_pair'", "'num_key_value_heads': 2"},
    {"'head_mix': {'on': ['k', 'v'], 'component_heads': 1}", "'num_key_value_heads': 2"},
    {0},
};

static void combinations(combination_list *list) {
  static const char *const kinds[] = {"", "'diff_lambda': 'per_pair'", "'head_norm': false",
                                      "'diff_lambda': 'per_pair', 'head_norm': false", NULL};
  static const char *const modules[] = {
      "",
      "'qk_norm': true",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
      "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['q', 'v'], 'per_head': true}",
      "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}",
      "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}",
      "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}",
      "'head_mix': {'on': ['k'], 'component_heads': 2}, 'knocking': {'type': 'gate', 'on': ['v']}",
      "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}, "
      "'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
      "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}, "
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      NULL};
  static const char *const sizes[] = {"'num_key_value_heads': 2, 'head_dim': 6",
                                      "'num_key_value_heads': 2, 'head_dim': 5, 'position': 'alibi'",
                                      "'num_key_value_heads': 4, 'head_dim': 6",
                                      "'num_key_value_heads': 4, 'head_dim': 3, 'position': 'none'", NULL};
  crossing attention[44];
  int count = cross(kinds, modules, attention, 44);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3) add_combination(list, *size, "diff", attention[i].text);

  const char *everything = "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': [1, 2, 5]}, "
                           "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}";
  add_combination(list, "'num_key_value_heads': 2, 'num_hidden_layers': 3, 'rope_interleaved': true", "diff",
                  everything);
  add_combination_of(list, 3, 1, "'num_key_value_heads': 2", "diff", "");
  add_combination_of(list, 3, 7, "'num_attention_heads': 6, 'num_key_value_heads': 2, 'head_dim': 4", "diff",
                     "");
  add_combination_of(list, 1, 9, "'num_attention_heads': 2, 'attention_bias': true", "diff",
                     "'diff_lambda': 'per_pair'");
}

const tested_mechanism tested_diff = {
    .name = "diff",
    .normed = true,
    .complete = complete,
    .attention = attention,
    .projections = reference_projections_by_head,
    .others = others,
    .cache = reference_cache_by_head,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"diff", 2 * 8 * 16}, {"diff:2", 2 * 2 * 16}},
};
