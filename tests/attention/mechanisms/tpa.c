/* Tensor product attention: the definition, and combinations of ranks, fixed factors, all positions and odd shapes. */
#include <math.h>
#include <stdio.h>

#include "mechanism.h"

/* Returns one factor over heads [length][heads][rank]. A fixed factor is a parameter, equal for all tokens. */
static double *over_heads(reference_run *run, char which, int64_t rank, const double *x) {
  const reference_config *c = run->config;
  char name[40];
  int64_t width = c->heads * rank;
  if (!c->ranks.fixed) {
    snprintf(name, sizeof name, "a_%c_proj", which);
    return reference_project(run, name, x, c->hidden, width);
  }
  snprintf(name, sizeof name, "self_attn.a_%c.weight", which);
  const double *fixed = reference_matrix(run, name, c->heads, rank);
  double *a = reference_zeros(run, run->length * width);
  for (int64_t i = 0; i < run->length * width; i++) a[i] = fixed[i % width];
  return a;
}

/* Returns the heads [length][heads][d] of 'q', 'k' or 'v'. With `kept`, the factors pass through the simulated
   cache. */
static double *heads_of(reference_run *run, char which, int64_t rank, const double *x, bool kept) {
  const reference_config *c = run->config;
  char name[40];
  int64_t d = c->head_dim;
  snprintf(name, sizeof name, "b_%c_proj", which);
  double *a = over_heads(run, which, rank, x), *b = reference_project(run, name, x, c->hidden, rank * d),
         *y = reference_zeros(run, run->length * c->heads * d);
  if (which != 'v') reference_rope(run, b, rank, d, d);
  snprintf(name, sizeof name, "a_%c", which);
  if (kept && !c->ranks.fixed) reference_append(run, name, a, c->heads * rank);
  name[0] = 'b';
  if (kept) reference_append(run, name, b, rank * d);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++)
      for (int64_t r = 0; r < rank; r++)
        for (int64_t i = 0; i < d; i++)
          y[(t * c->heads + h) * d + i] +=
              a[(t * c->heads + h) * rank + r] * b[(t * rank + r) * d + i] / (double)rank;
  return y;
}

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim;
  double *q;
  if (c->ranks.q)
    q = heads_of(run, 'q', c->ranks.q, x, false);
  else {
    q = reference_project(run, "q_proj", x, c->hidden, c->heads * d);
    reference_rope(run, q, c->heads, d, d);
  }
  double *k = heads_of(run, 'k', c->ranks.k, x, true), *v = heads_of(run, 'v', c->ranks.v, x, true);
  double *context = reference_attend(run, c->heads, q, k, d, v, d, 1 / sqrt((double)d));
  reference_head_norm(run, context, c->heads, d);
  return reference_project(run, "o_proj", context, c->heads * d, c->hidden);
}

static int projections(const reference_config *c, int layer, projection_shape shapes[MOST_PROJECTIONS]) {
  (void)layer;
  static const char *const names[3][2] = {
      {"a_q_proj", "b_q_proj"}, {"a_k_proj", "b_k_proj"}, {"a_v_proj", "b_v_proj"}};
  const int64_t ranks[] = {c->ranks.q, c->ranks.k, c->ranks.v};
  int n = 0;
  for (int i = 0; i < 3; i++) {
    if (!ranks[i]) shapes[n++] = (projection_shape){"q_proj", c->heads * c->head_dim, c->hidden};
    if (ranks[i] && !c->ranks.fixed)
      shapes[n++] = (projection_shape){names[i][0], c->heads * ranks[i], c->hidden};
    if (ranks[i]) shapes[n++] = (projection_shape){names[i][1], ranks[i] * c->head_dim, c->hidden};
  }
  shapes[n++] = (projection_shape){"o_proj", c->hidden, c->heads * c->head_dim};
  return n;
}

static int64_t others(const reference_config *c, int layer) {
  (void)layer;
  return c->ranks.fixed ? c->heads * (c->ranks.q + c->ranks.k + c->ranks.v) : 0;
}

static int64_t cache(const reference_config *c, int layer) {
  (void)layer;
  return (c->ranks.k + c->ranks.v) * ((c->ranks.fixed ? 0 : c->heads) + c->head_dim);
}

static int64_t shared_latent_dim(const reference_config *c) {
  return c->ranks.k * c->head_dim;
}

#define RANKS "'q_rank': 3, 'k_rank': 2, 'v_rank': 2"
#define ODD "'q_rank': 1, 'k_rank': 3, 'v_rank': 1"
#define FIXED ", 'a_factors': 'fixed'"

static const tried with_experts[] = {{RANKS, "'head_dim': 6"}, {RANKS FIXED, "'head_dim': 6"}, {0}};

static const tried long_texts[] = {{RANKS, "'head_dim': 24"},
                                   {"'k_rank': 4, 'v_rank': 1", "'head_dim': 24, 'position': 'alibi'"},
                                   {ODD ", 'head_norm': true", "'head_dim': 36, 'num_attention_heads': 18"},
                                   {RANKS FIXED, "'head_dim': 24"},
                                   {0}};

static const tried learns[] = {{"'k_rank': 2, 'v_rank': 2, 'head_norm': true", ""}, {RANKS FIXED, ""}, {0}};

static void combinations(combination_list *list) {
  static const char *const ranks[] = {RANKS,
                                      ODD,
                                      "'k_rank': 1, 'v_rank': 5",
                                      "'q_rank': 2, 'k_rank': 4, 'v_rank': 2",
                                      RANKS FIXED,
                                      ODD FIXED,
                                      "'q_rank': 0, 'k_rank': 2, 'v_rank': 3" FIXED,
                                      NULL};
  static const char *const norms[] = {"", "'head_norm': true", NULL};
  static const char *const sizes[] = {"'head_dim': 6", "'head_dim': 5, 'position': 'alibi'",
                                      "'head_dim': 3, 'position': 'none'",
                                      "'head_dim': 8, 'rope_interleaved': true", NULL};
  crossing attention[14];
  int count = cross(ranks, norms, attention, 14);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (i < 4 || size == sizes + i % 4) add_combination(list, *size, "tpa", attention[i].text);
  add_combination_of(list, 3, 1, "'head_dim': 4", "tpa", RANKS);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'head_dim': 10, 'hidden_act': 'gelu'", "tpa",
                     RANKS);
  add_combination_of(list, 1, 9, "'num_attention_heads': 1, 'head_dim': 2, 'num_hidden_layers': 1", "tpa",
                     ODD);
  add_combination(list, "'num_attention_heads': 17, 'head_dim': 2", "tpa", RANKS);
}

const tested_mechanism tested_tpa = {
    .name = "tpa",
    .attention = attention,
    .projections = projections,
    .others = others,
    .cache = cache,
    .shared_latent_dim = shared_latent_dim,
    .reads_factors = true,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"tpa", 4 * (8 + 16)}, {"tpa:1", 2 * (8 + 16)}},
};
