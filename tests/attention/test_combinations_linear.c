/* Tests Gated DeltaNet layers combined with every mechanism: single and grouped heads, with and without convolutions,
 * gates and negative eigenvalues, in some or all layers, with windows, experts, other norms and positions, and texts
 * longer than a chunk. */
#include "harness/combinations.h"

#define GDN(more) "'linear_attention': {'type': 'gdn', " more "}"
#define FIRST "'layer_types': ['linear_attention', 'full_attention']"
#define LAST "'layer_types': ['full_attention', 'linear_attention']"
#define ALL "'layer_types': ['linear_attention', 'linear_attention']"
#define THREE_OF_FOUR                                                                                        \
  "'num_hidden_layers': 4, 'layer_types': ['linear_attention', 'linear_attention', 'linear_attention', "     \
  "'full_attention']"
#define SMALL GDN("'heads': 2, 'head_dim': 3")
#define GROUPED GDN("'heads': 2, 'value_heads': 4, 'head_dim': 5, 'value_head_dim': 3, 'conv': 3")

static void add_sizes(combination_list *list) {
  static const char *const layers[] = {
      SMALL,
      GROUPED,
      GDN("'heads': 1, 'head_dim': 4, 'value_head_dim': 5, 'conv': 0"),
      GDN("'heads': 3, 'head_dim': 3, 'conv': 1, 'gate': false"),
      GDN("'heads': 1, 'value_heads': 3, 'head_dim': 4, 'conv': 2, 'negative_eigenvalues': true"),
      GDN("'heads': 2, 'head_dim': 6, 'value_head_dim': 6, 'conv': 7, 'gate': false, "
          "'negative_eigenvalues': true"),
      NULL};
  static const char *const types[] = {FIRST, LAST, ALL, THREE_OF_FOUR, NULL};
  crossing sizes[24];
  int count = cross(types, layers, sizes, 24);
  for (int i = 0; i < count; i++) add_combination(list, sizes[i].text, "gqa", i % 3 ? "" : "'qk_norm': true");
}

/* Adds every mechanism except gqa in the layer that is not linear. */
static void add_mechanisms(combination_list *list) {
  static const char *const latents =
      "'kv_lora_rank': 8, 'qk_nope_head_dim': 3, 'qk_rope_head_dim': 2, 'v_head_dim': 4";
  static const struct {
    const char *type, *attention;
  } others[] = {{"gated", ""},
                {"gta", ""},
                {"mfa", ""},
                {"mfa_kr", ""},
                {"diff", ""},
                {"talking", ""},
                {"tpa", "'k_rank': 1, 'v_rank': 2"},
                {"moh", "'active_heads': 2"},
                {"collaborative", "'shared_qk_dim': 8"}};
  for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
    add_combination(list, i % 2 ? FIRST ", " SMALL : LAST ", " GROUPED, others[i].type, others[i].attention);
  add_combination(list, FIRST ", " SMALL, "mla", latents);
  add_combination(list, LAST ", " SMALL, "gla", latents);
  add_combination(list, FIRST ", " SMALL, "mlra",
                  "'latent_heads': 2, 'kv_lora_rank': 8, 'qk_nope_head_dim': 3, 'qk_rope_head_dim': 2, "
                  "'v_head_dim': 4");
}

static void add_surroundings(combination_list *list) {
  add_combination(list,
                  "'num_hidden_layers': 3, 'sliding_window': 3, 'layer_types': ['linear_attention', "
                  "'sliding_attention', 'full_attention'], " SMALL,
                  "gqa", "");
  add_combination(list,
                  "'num_hidden_layers': 4, 'layer_types': ['linear_attention', 'linear_attention', "
                  "'full_attention', 'full_attention'], " GROUPED,
                  "gqa", "'kv_layer_group': 2");
  add_combination(list, FIRST ", " SMALL ", 'position': 'alibi'", "gqa", "");
  add_combination(list, LAST ", " SMALL ", 'position': 'none', 'attention_bias': true", "gqa", "");
  add_combination(list,
                  FIRST ", " SMALL ", 'moe': {'experts': 4, 'active': 2, 'expert_intermediate_size': 8}",
                  "gqa", "");
  add_combination(list, FIRST ", " SMALL ", 'norm_placement': 'post'", "gqa", "");
  add_combination(list, FIRST ", " SMALL ", 'parallel_residual': true", "gqa", "");
  add_combination(list, LAST ", " SMALL, "gqa", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}");
  add_combination(list, FIRST ", " SMALL, "gqa", "'sink_logits': true");
  add_combination_of(list, 3, 1, FIRST ", " SMALL, "gqa", "");
  add_combination_of(list, 3, 7, ALL ", " GROUPED, "gqa", "");
}

/* Adds heads wider than a vector register, and texts of one chunk and of more than two. */
static void add_long_texts(combination_list *list) {
  add_combination_of(list, 2, 140, ALL ", " GDN("'heads': 2, 'value_heads': 4, 'head_dim': 20"), "gqa", "");
  add_combination_of(list, 1, 140, FIRST ", " GDN("'heads': 1, 'head_dim': 16, 'negative_eigenvalues': true"),
                     "gqa", "");
  add_combination_of(list, 1, 64, LAST ", " GDN("'heads': 2, 'head_dim': 7, 'conv': 0"), "gqa", "");
}

int main(void) {
  static combination_list list;
  add_sizes(&list);
  add_mechanisms(&list);
  add_surroundings(&list);
  add_long_texts(&list);
  return run_combinations(&list);
}
