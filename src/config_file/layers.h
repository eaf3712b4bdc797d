/* The rules of layers that differ: sliding windows, states of a fixed size, and groups that share keys and
   values. */
#ifndef CH_CONFIG_FILE_LAYERS_H
#define CH_CONFIG_FILE_LAYERS_H

#include "config/config.h"

/* Copies "kv_layer_group" to "layer_group_size" for mechanisms with their own groups of layers; it is another
   name for them. Fails if both are given and differ. */
ch_status ch_config_settle_layer_groups(ch_config *config, const char *where, ch_error *error);

/* Checks windows, sinks, sink logits, linear layers and groups of layers: an error names the two keys that
   contradict. The mechanism must be a registered one. */
ch_status ch_config_check_layers(const ch_config *config, const char *where, ch_error *error);

#endif
