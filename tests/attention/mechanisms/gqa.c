/* Grouped-query attention (1.1): the definition, and combinations of knocking, norms, all positions and odd
 * shapes. */
#include <stdio.h>

#include "mechanism.h"

static double *attention(reference_run *run, const double *x) {
  const reference_config *c = run->config;
  int64_t d = c->head_dim;
  double *q, *k, *v;
  reference_queries_keys_values(run, x, &q, &k, &v);
  double *context =
      reference_attend_apart(run, c->key_groups, q, k, d, c->value_groups, v, d, c->score_scale);
  reference_exclude(run, context, v, d);
  reference_head_norm(run, context, c->heads, d);
  return reference_project(run, "o_proj", context, c->heads * d, c->hidden);
}

static const tried with_experts[] = {
    {"'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}", "'num_key_value_heads': 2"},
    {"'head_mix': {'on': ['k', 'v'], 'component_heads': 1}", "'num_key_value_heads': 2"},
    {"'exclusive': true", "'num_key_value_heads': 2"},
    {0},
};

#define WIDE "'num_key_value_heads': 2, 'head_dim': 24"
#define FEW_COMPONENTS "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}"

static const tried long_texts[] = {
    {"'qk_norm': true, 'head_norm': true, 'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}", WIDE},
    {"", WIDE ", 'position': 'alibi'"},
    {FEW_COMPONENTS, WIDE},
    {"'qk_norm': true, " FEW_COMPONENTS, WIDE},
    {"'qk_norm': true, " FEW_COMPONENTS ", 'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
     WIDE ", 'position': 'alibi'"},
    {"'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}, 'knocking': {'type': 'mlp', "
     "'on': ['k', 'v']}",
     "'num_key_value_heads': 4, 'head_dim': 20"},
    {"'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}, 'knocking': {'type': 'mlp', "
     "'on': ['q', 'k', 'v'], 'per_head': true}",
     "'num_key_value_heads': 4, 'head_dim': 20"},
    {"'num_key_heads': 1, 'num_value_heads': 2", "'head_dim': 24"},
    {"'exclusive': true", WIDE},
    {"'exclusive': true, " FEW_COMPONENTS ", 'knocking': {'type': 'linear', 'on': ['v']}", WIDE},
    {"", WIDE ", 'moe': {'experts': 6, 'active': 2, 'shared': 1, 'expert_intermediate_size': 12}"},
    {0},
};

#define GROUPED "'num_key_value_heads': 2"

static const tried learns[] = {
    {"'num_key_heads': 1, 'num_value_heads': 4", ""},
    {"'qk_norm': true, 'head_norm': true", GROUPED},
    {"'exclusive': true", GROUPED},
    {"'exclusive': true, 'head_norm': true", GROUPED},
    {"'head_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}", GROUPED},
    {"'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}", GROUPED},
    {"'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}", GROUPED},
    {"'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'decay_to_identity': true}", GROUPED},
    {"'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}", GROUPED},
    {"'knocking': {'type': 'gate', 'on': ['v']}", GROUPED},
    {"'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true, 'decay_to_identity': true}",
     GROUPED},
    {"'knocking': {'type': 'mlp', 'on': ['v'], 'per_head': true}", GROUPED},
    {0},
};

static const char *const positions[] = {"", "'position': 'alibi'", "'position': 'none'", NULL};

static void add_plain(combination_list *list) {
  static const char *const norms[] = {"", "'qk_norm': true", "'head_norm': true",
                                      "'qk_norm': true, 'head_norm': true", NULL};
  for (const char *const *position = positions; *position; position++)
    for (const char *const *norm = norms; *norm; norm++) {
      crossing sizes[1];
      cross((const char *const[]){"'num_key_value_heads': 2, 'head_dim': 6", 0},
            (const char *const[]){*position, 0}, sizes, 1);
      add_combination(list, sizes[0].text, "gqa", *norm);
    }
}

