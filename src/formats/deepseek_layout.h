/* Converts Crosshead's latent attention to DeepSeek's classes. They allow less: rotary pairs are neighbours, and
 * the norms of the latents add 1e-6. Reordering and scaling rows of the weights achieves both. */
#ifndef CH_FORMATS_DEEPSEEK_LAYOUT_H
#define CH_FORMATS_DEEPSEEK_LAYOUT_H

#include "config/config.h"

/* The scaling and order of the rows of a layer's projections; all zeros: unchanged. */
typedef struct ch_deepseek_layout {
  double latent_scale;        /* factor of the rows that compute latents; 0: unchanged */
  bool pairs;                 /* true if the rows of rotary pairs become neighbours */
  int64_t latent, nope, rope; /* kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim */
} ch_deepseek_layout;

/* Changes the config of latent attention to deepseek_v3 or deepseek_v2 if that model, with its rows changed by
   *layout, computes the same values. Otherwise *config does not change and *layout is all zeros. scalable: the
   rows that compute latents are F32, so that scaling them loses no precision. */
void ch_deepseek_choose(ch_config *config, bool scalable, ch_deepseek_layout *layout);
/* Returns true if the layout changes rows of the tensor. */
bool ch_deepseek_changes(const ch_deepseek_layout *layout, const char *name);
/* Returns the stored row that becomes row `row`. */
int64_t ch_deepseek_row(const ch_deepseek_layout *layout, const char *name, int64_t row);
/* Returns the factor of row `row`; 1: unchanged. */
double ch_deepseek_scale(const ch_deepseek_layout *layout, const char *name, int64_t row);
/* Returns true if the tensor computes a latent that a norm follows. */
bool ch_deepseek_makes_latent(const char *name);

#endif
