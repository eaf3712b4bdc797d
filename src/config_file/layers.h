/* The rules of layers that differ: sliding windows, linear layers, and groups that share keys and values. */
#ifndef CH_CONFIG_FILE_LAYERS_H
#define CH_CONFIG_FILE_LAYERS_H

#include "config/config.h"

/* Moves the value of "kv_layer_group" to "layer_group_size" for mechanisms that have the latter key. Fails if it is
   larger than the number of layers, or if both keys are given and differ. */
ch_status ch_config_settle_layer_groups(ch_config *config, const char *where, ch_error *error);

/* Checks windows, sinks, sink logits, linear layers and groups of layers. An error names the two keys that
   contradict each other. The mechanism must be a registered one. */
ch_status ch_config_check_layers(const ch_config *config, const char *where, ch_error *error);

#endif
