/* Tests models that compression writes: groups of layers with their own dictionaries, residuals on any matrix, and
 * ranks and numbers of atoms that are only in the checkpoint. */
#include "harness/combinations.h"

#define LATENT "'kv_lora_rank': 7, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"
#define LAYERS "'num_hidden_layers': 5, 'num_key_value_heads': 2, 'head_dim': 6"
#define QKVO "'projections': ['q', 'k', 'v', 'o']"
#define SHARED(keys) LAYERS ", 'sharing': {" keys ", " QKVO "}"
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

static const reference_stored residuals[] = {{REFERENCE_RESIDUAL, 0, "q_proj", 1},
                                             {REFERENCE_RESIDUAL, 2, "q_proj", 3},
                                             {REFERENCE_RESIDUAL, 0, "v_proj", 2},
                                             {REFERENCE_RESIDUAL, 1, "o_proj", 5},
                                             {REFERENCE_RESIDUAL, 1, "k_proj", 20}};
/* Numbers of atoms for groups of 3 and 2 layers, and two residuals. */
static const reference_stored atoms[] = {
    {REFERENCE_ATOMS, 0, "q_proj", 2},    {REFERENCE_ATOMS, 1, "q_proj", 1},
    {REFERENCE_ATOMS, 0, "k_proj", 3},    {REFERENCE_ATOMS, 1, "k_proj", 2},
    {REFERENCE_RESIDUAL, 0, "k_proj", 1}, {REFERENCE_RESIDUAL, 4, "q_proj", 6}};
static const reference_stored ranks[] = {
    {REFERENCE_FACTORS, 0, "q_proj", 3},  {REFERENCE_FACTORS, 1, "q_proj", 5},
    {REFERENCE_FACTORS, 0, "o_proj", 1},  {REFERENCE_FACTORS, 1, "o_proj", 9},
    {REFERENCE_RESIDUAL, 0, "q_proj", 2}, {REFERENCE_RESIDUAL, 1, "v_proj", 4}};
/* Ranks of the bases of groups of 3 and 2 layers. The output projections and one query projection have first factors of
   their own. */
static const reference_stored bases[] = {
    {REFERENCE_BASIS, 0, "q_proj", 4},    {REFERENCE_BASIS, 1, "q_proj", 2},
    {REFERENCE_FACTORS, 0, "o_proj", 1},  {REFERENCE_FACTORS, 1, "o_proj", 9},
    {REFERENCE_FACTORS, 2, "o_proj", 3},  {REFERENCE_FACTORS, 3, "o_proj", 2},
    {REFERENCE_FACTORS, 4, "o_proj", 5},  {REFERENCE_FACTORS, 4, "q_proj", 3},
    {REFERENCE_RESIDUAL, 1, "q_proj", 2}, {REFERENCE_RESIDUAL, 0, "v_proj", 4}};
static const reference_stored latent[] = {{REFERENCE_RESIDUAL, 0, "kv_b_proj", 2},
                                          {REFERENCE_RESIDUAL, 1, "kv_a_proj_with_mqa", 3},
                                          {REFERENCE_RESIDUAL, 1, "kv_b_proj", 1},
                                          {REFERENCE_RESIDUAL, 1, "o_proj", 4}};
static const reference_stored latent_ranks[] = {{REFERENCE_FACTORS, 0, "kv_b_proj", 4},
                                                {REFERENCE_FACTORS, 1, "kv_b_proj", 2},
                                                {REFERENCE_FACTORS, 0, "q_proj", 3},
                                                {REFERENCE_FACTORS, 1, "q_proj", 4},
                                                {REFERENCE_RESIDUAL, 1, "q_proj", 2}};

static void add_groups(combination_list *list) {
  add_combination(list, SHARED("'type': 'masa', 'atoms': 2, 'groups': [[0, 2], [3, 4]]"), "gqa",
                  "'qk_norm': true");
  add_combination(list, SHARED("'type': 'masa', 'atoms': 2, 'groups': [[0, 0], [1, 3], [4, 4]]"), "gqa", "");
  add_combination(list, SHARED("'type': 'masa', 'atoms': 1, 'groups': [[0, 4]]") ", 'attention_bias': true",
                  "gqa", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}");
  add_combination(
      list,
      "'num_hidden_layers': 4, 'sharing': {'type': 'masa', 'atoms': 1, 'groups': [[0, 1], [2, 3]], "
      "'projections': ['q', 'kv_b_proj']}",
      "mla", LATENT);
}

