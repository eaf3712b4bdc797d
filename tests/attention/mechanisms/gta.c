/* Grouped-tied attention (1.2): the definition, and combinations of mixed and knocked heads, all positions and odd
 * shapes. t_g is the value, and its first half is the first half of the key. */
#include <math.h>

#include "mechanism.h"

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim, half = d / 2;
  double *q = reference_queries(run, x);
  reference_rope(run, q, c->heads, d, half);
  double *tied = reference_values(run, "kv_proj", "kv", x);
  double *rotary = reference_project(run, "k_rope_proj", x, c->hidden, half);
  if (!c->qk_norm) reference_rope(run, rotary, 1, half, half);
  reference_append(run, "k_rope", rotary, half);
  double *k = reference_zeros(run, run->length * c->groups * d);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t g = 0; g < c->groups; g++)
      for (int64_t i = 0; i < d; i++)
        k[(t * c->groups + g) * d + i] =
            i < half ? tied[(t * c->groups + g) * d + i] : rotary[t * half + i - half];
  if (c->qk_norm) { /* normalises whole keys before RoPE */
    reference_qk_norm(run, 'k', k, c->groups, d);
    reference_rope(run, k, c->groups, d, half);
  }
  double *context = reference_attend(run, c->groups, q, k, d, tied, d, 1 / sqrt((double)d));
  reference_head_norm(run, context, c->heads, d);
  return reference_project(run, "o_proj", context, c->heads * d, c->hidden);
}

static int projections(const reference_config *c, int layer, projection_shape shapes[MOST_PROJECTIONS]) {
  int64_t D = c->hidden, d = c->head_dim;
  shapes[0] = (projection_shape){"q_proj", c->heads * d, D};
  shapes[1] = (projection_shape){"kv_proj", reference_component_heads(c, 'v', layer) * d, D};
  shapes[2] = (projection_shape){"k_rope_proj", d / 2, D};
  shapes[3] = (projection_shape){"o_proj", D, c->heads * d};
  return 4;
}

static int64_t cache(const reference_config *c, int layer) {
  return reference_cached_heads(c, 'v', layer) * c->head_dim + c->head_dim / 2;
}

static const tried with_experts[] = {
    {"'knocking': {'type': 'linear', 'on': ['v']}", "'num_key_value_heads': 2"},
    {0},
};

static const tried long_texts[] = {
    {"'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}", "'num_key_value_heads': 2, 'head_dim': 24"},
    {"", "'num_key_value_heads': 2, 'head_dim': 24"},
    {"'head_norm': true, 'head_mix': {'on': ['v'], 'component_heads': 1}, 'knocking': {'type': 'mlp', 'on': "
     "['v']}",
     "'num_key_value_heads': 2, 'head_dim': 24, 'position': 'alibi'"},
    {0},
};

static const tried learns[] = {
    {"'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}", "'num_key_value_heads': 2"},
    {"'knocking': {'type': 'mlp', 'on': ['v']}", "'num_key_value_heads': 2"},
    {"'head_mix': {'on': ['v'], 'component_heads': 1}", "'num_key_value_heads': 2"},
    {0},
};

static void combinations(combination_list *list) {
  static const char *const sizes[] = {"'num_key_value_heads': 2, 'head_dim': 8",
                                      "'num_key_value_heads': 2, 'head_dim': 8, 'position': 'alibi'",
                                      "'num_key_value_heads': 2, 'head_dim': 8, 'position': 'none'", NULL};
  static const char *const mixes[] = {"", "'head_mix': {'on': ['v'], 'component_heads': 1}",
                                      "'head_norm': true, 'head_mix': {'on': ['v'], 'component_heads': 3}",
                                      NULL};
  static const char *const knocking[] = {"",
                                         "'knocking': {'type': 'linear', 'on': ['q', 'v']}",
                                         "'knocking': {'type': 'mlp', 'on': ['v']}",
                                         "'knocking': {'type': 'mlp', 'on': ['q', 'v']}",
                                         "'knocking': {'type': 'gate', 'on': ['v']}",
                                         "'knocking': {'type': 'linear', 'on': ['q', 'v'], 'per_head': true}",
                                         "'knocking': {'type': 'mlp', 'on': ['v'], 'per_head': true}",
                                         NULL};
  crossing attention[21];
  int count = cross(mixes, knocking, attention, 21);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      add_combination(list, *size, "gta", attention[i].text);

  static const char *const normed[] = {
      "'qk_norm': true", "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['q', 'v']}",
      "'qk_norm': true, 'head_mix': {'on': ['v'], 'component_heads': 1}, 'knocking': {'type': 'linear', "
      "'on': ['q', "
      "'v']}",
      "'qk_norm': true, 'head_norm': true, 'head_mix': {'on': ['v'], 'component_heads': 3}", NULL};
  for (int i = 0; normed[i]; i++)
    for (const char *const *size = sizes; *size; size++) add_combination(list, *size, "gta", normed[i]);
  add_combination(list, "'num_key_value_heads': 2, 'head_dim': 8, 'rope_interleaved': true", "gta",
                  normed[0]);
  add_combination_of(list, 3, 1, "'head_dim': 4", "gta", normed[0]);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'num_key_value_heads': 1, 'head_dim': 12", "gta",
                     normed[1]);

  const char *everything = "'head_norm': true, 'head_mix': {'on': ['v'], 'component_heads': [1, 2, 4]}, "
                           "'knocking': {'type': 'linear', 'on': ['q', 'v']}";
  add_combination(list, "'num_key_value_heads': 2, 'num_hidden_layers': 3, 'head_dim': 4", "gta", everything);
  add_combination(list,
                  "'num_key_value_heads': 4, 'num_hidden_layers': 3, 'rope_interleaved': true, 'head_dim': 8",
                  "gta", everything);
  add_combination_of(list, 3, 1, "'head_dim': 4", "gta", "'head_norm': true");
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'num_key_value_heads': 1, 'head_dim': 12", "gta",
                     "'head_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}");
  add_combination_of(list, 1, 9, "'num_attention_heads': 3, 'head_dim': 6, 'position': 'alibi'", "gta",
                     "'head_mix': {'on': ['v'], 'component_heads': 2}");
  add_combination(list,
                  "'head_dim': 16, 'rope_theta': 30.0, "
                  "'rope_scaling': {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, "
                  "'high_freq_factor': 2.0, "
                  "'original_max_position_embeddings': 8}",
                  "gta", "");
}

const tested_mechanism tested_gta = {
    .name = "gta",
    .attention = attention,
    .projections = projections,
    .cache = cache,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"gta", 2 * 16 + 8}, {"gta:4", 4 * 16 + 8}},
};
