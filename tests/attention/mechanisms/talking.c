/* Talking heads: the definition, and combinations of one mix or both, norms, knocking, positions and odd shapes. */
#include <math.h>

#include "mechanism.h"

/* Returns mixed[h][j] = sum_i mix[h, i] rows[i][j] for the keys j that query t sees. rows is [heads][length]. Returns
   `rows` itself if `on` is false. */
static double *mix_rows(reference_run *run, const char *name, bool on, double *rows, int64_t t) {
  if (!on) return rows;
  int64_t heads = run->config->heads, length = run->length;
  const double *mix = reference_matrix(run, name, heads, heads);
  double *mixed = reference_zeros(run, heads * length);
  for (int64_t h = 0; h < heads; h++)
    for (int64_t i = 0; i < heads; i++)
      for (int64_t j = 0; j <= reference_last(run, t); j++)
        mixed[h * length + j] += mix[h * heads + i] * rows[i * length + j];
  return mixed;
}

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim, length = run->length;
  double *q, *k, *v;
  reference_queries_keys_values(run, x, &q, &k, &v);
  double *context = reference_zeros(run, length * c->heads * d);
  for (int64_t t = 0; t < length; t++) {
    double *rows = reference_zeros(run, c->heads * length);
    for (int64_t h = 0; h < c->heads; h++)
      reference_scores(run, h, t, q + (t * c->heads + h) * d, k + h * d, c->heads * d, d, 1 / sqrt((double)d),
                       rows + h * length);
    rows = mix_rows(run, "self_attn.logit_mix.weight", c->mix_logits, rows, t);
    for (int64_t h = 0; h < c->heads; h++) reference_softmax(run, t, rows + h * length);
    rows = mix_rows(run, "self_attn.weight_mix.weight", c->mix_weights, rows, t);
    for (int64_t h = 0; h < c->heads; h++)
      reference_gather(run, t, rows + h * length, 1, v + h * d, c->heads * d, d,
                       context + (t * c->heads + h) * d);
  }
  reference_head_norm(run, context, c->heads, d);
  return reference_project(run, "o_proj", context, c->heads * d, c->hidden);
}

static int64_t others(const reference_config *c, int layer) {
  (void)layer;
  return ((c->mix_logits ? 1 : 0) + (c->mix_weights ? 1 : 0)) * c->heads * c->heads;
}

static const tried with_experts[] = {{"", "'position': 'alibi'"}, {0}};

static const tried long_texts[] = {
    {"'qk_norm': true", "'head_dim': 18"},
    {"'mix_weights': false", "'head_dim': 18, 'position': 'alibi'"},
    {0},
};

static const tried learns[] = {{"'mix_weights': false", ""}, {0}};

static void combinations(combination_list *list) {
  static const char *const mixes[] = {"", "'mix_logits': false", "'mix_weights': false",
                                      "'mix_logits': false, 'mix_weights': false", NULL};
  static const char *const modules[] = {
      "", "'qk_norm': true, 'head_norm': true", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k', 'v']}", NULL};
  static const char *const sizes[] = {"'head_dim': 6", "'head_dim': 5, 'position': 'alibi'",
                                      "'head_dim': 3, 'position': 'none'", NULL};
  crossing attention[16];
  int count = cross(mixes, modules, attention, 16);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      add_combination(list, *size, "talking", attention[i].text);
  add_combination_of(list, 3, 1, "", "talking", "");
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'head_dim': 4, 'position': 'alibi'", "talking",
                     "'knocking': {'type': 'gate', 'on': ['q', 'v']}");
  add_combination_of(list, 1, 9, "'num_attention_heads': 1, 'head_dim': 2, 'rope_interleaved': true",
                     "talking", "");
  add_combination(list, "'num_attention_heads': 5, 'head_dim': 4, 'attention_bias': true", "talking", "");
}

const tested_mechanism tested_talking = {
    .name = "talking",
    .attention = attention,
    .projections = reference_projections_by_head,
    .others = others,
    .cache = reference_cache_by_head,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"talking", 2 * 8 * 16}},
};
