/* Queries of unrotated and rotated dimensions, for mechanisms with latents, and the usual sizes of heads and
   latents. */
#ifndef CH_ATTENTION_LATENT_QUERY_H
#define CH_ATTENTION_LATENT_QUERY_H

#include "attention/mechanism.h"

/* Declares the tensors of the query: W_q, or W_qa with its norm and W_qb. Also declares the tensors of the modules on
   queries. */
void ch_latent_query_declare(ch_declaration *declaration);
/* Returns queries [N, H (n + r)]. In each head the first n dims are knocked and the last r rotated. With
   "latent_scale", the normed low-rank query is multiplied by sqrt(D / q_lora_rank). */
ch_node *ch_latent_queries(ch_builder *builder, ch_node *x);

/* Fails unless the config has the sizes n, r and v of heads, and r is even with RoPE. */
ch_status ch_latent_check_sizes(const ch_config *config, const char *where, ch_error *error);

/* Presets DeepSeek-V2's proportions of heads, and a latent of `number` elements; for 0, of the usual width. */
ch_status ch_preset_latent(ch_config *config, int64_t number, const char *where, ch_error *error);
/* Returns the usual width of latents: a quarter of all heads together, at most 4 d. */
int64_t ch_usual_latent(const ch_config *config);

#endif
