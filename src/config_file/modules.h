/* The rules for combining modules with mechanisms and with each other, and the rules of the `sharing` object. */
#ifndef CH_CONFIG_FILE_MODULES_H
#define CH_CONFIG_FILE_MODULES_H

#include "config/config.h"

/* Checks the modules in the `attention` object, and the top-level keys that only some mechanisms support, against the
   type of attention. An error names the two keys that contradict each other. The type must be a registered one. */
ch_status ch_config_check_modules(const ch_config *config, const char *where, ch_error *error);

/* Checks the keys of the `sharing` object against its type and the number of layers. ch_check_shared_projections
   (attention/registry.h) checks that the mechanism has the named projections. */
ch_status ch_config_check_sharing(const ch_config *config, const char *where, ch_error *error);

#endif
