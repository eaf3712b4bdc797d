/* Tests mla with separate latents for keys and values, or for one of them: with dense and latent queries, knocking,
 * groups of layers, positions, shared matrices, and passes that absorb keys or values and expand the other. */
#include <stdio.h>

#include "harness/combinations.h"

#define DIMS "'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"
#define BOTH "'k_lora_rank': 7, 'v_lora_rank': 9, " DIMS
#define KEYS "'k_lora_rank': 7, " DIMS
#define VALUES "'k_lora_rank': 0, 'v_lora_rank': 9, " DIMS
#define KNOCKED "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"

static void add_forms(combination_list *list) {
  static const char *const forms[] = {BOTH, KEYS, VALUES, NULL};
  static const char *const modules[] = {"",
                                        KNOCKED,
                                        "'knocking': {'type': 'linear', 'on': ['k']}, 'head_norm': true",
                                        "'knocking': {'type': 'linear', 'on': ['v']}, 'q_lora_rank': 9",
                                        "'layer_group_size': 2, " KNOCKED,
                                        NULL};
  static const char *const sizes[] = {"'num_hidden_layers': 3", "'position': 'alibi'", "'position': 'none'",
                                      "'rope_interleaved': true", NULL};
  crossing attention[15];
  int count = cross(forms, modules, attention, 15);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (i % 5 < 2 || size == sizes + i % 4 || size == sizes)
        add_combination(list, *size, "mla", attention[i].text);
}

/* Adds sink logits. Every layer has its own, even if it reads keys and values of the first layer of its group. */
static void add_sinks(combination_list *list) {
  static const char *const forms[] = {BOTH, KEYS, VALUES, NULL};
  static const char *const modules[] = {"'sink_logits': true, 'layer_group_size': 2",
                                        "'sink_logits': true, 'layer_group_size': 3, 'qk_norm': true",
                                        "'sink_logits': true, 'layer_group_size': 3, " KNOCKED, NULL};
  static const char *const windows[] = {"", "'sliding_window': 3, 'attention_sinks': 1"};
  crossing attention[9];
  int count = cross(forms, modules, attention, 9);
  for (int i = 0; i < count; i++) {
    char sizes[96];
    snprintf(sizes, sizeof sizes, "'num_hidden_layers': 3%s%s", i % 2 ? ", " : "", windows[i % 2]);
    add_combination(list, sizes, "mla", attention[i].text);
  }
}

/* Adds the QK norm, whose keys are never absorbed, and knocking with a map for each head. */
static void add_normed(combination_list *list) {
  static const char *const forms[] = {BOTH, KEYS, VALUES, NULL};
  static const char *const modules[] = {
      "'qk_norm': true", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}",
      "'qk_norm': true, 'layer_group_size': 2, 'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], "
      "'per_head': true}",
      NULL};
  crossing attention[9];
  int count = cross(forms, modules, attention, 9);
  for (int i = 0; i < count; i++) add_combination(list, "'num_hidden_layers': 3", "mla", attention[i].text);
}

static void add_shapes(combination_list *list) {
  const char *everything = BOTH ", 'q_lora_rank': 3, " KNOCKED;
  add_combination_of(list, 3, 1, "", "mla", everything);
  add_combination_of(list, 3, 7, "'num_attention_heads': 3, 'hidden_act': 'gelu'", "mla", everything);
  add_combination_of(list, 1, 9, "'num_attention_heads': 1, 'tie_word_embeddings': false", "mla", KEYS);
  add_combination_of(list, 1, 9, "'num_attention_heads': 1", "mla", VALUES);
  add_combination(list, "'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}", "mla", KEYS);
  add_combination(list, "'moe': {'experts': 4, 'active': 2, 'expert_intermediate_size': 8}", "mla", VALUES);
  /* Texts longer than a block, with latents of several vectors, and with latents so wide that passes expand keys or
     values. */
  static const char *const wide[] = {"'k_lora_rank': 20, 'v_lora_rank': 36",
                                     "'k_lora_rank': 36",
                                     "'v_lora_rank': 20",
                                     "'k_lora_rank': 12, 'v_lora_rank': 200",
                                     "'k_lora_rank': 200, 'v_lora_rank': 12",
                                     NULL};
  static const char *const dims[] = {
      "'qk_nope_head_dim': 24, 'qk_rope_head_dim': 8, 'v_head_dim': 18",
      "'qk_nope_head_dim': 16, 'qk_rope_head_dim': 16, 'v_head_dim': 16, " KNOCKED, NULL};
  crossing attention[10];
  int count = cross(wide, dims, attention, 10);
  for (int i = 0; i < count; i++)
    add_combination_of(list, 1 + i % 2, 140, i % 3 ? "" : "'position': 'alibi'", "mla", attention[i].text);
}

static void add_shared(combination_list *list) {
  add_combination(
      list,
      "'sharing': {'type': 'masa', 'projections': ['q', 'k_a_proj_with_mqa', 'k_b_proj', 'v_a_proj', "
      "'v_b_proj', 'o'], 'atoms': 2}",
      "mla", BOTH);
  add_combination(
      list, "'sharing': {'type': 'repeat', 'projections': ['k', 'k_rope_proj', 'v_b_proj'], 'atoms': 1}",
      "mla", VALUES);
  add_combination(list, "'sharing': {'type': 'low_rank', 'projections': ['v', 'k_b_proj'], 'rank': 2}", "mla",
                  KEYS);
}

int main(void) {
  static combination_list list;
  add_forms(&list);
  add_sinks(&list);
  add_normed(&list);
  add_shapes(&list);
  add_shared(&list);
  return run_combinations(&list);
}
