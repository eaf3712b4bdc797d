/* Cuts the layers into groups of consecutive layers with the least drift inside groups. */
#ifndef CH_COMPRESS_LAYER_GROUPS_H
#define CH_COMPRESS_LAYER_GROUPS_H

#include <stdint.h>

#include "base/error.h"

/* Cuts `layers` into `groups` groups so that the drift inside groups has the smallest sum and, among equal
 * sums, the largest group is smallest. drift [layers - 1]: distance of layer l + 1 from layer l; NULL: groups
 * of equal size (the first ones one larger). spans [groups][2]: first and last layer of each. */
ch_status ch_group_layers(const double *drift, int layers, int groups, uint16_t spans[][2], ch_error *error);

#endif
