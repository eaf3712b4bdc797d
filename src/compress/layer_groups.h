/* Cutting the layers into groups of consecutive ones that drift least inside. */
#ifndef CH_COMPRESS_LAYER_GROUPS_H
#define CH_COMPRESS_LAYER_GROUPS_H

#include <stdint.h>

#include "base/error.h"

/* Cuts `layers` into `groups` groups so that the steps inside groups have the smallest sum and, among equal
 * sums, the largest group is smallest. drift [layers - 1]: how far layer l + 1 is from layer l; NULL: groups
 * of equal size (the first ones one larger). spans [groups][2]: first and last layer of each. */
ch_status ch_group_layers(const double *drift, int layers, int groups, uint16_t spans[][2], ch_error *error);

#endif
