/* The crosshead program. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

/* Returns true if the variable had no value and has one now. */
static bool newly_set(const char *name, const char *value) {
  return !getenv(name) && setenv(name, value, 1) == 0;
}

/* Sets variables that libraries read before main, unless the user has set them, and executes the program
   again. Without /proc the program continues without them. GCC's OpenMP lets waiting threads spin for
   milliseconds. On a busy machine they block the processor that the last thread needs, and training becomes
   many times slower. If memory is limited, OpenBLAS's threads wait forever for memory, and the program could
   not exit. Only compress uses them. */
int main(int argc, char **argv) {
  bool changed = !getenv("OMP_WAIT_POLICY") && newly_set("GOMP_SPINCOUNT", "10000");
  if (argc < 2 || strcmp(argv[1], "compress") != 0) changed |= newly_set("OPENBLAS_NUM_THREADS", "1");
  if (changed) execv("/proc/self/exe", argv);
  return ch_command_main(argc, argv);
}
