/* Grouped Latent Attention (Zadouri et al. 2025): MLA whose heads read one of several latents, by groups.
 *
 *   write:  l_j = norm_j((W_a x)_j)  [c / g, g of them],   r = RoPE(W_r x)  [r]
 *   read:   (k_h, v_h) = B_h l_(floor(h g / H));   the rest as MLA
 *
 * A head's latent is g times narrower, so that folded queries and sums of latents cost g times less, and g machines
 * can store one latent each. With one latent, the model is MLA, tensor for tensor. */
#include "attention/grouped_latents.h"

static void gla_defaults(ch_config *config) {
  config->attention.latent_heads = 2;
}

static const char *const keys[] = {"q_lora_rank",      "kv_lora_rank", "qk_nope_head_dim",
                                   "qk_rope_head_dim", "v_head_dim",   "latent_norm_eps",
                                   "latent_heads",     "latent_scale", NULL};

static const ch_preset presets[] = {
    {"gla", "latent elements", "grouped latent attention: each half of the heads reads its own latent",
     ch_preset_grouped_latents},
    {0},
};

const ch_mechanism ch_mechanism_gla = {.name = "gla",
                                       .modules = CH_MODULE_HEAD_NORM | CH_MODULE_KNOCK_LINEAR |
                                                  CH_MODULE_OWN_SIZES | CH_MODULE_SINK_LOGITS |
                                                  CH_MODULE_KV_GROUP,
                                       .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
                                       .keys = keys,
                                       .defaults = gla_defaults,
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
