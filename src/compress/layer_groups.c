/* Cuts layers into groups that share atoms, with the least drift of the stream within groups, by dynamic programming
 * over the ends of groups. */
#include "compress/layer_groups.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static void equal_groups(int layers, int groups, uint16_t spans[][2]) {
  for (int g = 0, first = 0; g < groups; g++) {
    int size = layers / groups + (g < layers % groups);
    spans[g][0] = (uint16_t)first;
    spans[g][1] = (uint16_t)(first + size - 1);
    first += size;
  }
}

/* The best cut of layers 0 ... end - 1 into g groups. */
typedef struct cut {
  double drift; /* sum of drift within groups */
  /* largest: number of layers of the largest group; begins: first layer of the last group */
  int largest, begins;
} cut;

static bool better(const cut *a, const cut *b) {
  return a->drift < b->drift || (a->drift == b->drift && a->largest < b->largest);
}

ch_status ch_group_layers(const double *drift, int layers, int groups, uint16_t spans[][2], ch_error *error) {
  if (groups < 1 || groups > layers)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%d layers make 1 to %d groups, not %d", layers, layers, groups);
  if (!drift) {
    equal_groups(layers, groups, spans);
    return CH_OK;
  }
  size_t stride = (size_t)layers + 1;
  cut *cuts = calloc(stride * ((size_t)groups + 1), sizeof *cuts);
  if (!cuts) return ch_no_memory(error);
  for (int g = 0; g <= groups; g++)
    for (int end = 0; end <= layers; end++)
      cuts[(size_t)g * stride + (size_t)end].drift = g == 0 && end == 0 ? 0 : INFINITY;
  for (int g = 1; g <= groups; g++)
    for (int end = g; end <= layers; end++) {
      cut *best = &cuts[(size_t)g * stride + (size_t)end];
      double inside = 0;
      for (int begins = end - 1; begins >= g - 1; begins--) {
        const cut *before = &cuts[(size_t)(g - 1) * stride + (size_t)begins];
        int size = end - begins;
        cut here = {before->drift + inside, size > before->largest ? size : before->largest, begins};
        if (better(&here, best)) *best = here;
        if (begins > 0) inside += drift[begins - 1];
      }
    }
  for (int g = groups, end = layers; g > 0; g--) {
    int begins = cuts[(size_t)g * stride + (size_t)end].begins;
    spans[g - 1][0] = (uint16_t)begins;
    spans[g - 1][1] = (uint16_t)(end - 1);
    end = begins;
  }
  free(cuts);
  return CH_OK;
}
