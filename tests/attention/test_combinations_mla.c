/* Latent attention: dense and factorised queries, knocking, layer groups, every position, odd shapes. */
#include "harness/combinations.h"

#define DIMS "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"

int main(void) {
  static combination_list list;
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
      if (i < 5 || size == sizes + i % 4) add_combination(&list, *size, "mla", attention[i].text);

  /* Layers that share their latent, the last group short. */
  static const char *const groups[] = {DIMS ", 'layer_group_size': 2",
                                       DIMS ", 'layer_group_size': 2, 'q_lora_rank': 9",
                                       DIMS ", 'layer_group_size': 3, 'head_norm': true", NULL};
  count = cross(groups, knocking, attention, 15);
  for (int i = 0; i < count; i++) add_combination(&list, "'num_hidden_layers': 3", "mla", attention[i].text);
  add_combination(&list, "'num_hidden_layers': 5, 'position': 'alibi'", "mla",
                  DIMS ", 'layer_group_size': 2");

  const char *everything = DIMS ", 'q_lora_rank': 3, 'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}";
  add_combination_of(&list, 3, 1, "", "mla", everything);
  add_combination_of(&list, 3, 7, "'num_attention_heads': 3, 'hidden_act': 'gelu'", "mla", everything);
  add_combination_of(&list, 1, 9, "'num_attention_heads': 1, 'tie_word_embeddings': false", "mla",
                     everything);
  add_combination(&list, "'num_attention_heads': 3", "mla",
                  "'kv_lora_rank': 21, 'qk_nope_head_dim': 1, 'qk_rope_head_dim': 2, 'v_head_dim': 9, "
                  "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}");
  add_combination(&list,
                  "'rope_theta': 30.0, "
                  "'rope_scaling': {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, "
                  "'high_freq_factor': 2.0, "
                  "'original_max_position_embeddings': 8}",
                  "mla", DIMS);
  add_combination(&list, "'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}", "mla", DIMS);
  return run_combinations(&list);
}
