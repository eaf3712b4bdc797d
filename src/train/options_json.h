/* Options as JSON, for checkpoints and logs, and the check that a resumed run does not change them. */
#ifndef CH_TRAIN_OPTIONS_JSON_H
#define CH_TRAIN_OPTIONS_JSON_H

#include <jansson.h>

#include "train/options.h"

/* Converts a config to JSON, with every key written as in this version. Returns NULL if out of memory. */
json_t *ch_config_to_json(const ch_config *config);

/* Converts options to JSON, one member per option. whole_tables, and options of images that are 0, are left
   out. Returns NULL if out of memory. */
json_t *ch_train_options_to_json(const ch_train_options *options);
/* Reads options. Every member must exist, except those of images and whole_tables, which is never stored. `where`
   names the file in messages. */
ch_status ch_train_options_from_json(const json_t *object, const char *where, ch_train_options *options,
                                     ch_error *error);
/* Fails with CH_ERROR_ARGUMENT if options marked [same] differ. The message names the first of them. */
ch_status ch_train_options_match(const ch_train_options *stored, const ch_train_options *asked,
                                 const char *where, ch_error *error);

#endif
