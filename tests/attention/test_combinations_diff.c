/* Differential attention: both lambdas, with and without its norm, grouped pairs, head mixing, knocking, positions. */
#include "harness/combinations.h"

int main(void) {
  static combination_list list;
  static const char *const kinds[] = {"", "'diff_lambda': 'per_pair'", "'head_norm': false",
                                      "'diff_lambda': 'per_pair', 'head_norm': false", NULL};
  static const char *const modules[] = {
      "",
      "'qk_norm': true",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
      "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}",
      "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}",
      "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}",
      "'head_mix': {'on': ['k'], 'component_heads': 2}, 'knocking': {'type': 'gate', 'on': ['v']}",
      "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}, "
      "'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
      "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}, "
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      NULL};
  static const char *const sizes[] = {"'num_key_value_heads': 2, 'head_dim': 6",
                                      "'num_key_value_heads': 2, 'head_dim': 5, 'position': 'alibi'",
                                      "'num_key_value_heads': 4, 'head_dim': 6",
                                      "'num_key_value_heads': 4, 'head_dim': 3, 'position': 'none'", NULL};
  crossing attention[40];
  int count = cross(kinds, modules, attention, 40);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3)
        add_combination(&list, *size, "diff", attention[i].text);

  const char *everything = "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': [1, 2, 5]}, "
                           "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}";
  add_combination(&list, "'num_key_value_heads': 2, 'num_hidden_layers': 3, 'rope_interleaved': true", "diff",
                  everything);
  add_combination_of(&list, 3, 1, "'num_key_value_heads': 2", "diff", "");
  add_combination_of(&list, 3, 7, "'num_attention_heads': 6, 'num_key_value_heads': 2, 'head_dim': 4", "diff",
                     "");
  add_combination_of(&list, 1, 9, "'num_attention_heads': 2, 'attention_bias': true", "diff",
                     "'diff_lambda': 'per_pair'");
  return run_combinations(&list);
}
