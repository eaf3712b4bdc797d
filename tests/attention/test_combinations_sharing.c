/* Tests all ways of sharing matrices across layers, with several mechanisms: projections by letter and by tensor name,
 * dictionaries for several projections, ranks larger than a dimension, and from one atom to one per layer. */
#include <stdio.h>

#include "harness/combinations.h"

#define LATENT "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"

static const struct {
  const char *sizes, *type, *attention, *projections;
} mechanisms[] = {
    {"'num_key_value_heads': 2, 'head_dim': 6", "gqa", "", "'q', 'k', 'v', 'o'"},
    {"'num_key_value_heads': 2, 'head_dim': 8", "gta", "", "'q', 'kv_proj', 'k_rope_proj', 'o'"},
    {"", "mla", LATENT, "'q', 'kv_a_proj_with_mqa', 'kv_b_proj', 'o_proj'"},
    {"", "mla", LATENT ", 'q_lora_rank': 9", "'q_a_proj', 'q_b_proj', 'kv_b_proj', 'o'"},
    {"", "mla", LATENT ", 'gate_embedding_dim': 3",
     "'q_proj', 'kv_a_proj_with_mqa', 'kv_b_proj', 'kv_gate_proj', 'o_proj'"},
    {"", "mla", LATENT ", 'gate_embedding_dim': 3, 'layer_group_size': 2", "'q', 'o'"},
    {"'head_dim': 10", "mfa", "", "'q_a_proj', 'q_b_proj', 'k', 'v', 'o'"},
    {"'head_dim': 10", "mfa_kr", "", "'q_a_proj', 'q_b_proj', 'k', 'v_reuse', 'o'"},
    {"'num_key_value_heads': 2, 'head_dim': 6", "diff", "", "'q_proj', 'k_proj', 'v_proj', 'o_proj'"},
    {"'head_dim': 6", "talking", "", "'q', 'k', 'v', 'o'"},
};

/* Types of sharing, and keys other than "type" and "projections". The models of `mechanisms` have 3 layers, and 3 is
   not a multiple of 2 atoms. */
static const struct {
  const char *type, *more;
} sources[] = {
    {"masa", "'atoms': 2, 'coefficients': 'direct'"},
    {"masa", "'atoms': 2, 'coefficients': 'mlp'"},
    {"masa", "'atoms': 3, 'common_dictionary': true"},
    {"masa", "'atoms': 2, 'coefficients': 'mlp', 'common_dictionary': true"},
    {"sequential", "'atoms': 2"},
    {"repeat", "'atoms': 2"},
    {"low_rank", "'rank': 3"},
    {"low_rank", "'rank': 19"}, /* larger than the width of models and of latents */
};

static void add(combination_list *list, const char *sizes, const char *type, const char *attention,
                const char *sharing, const char *projections, const char *more) {
  char text[300];
  crossing both[1];
  snprintf(text, sizeof text, "'sharing': {'type': '%s', 'projections': [%s], %s}", sharing, projections,
           more);
  cross((const char *const[]){sizes, NULL}, (const char *const[]){text, NULL}, both, 1);
  add_combination(list, both[0].text, type, attention);
}

int main(void) {
  static combination_list list;
  for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++) {
    crossing sizes[1];
    cross((const char *const[]){"'num_hidden_layers': 3", NULL},
          (const char *const[]){mechanisms[m].sizes, NULL}, sizes, 1);
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++)
      add(&list, sizes[0].text, mechanisms[m].type, mechanisms[m].attention, sources[s].type,
          mechanisms[m].projections, sources[s].more);
  }
  /* 3 layers with 1 and 3 atoms, 5 layers with 2, 3 and 4, and a single layer. */
  static const char *const depths[] = {"'num_hidden_layers': 3", "'num_hidden_layers': 5",
                                       "'num_hidden_layers': 1", NULL};
  static const char *const types[] = {"masa", "sequential", "repeat", NULL};
  static const int64_t atoms[3][3] = {{1, 3, 0}, {2, 3, 4}, {1, 0, 0}};
  for (int d = 0; depths[d]; d++)
    for (int t = 0; types[t]; t++)
      for (int a = 0; a < 3 && atoms[d][a]; a++) {
        char more[64];
        snprintf(more, sizeof more, "'atoms': %d", (int)atoms[d][a]);
        add(&list, depths[d], "gqa", "", types[t], t == 1 ? "'o', 'k'" : "'q', 'k', 'v', 'o'", more);
      }
  /* A single projection, one dictionary for all projections, and dictionaries by shape. */
  add(&list, "", "gqa", "", "masa", "'v'", "'atoms': 2");
  add(&list, "", "gqa", "", "masa", "'o', 'v', 'q', 'k'", "'atoms': 2, 'common_dictionary': true");
  add(&list, "'head_dim': 6", "gqa", "", "masa", "'o', 'v', 'q', 'k'",
      "'atoms': 1, 'common_dictionary': true");
  add(&list, "'num_key_value_heads': 1", "gqa", "", "masa", "'q', 'k_proj'",
      "'atoms': 2, 'common_dictionary': true, 'coefficients': 'mlp'");
  add(&list, "", "gqa", "", "low_rank", "'o'", "'rank': 1");
  return run_combinations(&list);
}
