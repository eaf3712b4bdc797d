/* Tests head mixing with grouped-query attention: fewer components than heads, as many, and more, with QK norm, all
 * positions, knocking, and layers that are not mixed. */
#include "harness/combinations.h"

static const char *const positions[] = {"'num_key_value_heads': 2, 'head_dim': 6",
                                        "'num_key_value_heads': 2, 'head_dim': 6, 'position': 'alibi'",
                                        "'num_key_value_heads': 2, 'head_dim': 6, 'position': 'none'", NULL};
static const char *const norms[] = {"", "'qk_norm': true", NULL};

static void add_all(combination_list *list, const char *const *first, const char *const *second,
                    const char *const *sizes) {
  enum { MOST = 64 };
  crossing attention[MOST];
  int count = cross(first, second, attention, MOST);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      add_combination(list, *size, "gqa", attention[i].text);
}

int main(void) {
  static combination_list list;
  static const char *const mixes[] = {"'head_mix': {'on': ['k', 'v'], 'component_heads': 1}",
                                      "'head_mix': {'on': ['k', 'v'], 'component_heads': 2}",
                                      "'head_mix': {'on': ['k', 'v'], 'component_heads': 3}",
                                      "'head_mix': {'on': ['k'], 'component_heads': 1}",
                                      "'head_mix': {'on': ['v'], 'component_heads': 1}",
                                      "'head_mix': {'on': ['k'], 'component_heads': 3}",
                                      "'head_mix': {'on': ['v'], 'component_heads': 3}",
                                      NULL};
  add_all(&list, mixes, norms, positions);

  const char *const few_and_many[] = {mixes[0], mixes[2], NULL};
  static const char *const knocking[] = {
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'qk_norm': true, 'knocking': {'type': 'linear', 'on': ['k', 'v']}",
      "'knocking': {'type': 'mlp', 'on': ['k', 'v']}",
      "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}",
      "'qk_norm': true, 'head_norm': true, 'knocking': {'type': 'gate', 'on': ['k', 'v']}",
      "'knocking': {'type': 'gate', 'on': ['v']}",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}",
      NULL};
  const char *const two_positions[] = {positions[0], positions[1], NULL};
  add_all(&list, few_and_many, knocking, two_positions);

  /* MEA, ranges of layers, a number for each layer, and shapes. */
  const char *mea = "'head_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 4}";
  add_combination(&list, "'num_key_value_heads': 4", "gqa", mea);
  add_combination(&list, "'num_key_value_heads': 4, 'position': 'alibi'", "gqa", mea);
  add_combination(&list, "'num_key_value_heads': 2, 'num_hidden_layers': 3", "gqa",
                  "'head_mix': {'on': ['k', 'v'], 'component_heads': 1, 'layers': [1, 1]}");
  add_combination(&list, "'num_key_value_heads': 4, 'num_hidden_layers': 3", "gqa",
                  "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': [1, 4, 6]}");
  add_combination(&list, "'num_key_value_heads': 4, 'num_hidden_layers': 3, 'attention_bias': true", "gqa",
                  "'qk_norm': true, 'head_mix': {'on': ['v'], 'component_heads': [2, 3, 4]}");
  add_combination_of(&list, 3, 1, "'num_key_value_heads': 2", "gqa",
                     "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}");
  add_combination_of(&list, 1, 9, "'num_attention_heads': 3, 'head_dim': 5, 'position': 'alibi'", "gqa",
                     "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 2}");
  add_combination_of(&list, 3, 7, "'num_attention_heads': 3, 'num_key_value_heads': 1, 'head_dim': 4", "gqa",
                     "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 2}");
  add_combination(&list, "'num_key_value_heads': 2, 'rope_interleaved': true, 'hidden_act': 'gelu'", "gqa",
                  "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}");
  return run_combinations(&list);
}
