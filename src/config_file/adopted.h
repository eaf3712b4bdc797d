/* Hugging Face families that become models of our own: what is special about them is a key that our
 * configurations have too. Their files keep their own names of tensors (io/tensor_layout.h). */
#ifndef CH_CONFIG_FILE_ADOPTED_H
#define CH_CONFIG_FILE_ADOPTED_H

#include "base/text.h"
#include "config_file/keys.h"

/* Returns true if the table has a family of this "model_type". */
bool ch_config_is_adopted(const char *model_type);
/* Returns true if the layers with a window of a "model_type" turn otherwise than the others. */
bool ch_config_turns_by_layer(const char *model_type);
/* Reads a config.json of config->model_type, one of them: the result has model_type "crosshead" and the
   family as its `layout`. Unknown keys are ignored, as in other families' files. */
ch_status ch_config_adopt(const json_t *root, const char *where, ch_config *config, ch_error *error);
/* Returns the family, one of them, whose config.json can express one of our own configurations; NULL if there
   is none. json: that config.json, or NULL; the caller releases it with ch_text_free. */
const char *ch_config_spell_adopted(const ch_config *config, ch_text *json);

#endif
