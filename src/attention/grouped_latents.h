/* Several latents of a token, each read by a group of heads: the functions of gla.c and mlra.c. */
#ifndef CH_ATTENTION_GROUPED_LATENTS_H
#define CH_ATTENTION_GROUPED_LATENTS_H

#include "attention/mechanism.h"

/* Fails if a size is missing, or unless the number of latents divides "kv_lora_rank", the number of branches divides
   the number of latents, and the number of latents per branch divides the heads. Also fails for an odd qk_rope_head_dim
   with RoPE. Also fails if several branches have "knocking.per_head" or make more than 2^24 rows of kv_b_proj. */
ch_status ch_grouped_latents_check(const ch_config *config, const char *where, ch_error *error);
void ch_grouped_latents_declare(ch_declaration *declaration);
int ch_grouped_latents_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]);
void ch_grouped_latents_write(ch_builder *builder, ch_node *x, ch_node *state[]);
ch_node *ch_grouped_latents_read(ch_builder *builder, ch_node *x, ch_node *const state[]);
int ch_grouped_latents_rows(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]);
int64_t ch_grouped_latents_long_pass(const ch_config *config);
int64_t ch_grouped_latents_rank(const ch_config *config);
int64_t ch_grouped_latents_dim(const ch_config *config);
/* Presets `number` elements for all latents together; for 0, MLA's usual number, rounded up to a multiple of the
   number of latents. */
ch_status ch_preset_grouped_latents(ch_config *config, int64_t number, const char *where, ch_error *error);

#endif
