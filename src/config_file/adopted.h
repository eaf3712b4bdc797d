/* Hugging Face families that are read as Crosshead models, because Crosshead's configuration has keys for all of
 * their features. Their files keep the family's names of tensors (io/tensor_layout.h). */
#ifndef CH_CONFIG_FILE_ADOPTED_H
#define CH_CONFIG_FILE_ADOPTED_H

#include "base/text.h"
#include "config_file/keys.h"

/* Returns true if the table has a family of this "model_type". */
bool ch_config_is_adopted(const char *model_type);
/* Returns true if the layers with a window of a "model_type" may have a different rotation than the other layers. */
bool ch_config_turns_by_layer(const char *model_type);
/* Reads a config.json of config->model_type, an adopted family. The result has model_type "crosshead" and the
   family as its `layout`. Unknown keys are ignored. */
ch_status ch_config_adopt(const json_t *root, const char *where, ch_config *config, ch_error *error);
/* Returns the adopted family whose config.json can express a Crosshead configuration, or NULL if there is none.
   json, if not NULL, receives that config.json; release it with ch_text_free. */
const char *ch_config_spell_adopted(const ch_config *config, ch_text *json);

#endif
