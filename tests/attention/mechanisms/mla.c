/* Latent attention (1.3) and its embedding gate (2.5): the definition, and combinations of dense and latent queries,
 * knocking, layer groups, positions and odd shapes. */
#include <math.h>
#include <string.h>

#include "latents_apart.h"
#include "mechanism.h"

/* Returns the queries [length][heads][n + r]. The first n dims are knocked, all are normed, and the last r are
   rotated. */
static double *latent_queries(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t n = c->nope, dim = c->nope + c->rotary, width = c->heads * dim;
  double *q;
  if (c->q_rank > 0) {
    double *a = reference_project(run, "q_a_proj", x, c->hidden, c->q_rank);
    reference_rmsnorm(a, run->length, c->q_rank,
                      reference_vector(run, "self_attn.q_a_layernorm.weight", c->q_rank), c->eps);
    q = reference_project(run, "q_b_proj", a, c->q_rank, width);
  } else {
    q = reference_project(run, "q_proj", x, c->hidden, width);
  }
  double *plain = reference_zeros(run, run->length * c->heads * n);
  for (int64_t i = 0; i < run->length * c->heads; i++)
    memcpy(plain + i * n, q + i * dim, (size_t)n * sizeof *q);
  plain = reference_knocked(run, 'q', plain, c->heads, n);
  for (int64_t i = 0; i < run->length * c->heads; i++)
    memcpy(q + i * dim, plain + i * n, (size_t)n * sizeof *q);
  reference_qk_norm(run, 'q', q, c->heads, dim);
  reference_rope(run, q, c->heads, dim, c->rotary);
  return q;
}

/* Applies EG-MLA eqs. 1-14 up to the norm: gates kv [length][heads * (n + v)] by the tokens' embeddings. */
static void embedding_gate(reference_run *run, double *kv) {
  const reference_config *c = run->config;
  if (c->gate_dim == 0) return;
  int64_t width = c->heads * (c->nope + c->values);
  const double *table = reference_matrix(run, "self_attn.kv_gate_embed.weight", c->vocab, c->gate_dim);
  double *rows = reference_zeros(run, run->length * c->gate_dim);
  for (int64_t t = 0; t < run->length; t++)
    memcpy(rows + t * c->gate_dim, table + run->tokens[t] * c->gate_dim, (size_t)c->gate_dim * sizeof *rows);
  const double *projection = reference_projection(run, "kv_gate_proj", width, c->gate_dim);
  const double *gate = reference_apply(run, rows, c->gate_dim, projection, width);
  for (int64_t i = 0; i < run->length * width; i++) kv[i] = c->gate_adds ? kv[i] + gate[i] : kv[i] * gate[i];
}

/* Splits `joined` into a and b of each head, or with `back` joins them. */
static void part_heads(const reference_run *run, double *joined, double *a, int64_t a_width, double *b,
                       int64_t b_width, int64_t heads, bool back) {
  for (int64_t i = 0; i < run->length * heads; i++) {
    double *row = joined + i * (a_width + b_width);
    memcpy(back ? row : a + i * a_width, back ? a + i * a_width : row, (size_t)a_width * sizeof *row);
    memcpy(back ? row + a_width : b + i * b_width, back ? b + i * b_width : row + a_width,
           (size_t)b_width * sizeof *row);
  }
}

/* Returns keys and values of all heads, expanded from the latent, knocked and gated: [length][heads][n + v]. */
static double *expanded(reference_run *run, const double *latent) {
  const reference_config *c = run->config;
  int64_t n = c->nope, v = c->values;
  double *kv = reference_project(run, "kv_b_proj", latent, c->latent, c->heads * (n + v));
  double *keys = reference_zeros(run, run->length * c->heads * n),
         *values = reference_zeros(run, run->length * c->heads * v);
  part_heads(run, kv, keys, n, values, v, c->heads, false);
  keys = reference_knocked(run, 'k', keys, c->heads, n);
  values = reference_knocked(run, 'v', values, c->heads, v);
  part_heads(run, kv, keys, n, values, v, c->heads, true);
  embedding_gate(run, kv);
  return kv;
}

