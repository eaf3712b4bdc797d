/* Collaborative heads (field section 6): the definition, and combinations of content biases, knocking of values, all
 * positions and odd shapes. */
#include <math.h>
#include <string.h>

#include "mechanism.h"

/* Returns the keys [length][D~], or with content biases, keys and the biases of all heads [length][D~ + H]. */
static double *keys_of(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t shared = c->shared_qk, d = c->head_dim, width = shared + (c->content_bias ? c->heads : 0);
  double *k = reference_project(run, "k_proj", x, c->hidden, shared);
  if (c->position == REFERENCE_ROPE) reference_rope(run, k, shared / d, d, d);
  double *both = reference_zeros(run, run->length * width);
  const double *bias =
      c->content_bias ? reference_matrix(run, "self_attn.content_bias.weight", c->heads, c->hidden) : NULL;
  for (int64_t t = 0; t < run->length; t++) {
    memcpy(both + t * width, k + t * shared, (size_t)shared * sizeof *k);
    for (int64_t h = 0; bias && h < c->heads; h++)
      for (int64_t i = 0; i < c->hidden; i++)
        both[t * width + shared + h] += bias[h * c->hidden + i] * x[t * c->hidden + i];
  }
  reference_append(run, "k", both, width);
  return both;
}

/* Returns the queries [length][heads][D~]. */
static double *queries_of(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t shared = c->shared_qk, d = c->head_dim;
  double *q = reference_project(run, "q_proj", x, c->hidden, shared),
         *all = reference_zeros(run, run->length * c->heads * shared);
  const double *mixing = reference_matrix(run, "self_attn.mixing.weight", c->heads, shared);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++)
      for (int64_t i = 0; i < shared; i++)
        all[(t * c->heads + h) * shared + i] = q[t * shared + i] * mixing[h * shared + i];
  if (c->position == REFERENCE_ROPE) reference_rope(run, all, c->heads * shared / d, d, d);
  return all;
}

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t shared = c->shared_qk, d = c->head_dim, width = shared + (c->content_bias ? c->heads : 0);
  double *q = queries_of(run, x), *k = keys_of(run, x), *v = reference_values(run, "v_proj", "v", x);
  double *context = reference_zeros(run, run->length * c->heads * d),
         *scores = reference_zeros(run, run->length), *query = reference_zeros(run, width);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++) {
      memset(query, 0, (size_t)width * sizeof *query);
      memcpy(query, q + (t * c->heads + h) * shared, (size_t)shared * sizeof *query);
      if (c->content_bias) query[shared + h] = 1; /* adds the head's bias u_h . x_j */
      reference_scores(run, h, t, query, k, width, width, 1 / sqrt((double)d), scores);
      double factor = reference_sink_factor(run, h, reference_softmax(run, t, scores));
      reference_gather(run, t, scores, factor, v + h * c->groups / c->heads * d, c->groups * d, d,
                       context + (t * c->heads + h) * d);
    }
  reference_head_norm(run, context, c->heads, d);
  return reference_project(run, "o_proj", context, c->heads * d, c->hidden);
}

static int projections(const reference_config *c, int layer, projection_shape shapes[MOST_PROJECTIONS]) {
  (void)layer;
  shapes[0] = (projection_shape){"q_proj", c->shared_qk, c->hidden};
  shapes[1] = (projection_shape){"k_proj", c->shared_qk, c->hidden};
  shapes[2] = (projection_shape){"v_proj", c->groups * c->head_dim, c->hidden};
  shapes[3] = (projection_shape){"o_proj", c->hidden, c->heads * c->head_dim};
  return 4;
}

static int64_t others(const reference_config *c, int layer) {
  (void)layer;
  return c->heads * c->shared_qk + (c->content_bias ? c->heads * c->hidden : 0);
}

static int64_t cache(const reference_config *c, int layer) {
  (void)layer;
  return c->shared_qk + c->groups * c->head_dim + (c->content_bias ? c->heads : 0);
}

static int64_t total_effective_rank(const reference_config *c) {
  return c->heads * c->shared_qk;
}

static int64_t shared_latent_dim(const reference_config *c) {
  return c->shared_qk;
}

#define BIAS ", 'content_bias': true"
#define KNOCKED "'knocking': {'type': 'linear', 'on': ['v']}"

static const tried with_experts[] = {
    {"'shared_qk_dim': 8, " KNOCKED, "'head_dim': 4, 'num_key_value_heads': 2"},
    {"'shared_qk_dim': 8" BIAS, "'head_dim': 4"},
    {0},
};

static const tried long_texts[] = {
    {"'shared_qk_dim': 48", "'head_dim': 24"},
    {"'shared_qk_dim': 24, 'head_norm': true" BIAS, "'head_dim': 24, 'num_key_value_heads': 2"},
    {"'shared_qk_dim': 20" BIAS, "'head_dim': 12, 'num_key_value_heads': 1, 'position': 'alibi'"},
    {0},
};

static const tried learns[] = {
    {"'shared_qk_dim': 16" BIAS, "'num_key_value_heads': 2"},
    {"'shared_qk_dim': 16, 'head_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}", ""},
    {0},
};

static void combinations(combination_list *list) {
  static const char *const widths[] = {"'shared_qk_dim': 12", "'shared_qk_dim': 24, 'head_norm': true",
                                       "'shared_qk_dim': 12" BIAS, NULL};
  static const char *const knocking[] = {"",
                                         KNOCKED,
                                         "'knocking': {'type': 'mlp', 'on': ['v']}",
                                         "'knocking': {'type': 'gate', 'on': ['v']}",
                                         "'knocking': {'type': 'linear', 'on': ['v'], 'per_head': true}",
                                         NULL};
  static const char *const sizes[] = {"'head_dim': 6",
                                      "'head_dim': 6, 'num_key_value_heads': 2",
                                      "'head_dim': 5, 'num_key_value_heads': 1, 'position': 'alibi'",
                                      "'head_dim': 3, 'num_key_value_heads': 2, 'position': 'none'",
                                      "'head_dim': 4, 'rope_interleaved': true",
                                      NULL};
  crossing attention[15];
  int count = cross(widths, knocking, attention, 15);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (i % 5 == 0 || size == sizes + i % 5)
        add_combination(list, *size, "collaborative", attention[i].text);
  add_combination_of(list, 3, 1, "'head_dim': 4", "collaborative", "'shared_qk_dim': 4" BIAS);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'head_dim': 10, 'hidden_act': 'gelu'",
                     "collaborative", "'shared_qk_dim': 10" BIAS);
}

const tested_mechanism tested_collaborative = {
    .name = "collaborative",
    .attention = attention,
    .projections = projections,
    .others = others,
    .cache = cache,
    .total_effective_rank = total_effective_rank,
    .shared_latent_dim = shared_latent_dim,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"collab", 3 * 16 + 8 * 16}, {"collab:32", 32 + 8 * 16}},
};
