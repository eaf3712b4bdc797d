/* MFA with key reuse (1.5): the definition, and combinations of query widths, norms, knocking and positions. */
#include <math.h>
#include <string.h>

#include "factored.h"

/* Returns v = k + alpha * (N k) [length][C], of which configurations may omit parts. k is the projected key. */
static double *reused_values(reference_run *run, const double *k, int64_t dim) {
  const reference_config *c = run->config;
  if (!c->reuse_projects)
    return memcpy(reference_zeros(run, run->length * dim), k, (size_t)(run->length * dim) * sizeof *k);
  double *v = reference_apply(run, k, dim, reference_projection(run, "v_reuse", dim, dim), dim);
  const double *gate = c->reuse_gates ? reference_vector(run, "self_attn.v_reuse.gate", dim) : NULL;
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t i = 0; i < dim; i++)
      v[t * dim + i] = (c->reuse_adds ? k[t * dim + i] : 0) + (gate ? gate[i] : 1) * v[t * dim + i];
  return v;
}

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t dim = c->head_dim;
  double *q = factored_queries(run, x);
  double *k = reference_project(run, "k_proj", x, c->hidden, dim);
  reference_append(run, "k", k, dim);
  double *v = reused_values(run, k, dim);
  k = reference_knocked(run, 'k', k, 1, dim);
  reference_qk_norm(run, 'k', k, 1, dim);
  reference_rope(run, k, 1, dim, dim);
  double *context = reference_attend(run, 1, q, k, dim, v, dim, 1 / sqrt((double)dim));
  reference_head_norm(run, context, c->heads, dim);
  return reference_project(run, "o_proj", context, c->heads * dim, c->hidden);
}

static int projections(const reference_config *c, int layer, projection_shape shapes[MOST_PROJECTIONS]) {
  (void)layer;
  int count = factored_query_projections(c, shapes);
  shapes[count++] = (projection_shape){"k_proj", c->head_dim, c->hidden};
  if (c->reuse_projects) shapes[count++] = (projection_shape){"v_reuse", c->head_dim, c->head_dim};
  return count;
}

static int64_t others(const reference_config *c, int layer) {
  (void)layer;
  return (c->reuse_gates ? c->head_dim : 0) + (c->q_a_norm ? c->q_rank : 0);
}

static int64_t cache(const reference_config *c, int layer) {
  (void)layer;
  return c->head_dim;
}

static const tried with_experts[] = {{"'qk_norm': true", "'head_dim': 8"}, {0}};

static const tried long_texts[] = {
    {"", "'head_dim': 40"},
    {"'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k']}", "'head_dim': 36, 'rope_interleaved': true"},
    {"'qk_norm': true", "'head_dim': 33, 'position': 'alibi'"},
    {0},
};

static const tried learns[] = {{"'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k']}", ""}, {0}};

static void combinations(combination_list *list) {
  /* Values are not knocked, because they have their own transform. */
  static const char *const knocking[] = {"", "'knocking': {'type': 'linear', 'on': ['q', 'k']}",
                                         "'knocking': {'type': 'mlp', 'on': ['k']}",
                                         "'knocking': {'type': 'gate', 'on': ['q', 'k']}", NULL};
  add_factored_combinations(list, "mfa_kr", knocking);
  add_combination(list,
                  "'head_dim': 8, 'rope_theta': 30.0, "
                  "'rope_scaling': {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, "
                  "'high_freq_factor': 2.0, "
                  "'original_max_position_embeddings': 8}",
                  "mfa_kr", "'qk_norm': true");
  add_combination(list, "'head_dim': 8", "mfa_kr", "'value_reuse': 'residual', 'qk_norm': true");
  add_combination(list, "'head_dim': 8", "mfa_kr",
                  "'value_reuse': 'projection', 'knocking': {'type': 'linear', 'on': ['q', 'k']}");
  add_combination(list, "'head_dim': 8", "mfa_kr",
                  "'value_reuse': 'key', 'knocking': {'type': 'mlp', 'on': ['k']}");
}

const tested_mechanism tested_mfa_kr = {
    .name = "mfa_kr",
    .one_key = true,
    .key_kept = true,
    .complete = complete_factored_query,
    .attention = attention,
    .projections = projections,
    .others = others,
    .cache = cache,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"mfa_kr", 32}, {"mfa_kr:48", 48}},
};