static void add_knocking(combination_list *list) {
  static const char *const knocking[] = {
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'knocking': {'type': 'linear', 'on': ['k']}",
      "'knocking': {'type': 'mlp', 'on': ['v']}",
      "'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}",
      "'knocking': {'type': 'gate', 'on': ['v']}",
      "'knocking': {'type': 'gate', 'on': ['q', 'k']}",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}",
      "'knocking': {'type': 'mlp', 'on': ['v'], 'per_head': true}",
      "'knocking': {'type': 'gate', 'on': ['q', 'k'], 'per_head': true}",
      NULL};
  static const char *const norms[] = {"", "'qk_norm': true", "'qk_norm': true, 'head_norm': true", NULL};
  crossing attention[27];
  int count = cross(knocking, norms, attention, 27);
  for (int i = 0; i < count; i++)
    for (const char *const *position = positions; *position; position++) {
      crossing sizes[1];
      cross((const char *const[]){"'num_key_value_heads': 2, 'head_dim': 6", 0},
            (const char *const[]){*position, 0}, sizes, 1);
      /* all positions for one entry in three, else RoPE and one other position */
      if (i % 3 != 0 && **position && position != positions + 1 + i % 2) continue;
      add_combination(list, sizes[0].text, "gqa", attention[i].text);
    }
}

static void add_shapes(combination_list *list) {
  const char *everything =
      "'qk_norm': true, 'head_norm': true, 'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}";
  add_combination_of(list, 3, 1, "'num_key_value_heads': 2", "gqa", everything);
  add_combination_of(list, 1, 2, "'num_key_value_heads': 4", "gqa", everything);
  add_combination_of(list, 3, 9, "'num_attention_heads': 3, 'num_key_value_heads': 1, 'head_dim': 10", "gqa",
                     everything);
  add_combination_of(list, 2, 7, "'num_attention_heads': 3, 'head_dim': 7, 'position': 'alibi'", "gqa",
                     everything);
  add_combination_of(list, 2, 7,
                     "'num_attention_heads': 6, 'num_key_value_heads': 3, 'head_dim': 1, 'position': 'none'",
                     "gqa", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}");
  add_combination_of(list, 1, 9, "'num_attention_heads': 1, 'head_dim': 2, 'num_hidden_layers': 1", "gqa",
                     everything);
  add_combination(list, "'num_key_value_heads': 2, 'rope_interleaved': true, 'tie_word_embeddings': false",
                  "gqa", everything);
  add_combination(list, "'num_key_value_heads': 2, 'attention_bias': true, 'hidden_act': 'gelu'", "gqa",
                  everything);
  add_combination(list, "'num_key_value_heads': 2, 'num_hidden_layers': 4, 'attention_bias': true", "gqa",
                  "'kv_layer_group': 2, 'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['q', 'v']}");
  add_combination(list,
                  "'num_key_value_heads': 1, 'rope_theta': 100.0, 'rms_norm_eps': 0.01, 'hidden_size': 24",
                  "gqa", everything);
  add_combination(list,
                  "'num_key_value_heads': 2, 'head_dim': 8, 'rope_theta': 30.0, "
                  "'rope_scaling': {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, "
                  "'high_freq_factor': 2.0, "
                  "'original_max_position_embeddings': 8}",
                  "gqa", everything);
  add_combination(list,
                  "'num_key_value_heads': 2, 'head_dim': 8, "
                  "'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}",
                  "gqa", everything);
}

