/* config.json: reading, checking and writing a model's configuration. */
#ifndef CH_CONFIG_FILE_CONFIG_JSON_H
#define CH_CONFIG_FILE_CONFIG_JSON_H

#include "base/text.h"
#include "config/config.h"

/* Parses and validates the text of a config.json; `where` names the file in messages. In Crosshead's own configs,
   unknown keys are errors that name the nearest known key. In Hugging Face configs they are ignored. */
ch_status ch_config_parse(const char *text, const char *where, ch_config *config, ch_error *error);
/* Reads config.json in the directory `path`, or `path` itself if it is a file. */
ch_status ch_config_read(const char *path, ch_config *config, ch_error *error);
/* Checks that the values make a model (positive sizes, G divides H, even rotary dims, ...). */
ch_status ch_config_validate(const ch_config *config, const char *where, ch_error *error);
/* Writes the config as config.json text in the layout of its model_type. */
void ch_config_write(const ch_config *config, ch_text *json);

/* Sets the default of every key of a text model; sizes without a default are 0. */
void ch_config_defaults(ch_config *config);
/* Sets the defaults of a "crosshead_vit". */
void ch_config_defaults_for_images(ch_config *config);
/* Sets the defaults of a model_type. */
void ch_config_defaults_of(ch_config *config, const char *model_type);

#endif
