/* The golden cases (shared/vectors, next to the checkout) that await a mechanism that the program does not have yet. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* tests/data/golden_pending.txt lists them, one name per line. The rest must pass. */
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
