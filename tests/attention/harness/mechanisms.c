/* The list of tested mechanisms, which CMake generates from the files of attention/mechanisms. */
#include <string.h>

#include "attention/mechanisms/mechanism.h"
#include "mechanism_list.h"

#define DECLARE(name) extern const tested_mechanism tested_##name;
#define ADDRESS(name) &tested_##name,

TESTED_MECHANISMS(DECLARE)
static const tested_mechanism *const mechanisms[] = {TESTED_MECHANISMS(ADDRESS) NULL};

const tested_mechanism *const *tested_mechanisms(void) {
  return mechanisms;
}

const tested_mechanism *tested_mechanism_find(const char *name) {
  for (const tested_mechanism *const *m = mechanisms; *m; m++)
    if (strcmp((*m)->name, name) == 0) return *m;
  return NULL;
}
