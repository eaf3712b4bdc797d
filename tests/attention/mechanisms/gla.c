/* Grouped latent attention (field section 3): combinations of groups of latents, scales, knocking, all positions and
 * odd shapes. */
#include "grouped_latents.h"

static void complete(reference_config *c) {
  complete_grouped(c);
  if (!c->latent_heads) c->latent_heads = 2;
  c->branches = 1;
}

#define DIMS "'kv_lora_rank': 8, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 5"
#define WIDE "'kv_lora_rank': 40, 'qk_nope_head_dim': 24, 'qk_rope_head_dim': 8, 'v_head_dim': 18"
/* Latents that fill whole tiles, so that attention reads them in place. */
#define TILES "'kv_lora_rank': 64, 'qk_nope_head_dim': 10, 'qk_rope_head_dim': 8, 'v_head_dim': 12"
#define KNOCKED "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"

static const tried with_experts[] = {{DIMS ", 'q_lora_rank': 9", "'position': 'rope'"},
                                     {DIMS ", 'latent_heads': 4", "'position': 'none'"},
                                     {0}};

static const tried long_texts[] = {
    {WIDE, ""},
    {TILES, ""},
    {TILES ", " KNOCKED, "'position': 'alibi'"},
    {TILES ", 'latent_heads': 4, 'q_lora_rank': 12", "'rope_interleaved': true"},
    {WIDE ", 'latent_heads': 1, 'latent_scale': true", ""},
    {0}};

static const tried learns[] = {
    {DIMS, ""}, {DIMS ", 'latent_heads': 4, 'head_norm': true, " KNOCKED, ""}, {0}};

static void combinations(combination_list *list) {
  static const char *const shapes[] = {DIMS,
                                       DIMS ", 'q_lora_rank': 9",
                                       DIMS ", 'head_norm': true, 'latent_heads': 4",
                                       DIMS ", 'latent_heads': 1",
                                       DIMS ", 'latent_scale': true, 'q_lora_rank': 9",
                                       NULL};
  static const char *const knocking[] = {
      "",
      KNOCKED,
      "'knocking': {'type': 'linear', 'on': ['k']}",
      "'knocking': {'type': 'linear', 'on': ['v']}",
      "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'per_head': true}",
      NULL};
  static const char *const sizes[] = {"", "'position': 'alibi'", "'position': 'none'",
                                      "'rope_interleaved': true", NULL};
  crossing attention[25];
  int count = cross(shapes, knocking, attention, 25);
  for (int i = 0; i < count; i++)
    for (const char *const *size = sizes; *size; size++)
      if (i < 3 || size == sizes + i % 4) add_combination(list, *size, "gla", attention[i].text);
  add_combination_of(list, 3, 1, "", "gla", DIMS);
  add_combination_of(list, 3, 7, "'num_attention_heads': 6, 'hidden_act': 'gelu'", "gla",
                     "'kv_lora_rank': 9, 'latent_heads': 3, 'qk_nope_head_dim': 1, 'qk_rope_head_dim': 2, "
                     "'v_head_dim': 9, " KNOCKED);
  add_combination(list, "'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}", "gla",
                  DIMS ", 'latent_norm_eps': 1e-05");
}

const tested_mechanism tested_gla = {
    .name = "gla",
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
    .presets = {{"gla", 8 * 16 / 4 + 8}, {"gla:48", 48 + 8}},
};
