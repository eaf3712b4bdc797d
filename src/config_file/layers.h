/* The rules of layers that differ: sliding windows, states of a fixed size, and groups that share keys and
   values. */
#ifndef CH_CONFIG_FILE_LAYERS_H
#define CH_CONFIG_FILE_LAYERS_H

#include "config/config.h"

/* With a mechanism that has groups of layers of its own ("layer_group_size"), "kv_layer_group" is another
   name for them. An error if both are given and differ. */
ch_status ch_config_settle_layer_groups(ch_config *config, const char *where, ch_error *error);

/* Checks windows, sinks, sink logits, linear layers and groups of layers: an error names the two keys that
   contradict. The mechanism must be a registered one. */
ch_status ch_config_check_layers(const ch_config *config, const char *where, ch_error *error);

#endif
