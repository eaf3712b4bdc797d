/* A directory for the files of one test program. The group's set-up creates it, and its tear-down removes it with its
 * contents. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];

static inline int make_root(void **state) {
  (void)state;
  strcpy(root, "/tmp/crosshead-test-XXXXXX");
  return mkdtemp(root) ? 0 : -1;
}

static inline int remove_root(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return system(command);
}

/* Returns ROOT/NAME, valid for the next 63 calls. */
static inline const char *in_root(const char *name) {
  static char paths[64][160];
  static int next;
  next = (next + 1) % 64;
  snprintf(paths[next], sizeof paths[next], "%s/%s", root, name);
  return paths[next];
}

#endif
