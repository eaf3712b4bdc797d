/* --cache-dtype: what the cache stores, for all states or apart for keys, values and latents. */
#ifndef CH_CLI_CACHE_TYPES_H
#define CH_CLI_CACHE_TYPES_H

#include "config/config.h"
#include "graph/cache.h"

/* Of the option table: what --help shows. */
#define CH_CACHE_TYPES_METAVAR "TYPES"
#define CH_CACHE_TYPES_HELP                                                                                  \
  "How cached states are stored: f32, bf16, f16, q8_0 or q4_0, or apart for keys, values and latents, as "   \
  "k=q8_0,v=q4_0 or latent=bf16."

/* Types by names, from left to right: "q8_0", "k=q8_0,v=q4_0", "bf16,v=q4_0". What is not named is `otherwise`. Naming states
   that the model's cache does not hold is an error. */
ch_status ch_cache_types_read(const char *text, ch_dtype otherwise, const ch_config *config,
                              ch_cache_types *types, ch_error *error);

#endif
