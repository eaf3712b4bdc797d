/* Options as JSON, for checkpoints and logs, and the check that a resumed run keeps them. */
#ifndef CH_TRAIN_OPTIONS_JSON_H
#define CH_TRAIN_OPTIONS_JSON_H

#include <jansson.h>

#include "train/options.h"

/* A config with every key written the way this version writes it; NULL when out of memory. */
json_t *ch_config_to_json(const ch_config *config);

/* A new object with one member per option; NULL when out of memory. */
json_t *ch_train_options_to_json(const ch_train_options *options);
/* Every member must be there; `where` names the file in messages. */
ch_status ch_train_options_from_json(const json_t *object, const char *where, ch_train_options *options,
                                     ch_error *error);
/* CH_ERROR_ARGUMENT naming the first option that decides the result and differs. */
ch_status ch_train_options_match(const ch_train_options *stored, const ch_train_options *asked,
                                 const char *where, ch_error *error);

#endif
