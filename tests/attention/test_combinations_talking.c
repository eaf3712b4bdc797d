/* Talking heads: either mix alone and both, norms, knocking, positions, odd shapes. */
#include "harness/combinations.h"

int main(void) {
  static combination_list list;
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
      add_combination(&list, *size, "talking", attention[i].text);
  add_combination_of(&list, 3, 1, "", "talking", "");
  add_combination_of(&list, 3, 7, "'num_attention_heads': 3, 'head_dim': 4, 'position': 'alibi'", "talking",
                     "'knocking': {'type': 'gate', 'on': ['q', 'v']}");
  add_combination_of(&list, 1, 9, "'num_attention_heads': 1, 'head_dim': 2, 'rope_interleaved': true",
                     "talking", "");
  add_combination(&list, "'num_attention_heads': 5, 'head_dim': 4, 'attention_bias': true", "talking", "");
  return run_combinations(&list);
}
