/* Mixture-of-Head: the definition, and combinations of shared and chosen heads, modules, all positions and odd
 * shapes. */
#include <math.h>

#include "mechanism.h"

/* Passes x through the layer's matrix `name` [n, D] and returns factor * softmax: [length][n]. */
static double *softmax_of(reference_run *run, const char *name, const double *x, int64_t n, double factor) {
  const reference_config *c = run->config;
  double *y = reference_apply(run, x, c->hidden, reference_matrix(run, name, n, c->hidden), n);
  for (int64_t t = 0; t < run->length; t++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(y[t * n + i]);
    for (int64_t i = 0; i < n; i++) y[t * n + i] = factor * exp(y[t * n + i]) / sum;
  }
  return y;
}

/* Multiplies the k largest values by k over their sum, and sets the others to 0. */
static void keep_largest(double *p, int64_t n, int64_t k) {
  bool kept[64] = {false};
  double sum = 0;
  for (int64_t j = 0; j < k; j++) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
      if (!kept[i] && (best < 0 || p[i] > p[best])) best = i;
    kept[best] = true;
    sum += p[best];
  }
  for (int64_t i = 0; i < n; i++) p[i] = kept[i] ? (double)k * p[i] / sum : 0;
}

/* Returns the weights of all heads [length][heads]. */
static double *weights_of(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t s = c->shared_heads, routed = c->heads - s;
  double *p = softmax_of(run, "self_attn.head_gate.routed.weight", x, routed, 1),
         *g = reference_zeros(run, run->length * c->heads), *u = NULL, *stage = NULL;
  if (s > 1) u = softmax_of(run, "self_attn.head_gate.shared.weight", x, s, (double)s);
  if (s > 0) stage = softmax_of(run, "self_attn.head_gate.stage.weight", x, 2, 2);
  for (int64_t t = 0; t < run->length; t++) {
    keep_largest(p + t * routed, routed, c->active_heads);
    for (int64_t h = 0; h < s; h++) g[t * c->heads + h] = stage[2 * t] * (u ? u[t * s + h] : 1);
    for (int64_t i = 0; i < routed; i++)
      g[t * c->heads + s + i] = p[t * routed + i] * (stage ? stage[2 * t + 1] : 1);
  }
  return g;
}

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim;
  double *q, *k, *v;
  reference_queries_keys_values(run, x, &q, &k, &v);
  double *context =
      reference_attend_apart(run, c->key_groups, q, k, d, c->value_groups, v, d, 1 / sqrt((double)d));
  reference_exclude(run, context, v, d);
  reference_head_norm(run, context, c->heads, d);
  const double *g = weights_of(run, x);
  for (int64_t i = 0; i < run->length * c->heads * d; i++) context[i] *= g[i / d];
  return reference_project(run, "o_proj", context, c->heads * d, c->hidden);
}

static int64_t others(const reference_config *c, int layer) {
  (void)layer;
  int64_t s = c->shared_heads;
  return c->hidden * (c->heads - s + (s >= 2 ? s : 0) + (s >= 1 ? 2 : 0));
}

#define GROUPED "'num_key_value_heads': 2"
#define SIX "'num_attention_heads': 6, 'num_key_value_heads': 3, 'head_dim': 6"
#define FEW_COMPONENTS "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}"
#define ALL "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"
#define CHOSEN "'shared_heads': 1, 'active_heads': 2"

static const tried with_experts[] = {
    {CHOSEN ", 'qk_norm': true", GROUPED}, {"'active_heads': 3, 'exclusive': true", GROUPED}, {0}};

static const tried long_texts[] = {{CHOSEN, GROUPED ", 'head_dim': 24"},
                                   {"'active_heads': 2, 'exclusive': true, " FEW_COMPONENTS,
                                    GROUPED ", 'head_dim': 24, 'position': 'alibi'"},
                                   {0}};

static const tried learns[] = {{CHOSEN ", 'qk_norm': true, 'head_norm': true", GROUPED},
                               {"'active_heads': 4", GROUPED},
                               {"'shared_heads': 2, 'active_heads': 1, 'balance_coefficient': 0", GROUPED},
                               {0}};

static void combinations(combination_list *list) {
  static const char *const choices[] = {"'active_heads': 4", CHOSEN, "'shared_heads': 2, 'active_heads': 1",
                                        "'shared_heads': 3, 'active_heads': 3", NULL};
  static const char *const modules[] = {"",
                                        "'qk_norm': true, 'head_norm': true",
                                        ALL,
                                        "'knocking': {'type': 'mlp', 'on': ['v']}",
                                        FEW_COMPONENTS,
                                        "'exclusive': true, 'head_mix': {'on': ['v'], 'component_heads': 4}",
                                        NULL};
  static const char *const sizes[] = {SIX, SIX ", 'position': 'alibi'", SIX ", 'position': 'none'",
                                      SIX ", 'rope_interleaved': true, 'attention_bias': true", NULL};
  crossing attention[24];
  int count = cross(choices, modules, attention, 24);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3) add_combination(list, *size, "moh", attention[i].text);
  add_combination(list, "'head_dim': 6", "moh", CHOSEN ", 'num_key_heads': 2, 'num_value_heads': 4");
  add_combination(list, GROUPED ", 'num_hidden_layers': 4", "moh",
                  CHOSEN ", 'kv_layer_group': 2, 'qk_norm': true");
  add_combination_of(list, 3, 1, GROUPED, "moh", CHOSEN);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'head_dim': 10, 'hidden_act': 'gelu'", "moh",
                     "'active_heads': 2, 'exclusive': true");
}

const tested_mechanism tested_moh = {
    .name = "moh",
    .attention = attention,
    .projections = reference_projections_by_head,
    .others = others,
    .cache = reference_cache_by_head,
    .absorbs_mixes = true,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"moh", 2 * 2 * 16}, {"moh:4", 2 * 4 * 16}},
};