/* Returns the keys [length][heads][n + r]: dims of each head, then the rotary key of all heads. With a QK norm, whole
   keys are normed, then rotated. */
static double *whole_keys(reference_run *run, const double *plain, const double *rotary) {
  const reference_config *c = run->config;
  int64_t n = c->nope, r = c->rotary, dim = n + r;
  double *k = reference_zeros(run, run->length * c->heads * dim);
  for (int64_t t = 0; t < run->length; t++)
    for (int64_t h = 0; h < c->heads; h++) {
      double *key = k + (t * c->heads + h) * dim;
      memcpy(key, plain + (t * c->heads + h) * n, (size_t)n * sizeof *key);
      memcpy(key + n, rotary + t * r, (size_t)r * sizeof *key);
    }
  if (!c->qk_norm) return k;
  reference_qk_norm(run, 'k', k, c->heads, dim);
  reference_rope(run, k, c->heads, dim, r);
  return k;
}

/* Sets the latents and the rotary key of a group of layers. The cache stores each latent with its rotary key. */
static void latent_states(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t length = run->length, r = c->rotary;
  double *both = reference_project(run, "kv_a_proj_with_mqa", x, c->hidden, c->latent + r);
  double *latent = reference_zeros(run, length * c->latent), *rotary = reference_zeros(run, length * r);
  part_heads(run, both, latent, c->latent, rotary, r, 1, false);
  reference_rmsnorm(latent, length, c->latent,
                    reference_vector(run, "self_attn.kv_a_layernorm.weight", c->latent), c->eps);
  if (!c->qk_norm) reference_rope(run, rotary, 1, r, r); /* else whole_keys rotates after its norm */
  run->group_exact = reference_zeros(run, length * c->latent);
  memcpy(run->group_exact, latent, (size_t)(length * c->latent) * sizeof *latent);
  part_heads(run, both, latent, c->latent, rotary, r, 1, true);
  reference_append(run, "latent", both, c->latent + r);
  part_heads(run, both, latent, c->latent, rotary, r, 1, false);
  run->group_latent = latent;
  run->group_rotary = rotary;
}

/* Computes keys and values by the layer's kv_b_proj, knocking and gate. The moments of the gate's norm are computed
   from latents that the cache has not rounded. */
static void latent_keys_values(reference_run *run) {
  const reference_config *c = run->config;
  int64_t length = run->length, n = c->nope, v = c->values, width = c->heads * (n + v);
  double *before = expanded(run, run->group_exact), *kv = expanded(run, run->group_latent);
  if (c->gate_dim > 0 && c->gate_norm)
    reference_layernorm_of(before, kv, length, width,
                           reference_vector(run, "self_attn.kv_gate_norm.weight", width),
                           reference_vector(run, "self_attn.kv_gate_norm.bias", width), 1e-5);
  double *plain = reference_zeros(run, length * c->heads * n);
  run->group_values = reference_zeros(run, length * c->heads * v);
  part_heads(run, kv, plain, n, run->group_values, v, c->heads, false);
  run->group_keys = whole_keys(run, plain, run->group_rotary);
}

static bool leads(const reference_config *c, int layer) {
  return layer % c->group_size == 0;
}

static bool expands(const reference_config *c, int layer) {
  return c->group_expands || leads(c, layer);
}

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t dim = c->nope + c->rotary;
  bool apart = latents_are_apart(c);
  if (leads(c, run->layer) && apart) {
    keys_apart(run, x);
    values_apart(run, x);
    run->group_keys = whole_keys(run, run->group_keys, run->group_rotary);
  } else if (leads(c, run->layer))
    latent_states(run, x);
  if (expands(c, run->layer) && !apart) latent_keys_values(run);
  double *q = latent_queries(run, x);
  double *context = reference_attend(run, c->heads, q, run->group_keys, dim, run->group_values, c->values,
                                     1 / sqrt((double)dim));
  reference_head_norm(run, context, c->heads, c->values);
  return reference_project(run, "o_proj", context, c->heads * c->values, c->hidden);
}