/* Adds variants that model families of other programs use, such as partial RoPE, multipliers and norms of branches. */
static void add_families(combination_list *list) {
  static const struct {
    const char *shape, *attention;
  } tried_ones[] = {
      {"'norm_placement': 'branch'", "'qk_norm': true, 'qk_norm_over': 'all'"},
      {"'norm_placement': 'both', 'head_dim': 8, 'partial_rotary_factor': 0.5, 'rope_interleaved': true", ""},
      {"'head_dim': 10, 'partial_rotary_factor': 0.6, 'attention_bias': true, 'attention_output_bias': true",
       "'qk_norm': true, " FEW_COMPONENTS},
      {"'head_dim': 8, 'partial_rotary_factor': 0.25, 'parallel_residual': true, 'norm': 'layernorm'",
       FEW_COMPONENTS},
      {"'embedding_multiplier': 3.0, 'residual_multiplier': 0.3, 'attention_multiplier': 0.4, "
       "'logits_scaling': 2.5, 'tie_word_embeddings': true",
       "'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}"},
      {"'nope_layers': [0], 'head_dim': 8, 'norm_placement': 'both', 'norm': 'layernorm'",
       "'qk_norm': true, 'qk_norm_over': 'all', 'head_norm': true"},
      {"'nope_layers': [1], 'attention_multiplier': 1.5", FEW_COMPONENTS},
      {"'position': 'learned', 'hidden_act': 'gelu_tanh', 'mlp_bias': true, 'norm': 'layernorm', "
       "'max_position_embeddings': 40",
       ""},
      {"'hidden_act': 'geglu_tanh', 'norm_placement': 'branch', 'residual_multiplier': 2.0", ""},
      {"'local_rope_theta': 30.0, 'local_rope_layers': [0], 'head_dim': 6, "
       "'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}",
       FEW_COMPONENTS},
      {"'local_rope_theta': 100.0, 'local_rope_layers': [1], 'head_dim': 8, 'partial_rotary_factor': 0.5",
       ""},
  };
  for (size_t i = 0; i < sizeof tried_ones / sizeof *tried_ones; i++) {
    char shape[400];
    snprintf(shape, sizeof shape, "'num_key_value_heads': 2, %s", tried_ones[i].shape);
    add_combination(list, shape, "gqa", tried_ones[i].attention);
  }
}

/* Adds feed-forward networks and norms of every kind. */
static void add_networks(combination_list *list) {
  static const char *const shapes[] = {
      "'hidden_act': 'geglu'",
      "'hidden_act': 'relu', 'mlp_bias': true",
      "'hidden_act': 'reglu', 'norm': 'layernorm'",
      "'hidden_act': 'relu2', 'norm_placement': 'post'",
      "'hidden_act': 'relu2_glu', 'mlp_bias': true",
      "'mlp_bias': true, 'norm': 'layernorm', 'norm_placement': 'post', 'layer_norm_eps': 0.01",
      "'hidden_act': 'gelu', 'mlp_bias': true, 'norm': 'layernorm', 'tie_word_embeddings': false",
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) add_combination(list, shapes[i], "gqa", "");
}

/* Adds exclusive attention, also with mixed and knocked values. */
static void add_exclusive(combination_list *list) {
  static const char *const modules[] = {"'exclusive': true",
                                        "'exclusive': true, 'qk_norm': true",
                                        "'exclusive': true, 'head_norm': true",
                                        "'exclusive': true, 'knocking': {'type': 'mlp', 'on': ['v']}",
                                        "'exclusive': true, 'knocking': {'type': 'linear', 'on': ['q', 'v']}",
                                        "'exclusive': true, " FEW_COMPONENTS,
                                        "'exclusive': true, 'head_mix': {'on': ['v'], 'component_heads': 3}",
                                        NULL};
  for (const char *const *module = modules; *module; module++)
    for (const char *const *position = positions; *position; position++) {
      crossing sizes[1];
      cross((const char *const[]){"'num_key_value_heads': 2, 'head_dim': 6", 0},
            (const char *const[]){*position, 0}, sizes, 1);
      add_combination(list, sizes[0].text, "gqa", *module);
    }
  add_combination(list, "'head_dim': 6, 'attention_bias': true", "gqa",
                  "'exclusive': true, 'num_key_heads': 4, 'num_value_heads': 2");
  add_combination_of(list, 3, 1, "'num_key_value_heads': 1", "gqa", "'exclusive': true");
}

static void combinations(combination_list *list) {
  add_exclusive(list);
  add_combination(list, "'head_dim': 6", "gqa", "'num_key_heads': 2, 'num_value_heads': 4, 'qk_norm': true");
  add_plain(list);
  add_families(list);
  add_networks(list);
  add_knocking(list);
  add_shapes(list);
}

const tested_mechanism tested_gqa = {
    .name = "gqa",
    .attention = attention,
    .projections = reference_projections_by_head,
    .cache = reference_cache_by_head,
    .absorbs_mixes = true,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"mha", 2 * 8 * 16}, {"gqa", 2 * 2 * 16}, {"gqa:4", 2 * 4 * 16}, {"mqa", 2 * 16}},
};
