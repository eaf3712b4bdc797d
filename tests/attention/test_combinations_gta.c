/* Grouped-tied attention with head mixing and knocking of its tied state, every position, odd shapes. */
#include "harness/combinations.h"

int main(void) {
  static combination_list list;
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
                                         NULL};
  crossing attention[15];
  int count = cross(mixes, knocking, attention, 15);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      add_combination(&list, *size, "gta", attention[i].text);

  const char *everything = "'head_norm': true, 'head_mix': {'on': ['v'], 'component_heads': [1, 2, 4]}, "
                           "'knocking': {'type': 'linear', 'on': ['q', 'v']}";
  add_combination(&list, "'num_key_value_heads': 2, 'num_hidden_layers': 3, 'head_dim': 4", "gta",
                  everything);
  add_combination(&list,
                  "'num_key_value_heads': 4, 'num_hidden_layers': 3, 'rope_interleaved': true, 'head_dim': 8",
                  "gta", everything);
  add_combination_of(&list, 3, 1, "'head_dim': 4", "gta", "'head_norm': true");
  add_combination_of(&list, 3, 7, "'num_attention_heads': 3, 'num_key_value_heads': 1, 'head_dim': 12", "gta",
                     "'head_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}");
  add_combination_of(&list, 1, 9, "'num_attention_heads': 3, 'head_dim': 6, 'position': 'alibi'", "gta",
                     "'head_mix': {'on': ['v'], 'component_heads': 2}");
  add_combination(&list,
                  "'head_dim': 16, 'rope_theta': 30.0, "
                  "'rope_scaling': {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, "
                  "'high_freq_factor': 2.0, "
                  "'original_max_position_embeddings': 8}",
                  "gta", "");
  return run_combinations(&list);
}
