/* Tests matrices shared across layers combined with modules, biases, experts, positions, odd shapes and long texts. */
#include <stdio.h>

#include "harness/combinations.h"

#define LATENT "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"
#define ALL "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"
#define MEA "'head_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}"
#define GROUPED "'num_hidden_layers': 3, 'num_key_value_heads': 2, 'head_dim': 6"
#define QKVO "'projections': ['q', 'k', 'v', 'o']"
#define EXPERTS "'moe': {'experts': 4, 'active': 2, 'shared': 1, 'expert_intermediate_size': 6}"

static const char *const sources[] = {"'sharing': {'type': 'masa', " QKVO ", 'atoms': 2}",
                                      "'sharing': {'type': 'masa', " QKVO
                                      ", 'atoms': 2, 'coefficients': 'mlp', 'common_dictionary': true}",
                                      "'sharing': {'type': 'sequential', " QKVO ", 'atoms': 2}",
                                      "'sharing': {'type': 'repeat', " QKVO ", 'atoms': 2}",
                                      "'sharing': {'type': 'low_rank', " QKVO ", 'rank': 4}",
                                      NULL};

/* Adds the modules of mechanisms by head, with every way of sharing. */
static void add_modules(combination_list *list) {
  static const struct {
    const char *sizes, *type, *attention;
  } cases[] = {
      {GROUPED, "gqa", "'qk_norm': true, " MEA ", 'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}"},
      {GROUPED, "gqa", MEA},
      {GROUPED, "gqa", MEA ", " ALL},
      {GROUPED ", 'attention_bias': true", "gqa", "'qk_norm': true, " ALL},
      {GROUPED, "gqa", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}"},
      {GROUPED ", 'attention_bias': true, 'position': 'alibi'", "gqa", MEA ", " ALL},
      {GROUPED ", " EXPERTS, "gqa", "'knocking': {'type': 'gate', 'on': ['v']}"},
      {GROUPED ", 'position': 'none', 'tie_word_embeddings': false", "gqa",
       "'head_mix': {'on': ['k', 'v'], 'component_heads': 3}, " ALL},
      {GROUPED, "diff", "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}, " ALL},
      {GROUPED ", 'hidden_act': 'gelu'", "diff", "'diff_lambda': 'per_pair', 'head_norm': false"},
      {"'num_hidden_layers': 3, 'head_dim': 5, 'position': 'alibi'", "talking",
       "'mix_weights': false, 'qk_norm': true, " ALL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *const sizes[] = {cases[i].sizes, NULL};
    crossing texts[8];
    int count = cross(sizes, sources, texts, 8);
    for (int s = 0; s < count; s++) add_combination(list, texts[s].text, cases[i].type, cases[i].attention);
  }
}

/* Adds mechanisms with other names of projections. */
static void add_others(combination_list *list) {
  static const struct {
    const char *sizes, *type, *attention, *projections;
  } cases[] = {
      {"'num_key_value_heads': 2, 'head_dim': 8", "gta",
       "'head_norm': true, 'head_mix': {'on': ['v'], 'component_heads': 1}, 'knocking': {'type': 'mlp', "
       "'on': ['v']}",
       "'q', 'kv_proj', 'o'"},
      {"'position': 'alibi'", "mla", LATENT ", 'head_norm': true, " ALL, "'q', 'kv_b_proj', 'o'"},
      {"'rope_interleaved': true", "mla", LATENT ", 'gate_embedding_dim': 3, " ALL, "'kv_b_proj'"},
      {"'vocab_size': 3", "mla", LATENT ", 'gate_embedding_dim': 3, 'gate_op': 'add', 'gate_norm': false",
       "'kv_gate_proj', 'kv_b_proj'"},
      {"", "mla", LATENT ", 'q_lora_rank': 3, 'layer_group_size': 2, " ALL, "'q_a_proj', 'q_b_proj'"},
      {"", "mla",
       LATENT ", 'gate_embedding_dim': 3, 'layer_group_size': 2, 'layer_group_shares': 'latent', " ALL,
       "'kv_b_proj', 'kv_gate_proj', 'o'"},
      {"'head_dim': 10, " EXPERTS, "mfa",
       "'q_lora_rank': 5, 'q_a_norm': true, 'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
       "'q_a_proj', 'q_b_proj', 'k', 'o'"},
      {"'head_dim': 7, 'position': 'alibi'", "mfa_kr",
       "'q_a_norm': true, 'qk_norm': true, "
       "'knocking': {'type': 'linear', 'on': ['q', 'k']}",
       "'q_b_proj', 'k', 'v_reuse'"},
  };
  static const char *const kinds[] = {"'type': 'masa', 'atoms': 2",
                                      "'type': 'masa', 'atoms': 2, 'coefficients': 'mlp'",
                                      "'type': 'repeat', 'atoms': 2", "'type': 'low_rank', 'rank': 4", NULL};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (const char *const *kind = kinds; *kind; kind++) {
      char sharing[200];
      crossing sizes[1];
      snprintf(sharing, sizeof sharing, "'num_hidden_layers': 3, 'sharing': {%s, 'projections': [%s]}", *kind,
               cases[i].projections);
      cross((const char *const[]){cases[i].sizes, NULL}, (const char *const[]){sharing, NULL}, sizes, 1);
      add_combination(list, sizes[0].text, cases[i].type, cases[i].attention);
    }
}

/* Adds a single token, one head of two dims, odd sizes, and a text longer than a block of states. */
static void add_shapes(combination_list *list) {
  for (const char *const *source = sources; *source; source++) {
    static const struct {
      int64_t sequences, length;
      const char *sizes, *attention;
    } shapes[] = {
        {3, 1, "'num_key_value_heads': 2", "'qk_norm': true"},
        {1, 2, "'num_attention_heads': 1, 'head_dim': 2", ""},
        {3, 9, "'num_attention_heads': 3, 'num_key_value_heads': 1, 'head_dim': 10, 'hidden_size': 13", ALL},
        {1, 143, "'num_key_value_heads': 2, 'head_dim': 24, 'max_position_embeddings': 256", MEA},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
      const char *const sizes[] = {shapes[i].sizes, NULL}, *const one[] = {*source, NULL};
      crossing text[1];
      cross(sizes, one, text, 1);
      add_combination_of(list, shapes[i].sequences, shapes[i].length, text[0].text, "gqa",
                         shapes[i].attention);
    }
  }
}

int main(void) {
  static combination_list list;
  add_modules(&list);
  add_others(&list);
  add_shapes(&list);
  /* Mixed heads in one layer, with as many components as heads, so that the projection has one shape in all layers. */
  add_combination(&list, GROUPED ", 'sharing': {'type': 'masa', " QKVO ", 'atoms': 2}", "gqa",
                  "'head_mix': {'on': ['k', 'v'], 'component_heads': 2, 'layers': [1, 1]}");
  return run_combinations(&list);
}
