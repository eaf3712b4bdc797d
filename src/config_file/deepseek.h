/* DeepSeek-V2's and V3's configs: latent attention, groups of experts. */
#ifndef CH_CONFIG_FILE_DEEPSEEK_H
#define CH_CONFIG_FILE_DEEPSEEK_H

#include "config_file/keys.h"

/* Defaults of the configuration class, and constants of the architecture. */
typedef struct ch_deepseek_family {
  int64_t expert_intermediate_size, shared, experts, active, groups, active_groups, first_dense_layers;
  double scale;
  /* sigmoid: true if scores are sigmoids, with a bias for the choice; false: softmax */
  bool renormalise, sigmoid;
} ch_deepseek_family;

extern const ch_deepseek_family ch_deepseek_v2, ch_deepseek_v3;

/* Reads the keys that only DeepSeek's families have. Call it after the keys that all families share are read. */
ch_status ch_config_read_deepseek(const ch_deepseek_family *of, const json_t *root, const char *where,
                                  ch_config *config, ch_error *error);
/* Returns the key of a config that the family cannot express, or NULL. */
const char *ch_config_check_deepseek(const ch_deepseek_family *of, const ch_config *config);
/* Sets members that no logit depends on to the family's values: the balancing of experts, head_dim. */
void ch_config_spell_deepseek(const ch_deepseek_family *of, ch_config *config);
void ch_config_put_deepseek(const ch_deepseek_family *of, const ch_config *config, ch_text *json);

#endif
