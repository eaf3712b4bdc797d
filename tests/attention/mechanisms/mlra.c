/* Multi-head low-rank attention: combinations of branches, scales, knocking, all positions and odd shapes. */
#include "grouped_latents.h"

static void complete(reference_config *c) {
  complete_grouped(c);
  if (!c->latent_heads) c->latent_heads = 4;
  if (!c->branches) c->branches = c->latent_heads;
}

#define DIMS "'kv_lora_rank': 8, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"
#define WIDE "'kv_lora_rank': 40, 'qk_nope_head_dim': 24, 'qk_rope_head_dim': 8, 'v_head_dim': 18"
#define TILES "'kv_lora_rank': 64, 'qk_nope_head_dim': 10, 'qk_rope_head_dim': 8, 'v_head_dim': 12"
#define KNOCKED "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"

static const tried with_experts[] = {
    {DIMS ", 'q_lora_rank': 9", "'position': 'rope'"}, {DIMS ", 'branches': 2", "'position': 'none'"}, {0}};

static const tried long_texts[] = {{WIDE, ""},
                                   {TILES, ""},
                                   {TILES ", 'branches': 2, " KNOCKED, "'position': 'alibi'"},
                                   {TILES ", 'branches': 1, 'q_lora_rank': 12", "'rope_interleaved': true"},
                                   {0}};

static const tried learns[] = {{DIMS, ""}, {DIMS ", 'branches': 2, 'head_norm': true, " KNOCKED, ""}, {0}};

static void combinations(combination_list *list) {
  static const char *const shapes[] = {DIMS,
                                       DIMS ", 'q_lora_rank': 9",
                                       DIMS ", 'head_norm': true, 'branches': 2",
                                       DIMS ", 'latent_heads': 2, 'branches': 1, 'branch_scale': false",
                                       DIMS
                                       ", 'latent_scale': false, 'branch_scale': false, 'q_lora_rank': 9",
                                       NULL};
  static const char *const knocking[] = {"", KNOCKED, "'knocking': {'type': 'linear', 'on': ['k']}",
                                         "'knocking': {'type': 'linear', 'on': ['v']}", NULL};
  static const char *const sizes[] = {"", "'position': 'alibi'", "'position': 'none'",
                                      "'rope_interleaved': true", NULL};
  crossing attention[20];
  int count = cross(shapes, knocking, attention, 20);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (i < 3 || size == sizes + i % 4) add_combination(list, *size, "mlra", attention[i].text);
  add_combination_of(list, 3, 1, "", "mlra", DIMS);
  add_combination_of(list, 3, 7, "'num_attention_heads': 6, 'hidden_act': 'gelu'", "mlra",
                     "'kv_lora_rank': 12, 'latent_heads': 6, 'branches': 2, 'qk_nope_head_dim': 1, "
                     "'qk_rope_head_dim': 2, 'v_head_dim': 9, " KNOCKED);
}

const tested_mechanism tested_mlra = {
    .name = "mlra",
    .scales_latents = true,
    .complete = complete,
    .attention = grouped_attention,
    .projections = grouped_projections,
    .others = grouped_others,
    .cache = grouped_cache,
    .total_effective_rank = grouped_rank,
    .shared_latent_dim = grouped_shared_dim,
    .absorbs_latents = true,
    .combinations = combinations,
    .with_experts = with_experts,
    .long_texts = long_texts,
    .learns = learns,
    .presets = {{"mlra", 8 * 16 / 4 + 8}, {"mlra:48", 48 + 8}},
};
