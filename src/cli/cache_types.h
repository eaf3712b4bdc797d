/* Parses --cache-dtype: one type for all states, or types for keys, values and latents. */
#ifndef CH_CLI_CACHE_TYPES_H
#define CH_CLI_CACHE_TYPES_H

#include <crosshead/model.h>

/* The option's value and sentence in --help. */
#define CH_CACHE_TYPES_METAVAR "TYPES"
#define CH_CACHE_TYPES_HELP                                                                                  \
  "Element type of the cache: f32, bf16, f16, q8_0 or q4_0, or separately for keys, values and latents, as " \
  "in k=q8_0,v=q4_0 or latent=bf16."

typedef struct ch_cache_choice {
  ch_precision keys, values, latents;
} ch_cache_choice;

/* Reads types from left to right: "q8_0", "k=q8_0,v=q4_0", "bf16,v=q4_0". Roles without a type get `otherwise`.
   `held`: the states in the model's cache (ch_model_cache_roles). Naming other states is an error. */
ch_status ch_cache_choice_read(const char *text, ch_precision otherwise, unsigned held,
                               ch_cache_choice *choice, ch_error *error);

#endif
