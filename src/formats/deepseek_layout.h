/* Latent attention of our own as DeepSeek's classes have it, which leave less open: rotary pairs are
 * neighbours, and the norms of the latents add 1e-6. Both are in the reach of the weights. */
#ifndef CH_FORMATS_DEEPSEEK_LAYOUT_H
#define CH_FORMATS_DEEPSEEK_LAYOUT_H

#include "config/config.h"

/* The scaling and order of the rows of a layer's projections; all zeros: unchanged. */
typedef struct ch_deepseek_layout {
  double latent_scale;        /* of the rows that compute latents; 0: unchanged */
  bool pairs;                 /* rotated rows become neighbours */
  int64_t latent, nope, rope; /* sizes of the attention */
} ch_deepseek_layout;

/* Changes the config of latent attention to one of deepseek_v3 or deepseek_v2 if such a model, with its rows
   as in *layout, computes the same values; else leaves both unchanged. scalable: the rows that compute
   latents are F32, so that a factor loses nothing. */
void ch_deepseek_choose(ch_config *config, bool scalable, ch_deepseek_layout *layout);
/* Returns true if the rows of that tensor change. */
bool ch_deepseek_changes(const ch_deepseek_layout *layout, const char *name);
/* ch_deepseek_row returns the stored row that becomes row `row`; ch_deepseek_scale returns its factor. */
int64_t ch_deepseek_row(const ch_deepseek_layout *layout, const char *name, int64_t row);
double ch_deepseek_scale(const ch_deepseek_layout *layout, const char *name, int64_t row);
/* Returns true if the tensor computes a latent that a norm follows. */
bool ch_deepseek_makes_latent(const char *name);

#endif