/* Adds Basis Sharing, in which the layers of a group have one first factor. */
static void add_bases(combination_list *list) {
  add_combination(list, SHARED("'type': 'low_rank', 'rank': 3, 'groups': [[0, 2], [3, 4]]"), "gqa",
                  "'qk_norm': true");
  add_combination(list, SHARED("'type': 'low_rank', 'rank': 19, 'groups': [[0, 0], [1, 4]]"), "diff", "");
  add_combination(
      list, SHARED("'type': 'low_rank', 'rank': 2, 'groups': [[0, 4]]") ", 'attention_bias': true", "gqa",
      "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}, 'knocking': {'type': 'linear', 'on': "
      "['q', 'k', 'v']}");
  add_combination(
      list,
      "'num_hidden_layers': 4, 'sharing': {'type': 'low_rank', 'rank': 3, 'groups': [[0, 1], [2, 3]], "
      "'projections': ['q', 'kv_b_proj']}",
      "mla", LATENT);
  add_combination_stored(
      list, bases, COUNT(bases),
      LAYERS ", 'sharing': {'type': 'low_rank', 'groups': [[0, 2], [3, 4]], 'projections': ['q', 'o']}",
      "gqa", "'qk_norm': true");
}

/* Adds common dictionaries with more atoms than layers. */
static void add_common(combination_list *list) {
  add_combination(list, SHARED("'type': 'masa', 'atoms': 7, 'common_dictionary': true"), "gqa", "");
  add_combination(list,
                  SHARED("'type': 'masa', 'atoms': 6, 'common_dictionary': true, 'coefficients': 'mlp'"),
                  "gqa", "'qk_norm': true");
}

static void add_residuals(combination_list *list) {
  static const char *const ways[] = {SHARED("'type': 'masa', 'atoms': 2"),
                                     SHARED("'type': 'masa', 'atoms': 2, 'groups': [[0, 1], [2, 4]]"),
                                     SHARED("'type': 'masa', 'atoms': 2, 'coefficients': 'mlp'"),
                                     SHARED("'type': 'repeat', 'atoms': 2"),
                                     SHARED("'type': 'low_rank', 'rank': 4"),
                                     LAYERS};
  for (int i = 0; i < COUNT(ways); i++) {
    add_combination_stored(list, residuals, COUNT(residuals), ways[i], "gqa", "'qk_norm': true");
    add_combination_stored(list, residuals, COUNT(residuals), ways[i], "diff", "");
  }
  add_combination_stored(
      list, residuals, COUNT(residuals), LAYERS ", 'attention_bias': true", "gqa",
      "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}, 'knocking': {'type': 'linear', 'on': "
      "['q', 'k', 'v']}");
  add_combination_stored(list, latent, COUNT(latent), "", "mla", LATENT);
}

static void add_open_sizes(combination_list *list) {
  add_combination_stored(
      list, atoms, COUNT(atoms),
      LAYERS ", 'sharing': {'type': 'masa', 'groups': [[0, 2], [3, 4]], 'projections': ['q', 'k']}", "gqa",
      "'qk_norm': true");
  add_combination_stored(
      list, ranks, COUNT(ranks),
      "'num_key_value_heads': 2, 'sharing': {'type': 'low_rank', 'projections': ['q', 'o']}", "gqa", "");
  add_combination_stored(list, latent_ranks, COUNT(latent_ranks),
                         "'sharing': {'type': 'low_rank', 'projections': ['q', 'kv_b_proj']}", "mla", LATENT);
}

int main(void) {
  static combination_list list;
  add_groups(&list);
  add_bases(&list);
  add_common(&list);
  add_residuals(&list);
  add_open_sizes(&list);
  return run_combinations(&list);
}