static void complete(reference_config *c) {
  c->key_dim = c->nope;
  c->qk_norm_dim = c->nope + c->rotary;
  c->value_dim = c->context_dim = c->values;
}

static int projections(const reference_config *c, int layer, projection_shape shapes[MOST_PROJECTIONS]) {
  int64_t D = c->hidden, query = c->heads * (c->nope + c->rotary), up = c->heads * (c->nope + c->values);
  int n = 0;
  if (c->q_rank) {
    shapes[n++] = (projection_shape){"q_a_proj", c->q_rank, D};
    shapes[n++] = (projection_shape){"q_b_proj", query, c->q_rank};
  } else
    shapes[n++] = (projection_shape){"q_proj", query, D};
  shapes[n++] = (projection_shape){"o_proj", D, c->heads * c->values};
  if (latents_are_apart(c)) return leads(c, layer) ? n + projections_apart(c, shapes + n) : n;
  if (leads(c, layer)) shapes[n++] = (projection_shape){"kv_a_proj_with_mqa", c->latent + c->rotary, D};
  if (!expands(c, layer)) return n;
  shapes[n++] = (projection_shape){"kv_b_proj", up, c->latent};
  if (c->gate_dim) shapes[n++] = (projection_shape){"kv_gate_proj", up, c->gate_dim};
  return n;
}

static int64_t others(const reference_config *c, int layer) {
  int64_t up = c->heads * (c->nope + c->values);
  return c->q_rank + (leads(c, layer) ? c->latent + c->key_latent + c->value_latent : 0) +
         (expands(c, layer) && c->gate_dim && c->gate_norm ? 2 * up : 0);
}

static int64_t cache(const reference_config *c, int layer) {
  if (leads(c, layer) && latents_are_apart(c)) return cache_apart(c);
  return leads(c, layer) ? c->latent + c->rotary : 0;
}

static int64_t shared_latent_dim(const reference_config *c) {
  return latents_are_apart(c) ? shared_dim_apart(c) : c->latent;
}

static const tried with_experts[] = {
    {"'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5, "
     "'gate_embedding_dim': 3, 'layer_group_size': 2",
     "'position': 'rope'"},
    {"'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5, "
     "'gate_embedding_dim': 3, 'layer_group_size': 2, 'layer_group_shares': 'latent'",
     "'position': 'rope'"},
    {0},
};

#define WIDE "'kv_lora_rank': 20, 'qk_nope_head_dim': 24, 'qk_rope_head_dim': 8, 'v_head_dim': 18"
/* Latents so wide that passes with many queries expand keys and values. */
#define RICH "'kv_lora_rank': 40, 'qk_nope_head_dim': 10, 'qk_rope_head_dim': 8, 'v_head_dim': 12"
#define KNOCKED "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"

#define LATENTS ", 'layer_group_size': 2, 'layer_group_shares': 'latent'"

