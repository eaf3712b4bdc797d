/* Qwen3's mixtures of experts: the keys that its dense models do not have. */
#ifndef CH_CONFIG_FILE_QWEN3_MOE_H
#define CH_CONFIG_FILE_QWEN3_MOE_H

#include "config_file/keys.h"

/* The defaults of transformers' class of Qwen3's mixtures of experts. */
extern const ch_moe_config ch_qwen3_moe_defaults;

/* Reads the keys of experts. Call it after the keys that all families share are read. */
ch_status ch_config_read_qwen3_moe(const json_t *root, const char *where, ch_config *config, ch_error *error);
/* Returns the key of a config that the family cannot express, or NULL. */
const char *ch_config_check_qwen3_moe(const ch_config *config);
void ch_config_put_qwen3_moe(const ch_config *config, ch_text *json);

#endif
