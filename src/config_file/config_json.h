/* config.json: reading, checking and writing a model's configuration. */
#ifndef CH_CONFIG_FILE_CONFIG_JSON_H
#define CH_CONFIG_FILE_CONFIG_JSON_H

#include "base/text.h"
#include "config/config.h"

/* Parses and validates the text of a config.json; `where` names the file in messages. Unknown keys are errors
   in our own configs (the message names the nearest known key); in Hugging Face configs they are ignored
   unless they change the result. */
ch_status ch_config_parse(const char *text, const char *where, ch_config *config, ch_error *error);
/* Reads DIR/config.json, or PATH itself if it is a file. */
ch_status ch_config_read(const char *path, ch_config *config, ch_error *error);
/* Checks that the values make a model (positive sizes, G divides H, even rotary dims, ...). */
ch_status ch_config_validate(const ch_config *config, const char *where, ch_error *error);
/* Writes the config as config.json text in the layout of its model_type. */
void ch_config_write(const ch_config *config, ch_text *json);

/* Sets the default of every key that has one; sizes are 0. ch_config_defaults_for_images sets the defaults of
   a "crosshead_vit", ch_config_defaults_of those of a model_type. */
void ch_config_defaults(ch_config *config);
void ch_config_defaults_for_images(ch_config *config);
void ch_config_defaults_of(ch_config *config, const char *model_type);

#endif
