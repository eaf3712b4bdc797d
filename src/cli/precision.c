/* Finds element types by name. */
#include "cli/precision.h"

#include <string.h>

const char *const ch_element_type_names[] = {"f32", "f16", "bf16", NULL};
const char *const ch_compute_names[] = {"f32", "bf16", NULL};

ch_precision ch_precision_of(const char *name) {
  static const struct {
    const char *name;
    ch_precision precision;
  } known[] = {{"f32", CH_PRECISION_F32},   {"f16", CH_PRECISION_F16},   {"bf16", CH_PRECISION_BF16},
               {"q8_0", CH_PRECISION_Q8_0}, {"q4_0", CH_PRECISION_Q4_0}, {"q6_k", CH_PRECISION_Q6_K},
               {"q4_k", CH_PRECISION_Q4_K}, {"f64", CH_PRECISION_F64}};
  for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return known[i].precision;
  return CH_PRECISION_DEFAULT;
}
