/* Golden cases (shared/vectors, next to the checkout) of mechanisms that the program does not have yet. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Returns true if tests/data/golden_pending.txt, which has one name per line, lists the case. All others must
   pass. */
static inline bool golden_case_is_pending(const char *name) {
  FILE *file = fopen(TEST_DATA "/golden_pending.txt", "r");
  char line[128];
  bool pending = false;
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    pending |= strcmp(line, name) == 0;
  }
  if (file) fclose(file);
  return pending;
}

#endif
