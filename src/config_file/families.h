/* Hugging Face families: llama, qwen2, qwen3, qwen3_moe, mistral, deepseek_v2 and deepseek_v3 of text, and vit of
 * images. adopted.h has the families that are read as Crosshead models. */
#ifndef CH_CONFIG_FILE_FAMILIES_H
#define CH_CONFIG_FILE_FAMILIES_H

#include "config_file/keys.h"

/* Reads a config.json of one of the families, adopted ones too, with its defaults. Unknown keys are ignored. */
ch_status ch_config_read_family(const json_t *root, const char *where, ch_config *config, ch_error *error);
/* Checks that the Hugging Face family of the config's model_type can express the rest of the config. */
ch_status ch_config_check_family(const ch_config *config, const char *where, ch_error *error);
/* Resets members that the family does not store and no logit depends on. */
void ch_config_spell_family(ch_config *config);
void ch_config_put_family(const ch_config *config, ch_text *json);

#endif
