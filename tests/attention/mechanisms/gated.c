/* Gated attention: the definition, and combinations of norms, knocking, mixed heads, all positions, biases and odd
 * shapes. */
#include <math.h>

#include "mechanism.h"

/* Computes grouped-query attention (1.1), and multiplies each of its H d numbers by a sigmoid of a projection of x. */
static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim, width = c->heads * d;
  double *q, *k, *v;
  reference_queries_keys_values(run, x, &q, &k, &v);
  double *context =
      reference_attend_apart(run, c->key_groups, q, k, d, c->value_groups, v, d, 1 / sqrt((double)d));
  reference_exclude(run, context, v, d);
  reference_head_norm(run, context, c->heads, d);
  const double *gate = reference_project(run, "g_proj", x, c->hidden, width);
  for (int64_t i = 0; i < run->length * width; i++) context[i] *= reference_sigmoid(gate[i]);
  return reference_project(run, "o_proj", context, width, c->hidden);
}

static int projections(const reference_config *c, int layer, projection_shape shapes[MOST_PROJECTIONS]) {
  int count = reference_projections_by_head(c, layer, shapes);
  shapes[count++] = (projection_shape){"g_proj", c->heads * c->head_dim, c->hidden};
  return count;
}

#define GROUPED "'num_key_value_heads': 2"
#define WIDE GROUPED ", 'head_dim': 24"
#define FEW_COMPONENTS "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}"
#define ALL "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"

static const tried with_experts[] = {
    {"'qk_norm': true", GROUPED},
    {FEW_COMPONENTS ", 'head_norm': true", GROUPED},
    {0},
};

static const tried long_texts[] = {
    {"", WIDE},
    {"'qk_norm': true, 'head_norm': true, " ALL, WIDE ", 'position': 'alibi'"},
    {FEW_COMPONENTS, WIDE},
    {0},
};

static const tried learns[] = {
    {"'num_key_heads': 4, 'num_value_heads': 2", ""},
    {"'qk_norm': true, 'head_norm': true", GROUPED},
    {FEW_COMPONENTS, GROUPED},
    {"'knocking': {'type': 'mlp', 'on': ['v']}", GROUPED},
    {0},
};

static void combinations(combination_list *list) {
  static const char *const norms[] = {"", "'qk_norm': true", "'head_norm': true",
                                      "'qk_norm': true, 'head_norm': true", NULL};
  static const char *const modules[] = {"",
                                        ALL,
                                        "'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
                                        "'knocking': {'type': 'gate', 'on': ['q', 'v']}",
                                        FEW_COMPONENTS,
                                        "'head_mix': {'on': ['k', 'v'], 'component_heads': 3}",
                                        "'head_mix': {'on': ['v'], 'component_heads': 1}, " ALL,
                                        NULL};
  static const char *const sizes[] = {
      GROUPED ", 'head_dim': 6", GROUPED ", 'head_dim': 5, 'position': 'alibi'",
      GROUPED ", 'head_dim': 3, 'position': 'none'", GROUPED ", 'rope_interleaved': true", NULL};
  add_combination(list, "'head_dim': 6", "gated", "'num_value_heads': 1");
  crossing attention[28];
  int count = cross(norms, modules, attention, 28);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3)
        add_combination(list, *size, "gated", attention[i].text);

  add_combination(list, GROUPED, "gated", "'exclusive': true, 'qk_norm': true, " ALL);
  const char *everything = "'qk_norm': true, 'head_norm': true, 'head_mix': {'on': ['k', 'v'], "
                           "'component_heads': [1, 2, 5]}, " ALL;
  add_combination(list, GROUPED ", 'num_hidden_layers': 3, 'attention_bias': true", "gated", everything);
  add_combination(list, "'num_key_value_heads': 1, 'attention_bias': true, 'tie_word_embeddings': false",
                  "gated", ALL);
  add_combination(list, GROUPED ", 'num_hidden_layers': 4", "gated",
                  "'kv_layer_group': 2, 'qk_norm': true, " ALL);
  add_combination_of(list, 3, 1, GROUPED, "gated", "");
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'head_dim': 10, 'hidden_act': 'gelu'", "gated",
                     "'head_norm': true");
  add_combination_of(list, 1, 9, "'num_attention_heads': 1, 'head_dim': 2, 'num_hidden_layers': 1", "gated",
                     "");
}

const tested_mechanism tested_gated = {
    .name = "gated",
    .attention = attention,
    .projections = projections,
    .cache = reference_cache_by_head,
    .absorbs_mixes = true,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"gated", 2 * 2 * 16}, {"gated:4", 2 * 4 * 16}},
};
