/* Keys of a rotation in Hugging Face's files: its type, and YaRN's factor if it is null. */
#ifndef CH_CONFIG_FILE_ROPE_KEYS_H
#define CH_CONFIG_FILE_ROPE_KEYS_H

#include <jansson.h>

/* Returns "rope_type", or the older "type", of a "rope_scaling" or "rope_parameters". NULL if it has neither. */
const char *ch_config_rope_type(const json_t *rope);
/* Replaces a null factor of YaRN by max_position_embeddings / original context. The original context is `context`,
   from the top level of the file, or that of `rope` if `context` is NULL or null. */
void ch_config_settle_factor(const json_t *root, const json_t *context, json_t *rope);

#endif
