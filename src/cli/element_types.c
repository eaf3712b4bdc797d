/* Element types that commands write matrices in, by the names of --dtype. */
#include "cli/element_types.h"

#include <string.h>

enum { TYPES = 3 };
const char *const ch_element_type_names[TYPES + 1] = {"f32", "f16", "bf16", NULL};
const char *const ch_compute_names[] = {"f32", "bf16", NULL};
static const ch_dtype types[TYPES] = {CH_F32, CH_F16, CH_BF16};

const ch_dtype *ch_element_type(const char *name) {
  for (int i = 0; name && i < TYPES; i++)
    if (strcmp(name, ch_element_type_names[i]) == 0) return &types[i];
  return NULL;
}

const char *ch_element_type_name(ch_dtype dtype) {
  for (int i = 0; i < TYPES; i++)
    if (types[i] == dtype) return ch_element_type_names[i];
  return NULL;
}

ch_dtype ch_compute_type(const char *name) {
  return strcmp(name, "bf16") == 0 ? CH_BF16 : CH_F32;
}