static const tried long_texts[] = {
    {"'k_lora_rank': 20, 'v_lora_rank': 40, 'qk_nope_head_dim': 24, 'qk_rope_head_dim': 8, 'v_head_dim': 18",
     ""},
    {"'k_lora_rank': 40, 'qk_nope_head_dim': 10, 'qk_rope_head_dim': 8, 'v_head_dim': 12, " KNOCKED, ""},
    {WIDE ", " KNOCKED, ""},
    {WIDE ", 'q_lora_rank': 12, 'layer_group_size': 2", "'position': 'alibi'"},
    {WIDE, "'rope_interleaved': true"},
    {RICH ", " KNOCKED, ""},
    {RICH ", 'layer_group_size': 2, 'q_lora_rank': 12", "'position': 'alibi'"},
    {RICH ", 'qk_norm': true, 'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}", ""},
    {WIDE LATENTS ", 'q_lora_rank': 12", "'position': 'alibi'"},
    {RICH LATENTS ", " KNOCKED, ""},
    {WIDE LATENTS ", 'gate_embedding_dim': 8", "'vocab_size': 70"},
    {WIDE ", 'gate_embedding_dim': 8, " KNOCKED, ""},
    {WIDE ", 'gate_embedding_dim': 8", "'vocab_size': 300"},
    {WIDE ", 'gate_embedding_dim': 8, 'gate_norm': false, 'layer_group_size': 2", "'vocab_size': 70"},
    {WIDE ", 'gate_embedding_dim': 8, 'gate_op': 'add'", "'vocab_size': 40, 'position': 'none'"},
    {0},
};

#define SMALL "'kv_lora_rank': 12, 'qk_nope_head_dim': 8, 'qk_rope_head_dim': 4, 'v_head_dim': 8"

static const tried learns[] = {
    {"'k_lora_rank': 12, 'v_lora_rank': 16, 'qk_nope_head_dim': 8, 'qk_rope_head_dim': 4, 'v_head_dim': 8",
     ""},
    {"'v_lora_rank': 12, 'qk_nope_head_dim': 8, 'qk_rope_head_dim': 4, 'v_head_dim': 8, " KNOCKED, ""},
    {SMALL ", 'q_lora_rank': 16, 'layer_group_size': 2", ""},
    {SMALL ", 'qk_norm': true, " KNOCKED, ""},
    {SMALL ", 'gate_embedding_dim': 8", ""},
    {SMALL LATENTS ", 'gate_embedding_dim': 8", ""},
    {SMALL ", 'gate_embedding_dim': 8, 'gate_op': 'add', " KNOCKED, ""},
    {0},
};

#define OWN "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}"
#define LATENT_OF(z) ", 'layer_group_size': " #z ", 'layer_group_shares': 'latent'"
#define DIMS "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"

