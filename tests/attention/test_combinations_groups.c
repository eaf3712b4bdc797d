/* Tests different numbers of key heads and value heads in gqa and gated: groups of only keys or values, groups of
 * different sizes, numbers that do not divide each other; with norms, knocking, mixed heads, positions, biases and
 * shared matrices. */
#include "harness/combinations.h"

#define GROUPS(keys, values) "'num_key_heads': " #keys ", 'num_value_heads': " #values
#define ALL "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"
#define MIX(on, components) "'head_mix': {'on': [" on "], 'component_heads': " components "}"
#define SIX "'num_attention_heads': 6, 'head_dim': 4"
#define TWELVE "'num_attention_heads': 12, 'head_dim': 2"
#define WIDE "'num_attention_heads': 6, 'head_dim': 20"

static void add_modules(combination_list *list) {
  static const char *const groups[] = {GROUPS(1, 4), GROUPS(4, 2), "'num_value_heads': 1",
                                       "'num_key_heads': 2", NULL};
  static const char *const modules[] = {"", "'qk_norm': true, 'head_norm': true, " ALL,
                                        "'knocking': {'type': 'mlp', 'on': ['k', 'v']}", NULL};
  static const char *const sizes[] = {"", "'position': 'alibi'", "'position': 'none', 'head_dim': 3",
                                      "'rope_interleaved': true, 'attention_bias': true", NULL};
  crossing attention[12];
  int count = cross(groups, modules, attention, 12);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (size == sizes || size == sizes + 1 + i % 3)
        add_combination(list, *size, i % 2 ? "gated" : "gqa", attention[i].text);
}

/* Adds mixes of components into G_k keys and G_v values, with fewer components than both G_k and G_v, than one of them,
   or than neither. */
static void add_mixes(combination_list *list) {
  static const char *const mixes[] = {GROUPS(4, 2) ", " MIX("'k', 'v'", "1"),
                                      GROUPS(4, 2) ", " MIX("'k', 'v'", "2"),
                                      GROUPS(2, 4) ", " MIX("'k', 'v'", "3"),
                                      GROUPS(1, 2) ", " MIX("'k', 'v'", "5"),
                                      GROUPS(4, 2) ", " MIX("'v'", "1"),
                                      GROUPS(1, 4) ", " MIX("'k'", "3"),
                                      NULL};
  static const char *const modules[] = {"", "'qk_norm': true", "'head_norm': true, " ALL, NULL};
  crossing attention[18];
  int count = cross(mixes, modules, attention, 18);
  for (int i = 0; i < count; i++)
    add_combination(list, i % 3 == 1 ? "'position': 'alibi', 'head_dim': 5" : "'head_dim': 6",
                    i % 4 == 3 ? "gated" : "gqa", attention[i].text);
  /* A number of components for each layer. The larger number of heads means a layer without mixing. */
  add_combination(list, "'num_hidden_layers': 3", "gqa", GROUPS(2, 4) ", " MIX("'k', 'v'", "[1, 4, 2]"));
  add_combination(list, "'num_hidden_layers': 3, 'attention_bias': true", "gqa",
                  GROUPS(4, 1) ", 'qk_norm': true, " MIX("'v'", "[2, 3, 4]"));
}

static void add_shapes(combination_list *list) {
  static const char *const groups[] = {GROUPS(2, 3), GROUPS(3, 2), GROUPS(6, 1), GROUPS(3, 1), NULL};
  for (const char *const *group = groups; *group; group++) {
    add_combination(list, SIX, "gqa", *group);
    add_combination_of(list, 1, 9, SIX ", 'position': 'alibi'", "gqa", *group);
  }
  add_combination(list, TWELVE, "gqa", GROUPS(4, 6) ", 'qk_norm': true");
  add_combination(list, TWELVE ", 'num_key_value_heads': 3", "gqa", "'num_key_heads': 4");
  add_combination(list, SIX, "gqa",
                  GROUPS(2, 3) ", 'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v'], 'per_head': true}");
  add_combination(list, SIX, "gated",
                  GROUPS(6, 2) ", 'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}");
  add_combination_of(list, 3, 1, SIX, "gated", GROUPS(2, 3) ", " MIX("'k', 'v'", "1"));
  /* Equal numbers of key heads and value heads, which are grouped-query attention. */
  add_combination(list, "", "gqa", GROUPS(2, 2));
  add_combination(list, "'num_key_value_heads': 2", "gqa", "'num_value_heads': 2");
  /* Texts that are longer than a block of tokens. */
  add_combination_of(list, 2, 140, WIDE, "gqa", GROUPS(2, 3));
  add_combination_of(list, 1, 140, WIDE ", 'position': 'alibi'", "gqa",
                     GROUPS(1, 6) ", 'qk_norm': true, " ALL);
  add_combination_of(list, 1, 140, WIDE, "gated", GROUPS(3, 6) ", " MIX("'k', 'v'", "2"));
}

static void add_shared(combination_list *list) {
  static const char *const sharing[] = {
      "'sharing': {'type': 'masa', 'projections': ['q', 'k', 'v', 'o'], 'atoms': 2}",
      ("'sharing': {'type': 'masa', 'projections': ['k', 'v'], 'atoms': 2, 'common_dictionary': true, "
       "'coefficients': 'mlp'}"),
      "'sharing': {'type': 'repeat', 'projections': ['k', 'v'], 'atoms': 2}",
      "'sharing': {'type': 'low_rank', 'projections': ['q', 'k', 'v', 'o'], 'rank': 3}"};
  for (size_t i = 0; i < sizeof sharing / sizeof *sharing; i++)
    add_combination(list, sharing[i], "gqa", i % 2 ? GROUPS(1, 4) : GROUPS(4, 2) ", " ALL);
  add_combination(list, "'moe': {'experts': 4, 'active': 2, 'expert_intermediate_size': 8}", "gqa",
                  GROUPS(2, 4));
}

int main(void) {
  static combination_list list;
  add_modules(&list);
  add_mixes(&list);
  add_shapes(&list);
  add_shared(&list);
  return run_combinations(&list);
}
