/* The keys of a rotation in Hugging Face's files: its type, and YaRN's factor if it is left out. */
#ifndef CH_CONFIG_FILE_ROPE_KEYS_H
#define CH_CONFIG_FILE_ROPE_KEYS_H

#include <jansson.h>

/* Returns the type of a "rope_scaling" or "rope_parameters", also under the older key, or NULL if it has
   none. */
const char *ch_config_rope_type(const json_t *rope);
/* Replaces a null factor of YaRN by the one that stretches the original context to the model's: `context` of
   the top of the file, or that of `rope` if it is NULL or null. */
void ch_config_settle_factor(const json_t *root, const json_t *context, json_t *rope);

#endif
