/* Tests the embedding gate of latent attention: both operations, with and without the gate's norm, layer groups and
 * knocking. */
#include <stdio.h>

#include "harness/combinations.h"

#define DIMS                                                                                                 \
  "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5, 'gate_embedding_dim': " \
  "3"

int main(void) {
  static combination_list list;
  static const char *const gates[] = {DIMS, DIMS ", 'gate_op': 'add'", DIMS ", 'gate_norm': false",
                                      DIMS ", 'gate_op': 'add', 'gate_norm': false", NULL};
  static const char *const knocking[] = {
      "",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'knocking': {'type': 'linear', 'on': ['k']}",
      "'q_lora_rank': 9, 'knocking': {'type': 'linear', 'on': ['v']}",
      "'layer_group_size': 2",
      "'layer_group_size': 2, 'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}",
      "'layer_group_size': 2, 'layer_group_shares': 'latent'",
      "'layer_group_size': 2, 'layer_group_shares': 'latent', 'knocking': {'type': 'linear', 'on': ['k', "
      "'v']}",
      NULL};
  static const char *const sizes[] = {"'num_hidden_layers': 3", "'num_hidden_layers': 3, 'position': 'alibi'",
                                      "'num_hidden_layers': 3, 'rope_interleaved': true",
                                      "'num_hidden_layers': 3, 'position': 'none'", NULL};
  crossing attention[32];
  int count = cross(gates, knocking, attention, 32);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3) add_combination(&list, *size, "mla", attention[i].text);

  const char *everything = DIMS ", 'q_lora_rank': 3, 'head_norm': true, 'layer_group_size': 2, "
                                "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}";
  add_combination_of(&list, 3, 1, "", "mla", everything);
  add_combination_of(&list, 3, 7, "'num_attention_heads': 3, 'vocab_size': 2", "mla", everything);
  add_combination_of(&list, 1, 9, "'num_attention_heads': 1, 'vocab_size': 101, 'tie_word_embeddings': false",
                     "mla", everything);
  add_combination_of(&list, 2, 9, "'vocab_size': 3", "mla", DIMS);
  add_combination(&list, "'num_hidden_layers': 3", "mla", DIMS ", 'layer_group_size': 3, 'head_norm': true");

  /* Groups that share only the latent: several groups with a shorter last one, and one group of all layers. */
  const char *latents =
      DIMS ", 'layer_group_shares': 'latent', 'q_lora_rank': 3, 'head_norm': true, 'layer_group_size'";
  char attention_of[COMBINATION_TEXT];
  for (int whole = 0; whole <= 1; whole++) {
    snprintf(attention_of, sizeof attention_of, "%s: %d", latents, whole ? 3 : 2);
    add_combination_of(&list, 3, 1, "'num_hidden_layers': 3", "mla", attention_of);
    snprintf(attention_of, sizeof attention_of, "%s: %d", latents, whole ? 5 : 2);
    add_combination_of(&list, 3, 7, "'num_hidden_layers': 5, 'num_attention_heads': 3, 'vocab_size': 2",
                       "mla", attention_of);
  }
  return run_combinations(&list);
}
