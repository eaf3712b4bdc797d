/* Cutting the layers into groups of consecutive ones that drift least inside. */
#ifndef CH_COMPRESS_LAYER_GROUPS_H
#define CH_COMPRESS_LAYER_GROUPS_H

#include <stdint.h>

#include "base/error.h"

/* drift [layers - 1]: how far layer l + 1 is from layer l; NULL: groups of equal size (the first ones one larger). Of
 * all ways to cut `layers` into `groups` groups the one whose steps inside groups sum to the least, then whose
 * largest group is smallest. spans [groups][2]: first and last layer of each. */
ch_status ch_group_layers(const double *drift, int layers, int groups, uint16_t spans[][2], ch_error *error);

#endif
