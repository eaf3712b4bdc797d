/* DeepSeek-V2's and V3's configs: latent attention, experts by groups. */
#ifndef CH_CONFIG_FILE_DEEPSEEK_H
#define CH_CONFIG_FILE_DEEPSEEK_H

#include "config_file/keys.h"

/* The values of absent keys in the configuration class, and the constants of the architecture. */
typedef struct ch_deepseek_family {
  int64_t expert_intermediate_size, shared, experts, active, groups, active_groups, first_dense_layers;
  double scale;
  bool renormalise, sigmoid; /* scores are sigmoids with a correction of the choice, else softmax */
} ch_deepseek_family;

extern const ch_deepseek_family ch_deepseek_v2, ch_deepseek_v3;

/* Reads the keys that other families do not have, after those that all have. */
ch_status ch_config_read_deepseek(const ch_deepseek_family *of, const json_t *root, const char *where,
                                  ch_config *config, ch_error *error);
/* Returns the key of a config that the family cannot express, or NULL. */
const char *ch_config_check_deepseek(const ch_deepseek_family *of, const ch_config *config);
/* Sets members of a config that the family always has, if that changes no logit: how training balances
   experts, and names of sizes. */
void ch_config_spell_deepseek(const ch_deepseek_family *of, ch_config *config);
void ch_config_put_deepseek(const ch_deepseek_family *of, const ch_config *config, ch_text *json);

#endif
