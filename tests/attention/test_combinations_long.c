/* Every mechanism and module on texts longer than the blocks in which attention reads states, with heads wider than a
 * vector register. */
#include "harness/combinations.h"

#define GROUPED "'num_key_value_heads': 2, 'head_dim': 24"
#define LATENT "'kv_lora_rank': 20, 'qk_nope_head_dim': 24, 'qk_rope_head_dim': 8, 'v_head_dim': 18"
#define ALL "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"
#define FEW_COMPONENTS "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}"

int main(void) {
  static combination_list list;
  static const struct {
    const char *sizes, *type, *attention;
  } cases[] = {
      {GROUPED, "gqa",
       "'qk_norm': true, 'head_norm': true, 'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}"},
      {GROUPED ", 'position': 'alibi'", "gqa", ""},
      {GROUPED, "gqa", FEW_COMPONENTS},
      {GROUPED, "gqa", "'qk_norm': true, " FEW_COMPONENTS},
      {GROUPED ", 'position': 'alibi'", "gqa", "'qk_norm': true, " FEW_COMPONENTS ", " ALL},
      {"'num_key_value_heads': 4, 'head_dim': 20", "gqa",
       "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}, "
       "'knocking': {'type': 'mlp', 'on': ['k', 'v']}"},
      {GROUPED, "gta", ""},
      {GROUPED ", 'position': 'alibi'", "gta",
       "'head_norm': true, 'head_mix': {'on': ['v'], 'component_heads': 1}, 'knocking': {'type': 'mlp', "
       "'on': ['v']}"},
      {"", "mla", LATENT ", " ALL},
      {"'position': 'alibi'", "mla", LATENT ", 'q_lora_rank': 12, 'layer_group_size': 2"},
      {"'rope_interleaved': true", "mla", LATENT},
      {"", "mla", LATENT ", 'gate_embedding_dim': 8, " ALL},
      {"'vocab_size': 300", "mla", LATENT ", 'gate_embedding_dim': 8"},
      {"'vocab_size': 70", "mla",
       LATENT ", 'gate_embedding_dim': 8, 'gate_norm': false, 'layer_group_size': 2"},
      {"'vocab_size': 40, 'position': 'none'", "mla", LATENT ", 'gate_embedding_dim': 8, 'gate_op': 'add'"},
      {"'head_dim': 40", "mfa", "'qk_norm': true, 'q_a_norm': true"},
      {"'head_dim': 40", "mfa_kr", ""},
      {"'head_dim': 36, 'rope_interleaved': true", "mfa_kr",
       "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k']}"},
      {"'head_dim': 33, 'position': 'alibi'", "mfa_kr", "'qk_norm': true"},
      {GROUPED, "diff", ""},
      {GROUPED ", 'position': 'alibi'", "diff",
       "'diff_lambda': 'per_pair', 'qk_norm': true, " FEW_COMPONENTS},
      {"'head_dim': 18", "talking", "'qk_norm': true"},
      {"'head_dim': 18, 'position': 'alibi'", "talking", "'mix_weights': false"},
      {GROUPED ", 'moe': {'experts': 6, 'active': 2, 'shared': 1, 'expert_intermediate_size': 12}", "gqa",
       ""},
  };
  static const char *const length = "'max_position_embeddings': 256";
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    crossing sizes[1];
    cross((const char *const[]){length, NULL}, (const char *const[]){cases[i].sizes, NULL}, sizes, 1);
    add_combination_of(&list, 1 + i % 2, 140 + 3 * (int64_t)(i % 4), sizes[0].text, cases[i].type,
                       cases[i].attention);
  }
  return run_combinations(&list);
}
