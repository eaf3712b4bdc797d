/* Factorised attention with one key head, its key reused as the value or not: query widths, norms, knocking, positions. */
#include "harness/combinations.h"

static void add_all(combination_list *list, const char *type, const char *const *knocking) {
  static const char *const queries[] = {"", "'q_a_norm': true, 'qk_norm': true",
                                        "'q_lora_rank': 5, 'head_norm': true",
                                        "'q_lora_rank': 11, 'q_a_norm': true, 'qk_norm': true", NULL};
  static const char *const sizes[] = {"'head_dim': 10", "'head_dim': 7, 'position': 'alibi'",
                                      "'head_dim': 10, 'position': 'none'",
                                      "'head_dim': 6, 'rope_interleaved': true", NULL};
  crossing attention[24];
  int count = cross(queries, knocking, attention, 24);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3) add_combination(list, *size, type, attention[i].text);
}

int main(void) {
  static combination_list list;
  static const char *const any[] = {"", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
                                    "'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
                                    "'knocking': {'type': 'gate', 'on': ['q', 'v']}", NULL};
  /* With the key reused the value has its own transform already. */
  static const char *const not_on_values[] = {"", "'knocking': {'type': 'linear', 'on': ['q', 'k']}",
                                              "'knocking': {'type': 'mlp', 'on': ['k']}",
                                              "'knocking': {'type': 'gate', 'on': ['q', 'k']}", NULL};
  add_all(&list, "mfa", any);
  add_all(&list, "mfa_kr", not_on_values);
  static const char *const types[] = {"mfa", "mfa_kr"};
  const char *everything = "'q_lora_rank': 3, 'q_a_norm': true, 'qk_norm': true, 'head_norm': true, "
                           "'knocking': {'type': 'mlp', 'on': ['q', 'k']}";
  for (int i = 0; i < 2; i++) {
    add_combination_of(&list, 3, 1, "'head_dim': 8", types[i], everything);
    add_combination_of(&list, 3, 7, "'num_attention_heads': 3, 'head_dim': 12", types[i], everything);
    add_combination_of(&list, 1, 9, "'num_attention_heads': 1, 'head_dim': 2, 'hidden_act': 'gelu'", types[i],
                       everything);
    add_combination(&list, "'num_key_value_heads': 1, 'head_dim': 8", types[i], everything);
  }
  add_combination(&list,
                  "'head_dim': 8, 'rope_theta': 30.0, "
                  "'rope_scaling': {'rope_type': 'llama3', 'factor': 4.0, 'low_freq_factor': 1.0, "
                  "'high_freq_factor': 2.0, "
                  "'original_max_position_embeddings': 8}",
                  "mfa_kr", "'qk_norm': true");
  return run_combinations(&list);
}
