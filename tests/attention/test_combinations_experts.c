/* Mixtures of experts with every mechanism: shared experts, dense first layers, one active expert, both balances. */
#include "harness/combinations.h"

int main(void) {
  static combination_list list;
  static const struct {
    const char *type, *attention, *sizes;
  } mechanisms[] = {
      {"gqa", "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}", "'num_key_value_heads': 2"},
      {"gqa", "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}", "'num_key_value_heads': 2"},
      {"gta", "'knocking': {'type': 'linear', 'on': ['v']}", "'num_key_value_heads': 2"},
      {"mla",
       "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5, "
       "'gate_embedding_dim': 3, "
       "'layer_group_size': 2",
       "'position': 'rope'"},
      {"mfa", "'q_a_norm': true", "'head_dim': 8"},
      {"mfa_kr", "'qk_norm': true", "'head_dim': 8"},
      {"diff", "'diff_lambda': 'per_pair'", "'num_key_value_heads': 2"},
      {"talking", "", "'position': 'alibi'"},
  };
  static const char *const mixtures[] = {"'moe': {'experts': 4, 'active': 2, 'shared': 0, "
                                         "'expert_intermediate_size': 6, 'first_dense_layers': 0, "
                                         "'balance': 'aux', 'aux_coefficient': 0.01}",
                                         "'moe': {'experts': 5, 'active': 1, 'shared': 1, "
                                         "'expert_intermediate_size': 5, 'first_dense_layers': 1, "
                                         "'balance': 'aux', 'aux_coefficient': 0.01}",
                                         "'moe': {'experts': 3, 'active': 2, 'shared': 2, "
                                         "'expert_intermediate_size': 4, 'first_dense_layers': 1, "
                                         "'balance': 'loss_free'}",
                                         NULL};
  for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++) {
    const char *const sizes[] = {mechanisms[m].sizes, NULL};
    crossing texts[3];
    int count = cross(sizes, mixtures, texts, 3);
    for (int i = 0; i < count; i++)
      add_combination(&list, texts[i].text, mechanisms[m].type, mechanisms[m].attention);
  }
  /* All experts active; one expert; a single token. */
  add_combination(&list, "'moe': {'experts': 3, 'active': 3, 'shared': 0, 'expert_intermediate_size': 6}",
                  "gqa", "");
  add_combination(&list, "'moe': {'experts': 1, 'active': 1, 'shared': 1, 'expert_intermediate_size': 6}",
                  "gqa", "");
  add_combination_of(&list, 1, 1,
                     "'moe': {'experts': 6, 'active': 2, 'shared': 1, 'expert_intermediate_size': 6, "
                     "'balance': 'loss_free'}",
                     "gqa", "");
  return run_combinations(&list);
}
