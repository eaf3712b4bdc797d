/* Multi-matrix Factorization Attention (1.4): the definition, and combinations of query widths, norms, knocking and
 * positions. */
#include <math.h>

#include "factored.h"

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t dim = c->head_dim;
  double *q = factored_queries(run, x);
  double *k = reference_project(run, "k_proj", x, c->hidden, dim);
  double *v = reference_knocked(run, 'v', reference_project(run, "v_proj", x, c->hidden, dim), 1, dim);
  k = reference_knocked(run, 'k', k, 1, dim);
  reference_qk_norm(run, 'k', k, 1, dim);
  reference_rope(run, k, 1, dim, dim);
  reference_append(run, "k", k, dim);
  reference_append(run, "v", v, dim);
  double *context = reference_attend(run, 1, q, k, dim, v, dim, 1 / sqrt((double)dim));
  reference_head_norm(run, context, c->heads, dim);
  return reference_project(run, "o_proj", context, c->heads * dim, c->hidden);
}

static int projections(const reference_config *c, int layer, projection_shape shapes[MOST_PROJECTIONS]) {
  (void)layer;
  int count = factored_query_projections(c, shapes);
  shapes[count++] = (projection_shape){"k_proj", c->head_dim, c->hidden};
  shapes[count++] = (projection_shape){"v_proj", c->head_dim, c->hidden};
  return count;
}

static int64_t others(const reference_config *c, int layer) {
  (void)layer;
  return c->q_a_norm ? c->q_rank : 0;
}

static int64_t cache(const reference_config *c, int layer) {
  (void)layer;
  return 2 * c->head_dim;
}

static const tried with_experts[] = {{"'q_a_norm': true", "'head_dim': 8"}, {0}};

static const tried long_texts[] = {
    {"'qk_norm': true, 'q_a_norm': true", "'head_dim': 40"},
    {0},
};

static const tried learns[] = {{"'q_lora_rank': 16, 'q_a_norm': true, 'qk_norm': true", ""}, {0}};

static void combinations(combination_list *list) {
  static const char *const knocking[] = {
      "",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
      "'knocking': {'type': 'gate', 'on': ['q', 'v']}",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}",
      NULL};
  add_factored_combinations(list, "mfa", knocking);
}

const tested_mechanism tested_mfa = {
    .name = "mfa",
    .one_key = true,
    .complete = complete_factored_query,
    .attention = attention,
    .projections = projections,
    .others = others,
    .cache = cache,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"mfa", 2 * 32}, {"mfa:64", 2 * 64}},
};
