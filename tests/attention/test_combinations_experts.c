/* Tests mixtures of experts with every mechanism: shared experts, dense layers, one active expert, and both ways of
 * balancing. */
#include "mechanisms/mechanism.h"

int main(void) {
  static combination_list list;
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
  for (const tested_mechanism *const *m = tested_mechanisms(); *m; m++)
    for (const tried *t = (*m)->with_experts; t->attention; t++) {
      crossing texts[3];
      int count = cross((const char *const[]){t->sizes, NULL}, mixtures, texts, 3);
      for (int i = 0; i < count; i++) add_combination(&list, texts[i].text, (*m)->name, t->attention);
    }
  /* All experts active, and a single expert. */
  add_combination(&list, "'moe': {'experts': 3, 'active': 3, 'shared': 0, 'expert_intermediate_size': 6}",
                  "gqa", "");
  add_combination(&list, "'moe': {'experts': 1, 'active': 1, 'shared': 1, 'expert_intermediate_size': 6}",
                  "gqa", "");
  /* Biases and clamps, also in shared experts and dense layers. */
  add_combination(
      &list,
      "'hidden_act': 'clamped_swiglu', 'swiglu_limit': 0.2, 'mlp_bias': true, 'moe': {'experts': 4, "
      "'active': 2, 'shared': 1, 'expert_intermediate_size': 6, 'first_dense_layers': 1, "
      "'router_bias': true}",
      "gqa", "'sink_logits': true");
  add_combination(&list,
                  "'hidden_act': 'clamped_swiglu', 'swiglu_alpha': 0.7, 'moe': {'experts': 3, 'active': 2, "
                  "'expert_intermediate_size': 5, 'router_bias': true, 'balance': 'loss_free'}",
                  "gqa", "");
  /* A dense layer after layers with experts. */
  add_combination(&list,
                  "'num_hidden_layers': 3, 'moe': {'experts': 4, 'active': 2, 'shared': 0, "
                  "'expert_intermediate_size': 6, 'dense_layers': [1], 'balance': 'loss_free'}",
                  "gqa", "");
  add_combination(&list,
                  "'moe': {'experts': 4, 'active': 2, 'shared': 1, 'expert_intermediate_size': 6, "
                  "'dense_layers': [1]}",
                  "gqa", "");
  add_combination_of(&list, 1, 1,
                     "'moe': {'experts': 6, 'active': 2, 'shared': 1, 'expert_intermediate_size': 6, "
                     "'balance': 'loss_free'}",
                     "gqa", "");
  return run_combinations(&list);
}
