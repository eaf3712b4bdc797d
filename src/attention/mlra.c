/* Multi-head Low-Rank Attention (2026): every head reads several latents, each in a branch with its own softmax.
 *
 *   write:  l_j = sqrt(D / w) norm_j((W_a x)_j)  [w = c / m, m of them],   r = RoPE(W_r x)  [r]
 *   read:   branch b's head h: (k, v) = B_(b,h) l_j,  j = b p + floor(h p / H)
 *           of the branch's p = m / branches latents
 *           o_h = 1 / sqrt(branches) sum over b of softmax(q_h (k, r)^T / sqrt(n + r)) v
 *
 * All branches share the query and the rotated key. One branch without the two scales is grouped latent
 * attention. */
#include "attention/grouped_latents.h"

static void mlra_defaults(ch_config *config) {
  config->attention.latent_heads = 4;
  config->attention.latent_scale = true;
}

static const char *const keys[] = {
    "q_lora_rank",  "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "latent_norm_eps",
    "latent_heads", "latent_scale", "branches",         "branch_scale",     NULL};

static const ch_preset presets[] = {
    {"mlra", "latent elements",
     "multi-head low-rank attention: every head reads four latents, each by its own softmax",
     ch_preset_grouped_latents},
    {0},
};

const ch_mechanism ch_mechanism_mlra = {.name = "mlra",
                                        .modules = CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR |
                                                   CH_MODULE_OWN_SIZES | CH_MODULE_SINK_LOGITS,
                                        .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
                                        .keys = keys,
                                        .defaults = mlra_defaults,
                                        .check = ch_grouped_latents_check,
                                        .declare = ch_grouped_latents_declare,
                                        .state = ch_grouped_latents_state,
                                        .write = ch_grouped_latents_write,
                                        .read = ch_grouped_latents_read,
                                        .rows = ch_grouped_latents_rows,
                                        .long_pass = ch_grouped_latents_long_pass,
                                        .total_effective_rank = ch_grouped_latents_rank,
                                        .shared_latent_dim = ch_grouped_latents_dim,
                                        .presets = presets};