static void combinations(combination_list *list) {
  static const char *const queries[] = {DIMS, DIMS ", 'q_lora_rank': 9", DIMS ", 'head_norm': true", NULL};
  static const char *const knocking[] = {"",
                                         "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
                                         "'knocking': {'type': 'linear', 'on': ['q']}",
                                         "'knocking': {'type': 'linear', 'on': ['k']}",
                                         "'knocking': {'type': 'linear', 'on': ['v']}",
                                         NULL};
  static const char *const sizes[] = {"", "'position': 'alibi'", "'position': 'none'",
                                      "'rope_interleaved': true", NULL};
  crossing attention[15];
  int count = cross(queries, knocking, attention, 15);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (i < 5 || size == sizes + i % 4) add_combination(list, *size, "mla", attention[i].text);

  /* Separate latents of keys and values. test_combinations_mla_apart.c has more of them. */
  static const char apart[] =
      "'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5, 'v_lora_rank': 7";
  crossing both[2];
  count =
      cross((const char *const[]){apart, NULL}, (const char *const[]){"", "'k_lora_rank': 9", NULL}, both, 2);
  for (int i = 0; i < count; i++) add_combination(list, "", "mla", both[i].text);

  /* Groups of layers with one latent. The last group is shorter. */
  static const char *const groups[] = {DIMS ", 'layer_group_size': 2",
                                       DIMS ", 'layer_group_size': 2, 'q_lora_rank': 9",
                                       DIMS ", 'layer_group_size': 3, 'head_norm': true", NULL};
  count = cross(groups, knocking, attention, 15);
  for (int i = 0; i < count; i++) add_combination(list, "'num_hidden_layers': 3", "mla", attention[i].text);
  add_combination(list, "'num_hidden_layers': 5, 'position': 'alibi'", "mla", DIMS ", 'layer_group_size': 2");

  /* Knocking with a map for each head, also in groups of layers. */
  static const char *const own[] = {DIMS ", " OWN, DIMS ", 'head_norm': true, 'q_lora_rank': 9, " OWN,
                                    DIMS ", 'layer_group_size': 2, " OWN, NULL};
  for (int i = 0; own[i]; i++)
    for (const char *const *size = sizes; *size; size++)
      if (i == 0 || size == sizes + i) add_combination(list, *size, "mla", own[i]);
  add_combination(list, "", "mla", DIMS ", 'gate_embedding_dim': 3, " OWN);

  /* The QK norm of whole keys, for which latents are expanded. */
  static const char *const normed[] = {
      DIMS ", 'qk_norm': true",
      DIMS ", 'qk_norm': true, 'q_lora_rank': 9, 'knocking': {'type': 'linear', 'on': "
           "['q', 'k', 'v']}",
      DIMS ", 'qk_norm': true, 'head_norm': true, 'layer_group_size': 2, " OWN,
      DIMS ", 'qk_norm': true, 'gate_embedding_dim': 3", NULL};
  for (int i = 0; normed[i]; i++)
    for (const char *const *size = sizes; *size; size++) add_combination(list, *size, "mla", normed[i]);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'num_hidden_layers': 3", "mla", normed[2]);
  add_combination_of(list, 3, 1, "", "mla", normed[0]);
  /* Groups of layers that share only the latent. */
  static const char *const latents[] = {DIMS LATENT_OF(2), DIMS LATENT_OF(2) ", 'q_lora_rank': 9",
                                        DIMS LATENT_OF(3) ", 'head_norm': true", NULL};
  count = cross(latents, knocking, attention, 15);
  for (int i = 0; i < count; i++) add_combination(list, "'num_hidden_layers': 3", "mla", attention[i].text);
  add_combination(list, "'num_hidden_layers': 5, 'position': 'alibi'", "mla", DIMS LATENT_OF(2));
  add_combination(list, "'num_hidden_layers': 3, 'rope_interleaved': true", "mla", DIMS LATENT_OF(3));
  /* Sink logits, of which each layer has its own. */
  add_combination(list, "'num_hidden_layers': 3", "mla", DIMS ", 'sink_logits': true, 'layer_group_size': 3");
  add_combination(list, "'num_hidden_layers': 3, 'sliding_window': 3, 'attention_sinks': 1", "mla",
                  DIMS LATENT_OF(2) ", 'sink_logits': true");

  const char *everything = DIMS ", 'q_lora_rank': 3, 'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}";
  add_combination_of(list, 3, 1, "", "mla", everything);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'hidden_act': 'gelu'", "mla", everything);
  add_combination_of(list, 1, 9, "'num_attention_heads': 1, 'tie_word_embeddings': false", "mla", everything);
  add_combination(list, "'num_attention_heads': 3", "mla",
                  "'kv_lora_rank': 21, 'qk_nope_head_dim': 1, 'qk_rope_head_dim': 2, 'v_head_dim': 9, "
                  "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}");
  add_combination(list,
                  "'rope_theta': 30.0, "
                  "'rope_scaling': {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, "
                  "'high_freq_factor': 2.0, "
                  "'original_max_position_embeddings': 8}",
                  "mla", DIMS);
  add_combination(list, "'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}", "mla", DIMS);
}

const tested_mechanism tested_mla = {
    .name = "mla",
    .complete = complete,
    .attention = attention,
    .projections = projections,
    .others = others,
    .cache = cache,
    .shared_latent_dim = shared_latent_dim,
    .absorbs_latents = true,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"mla", 8 * 16 / 4 + 8}, {"mla:48", 48 + 8}, {"egmla", 16 + 8}, {"egmla:32", 32 + 8}},
};
