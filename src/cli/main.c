/* The crosshead program. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

/* Sets an environment variable unless it has a value. Returns true if it was set. */
static bool newly_set(const char *name, const char *value) {
  return !getenv(name) && setenv(name, value, 1) == 0;
}

/* Sets variables that libraries read before main, unless the user has set them, and executes the program again. If
   /proc is missing, the program continues without them. GOMP_SPINCOUNT: GCC's OpenMP lets waiting threads spin for
   milliseconds. On a busy machine they block the processor that the last thread needs, and training becomes many
   times slower. OPENBLAS_NUM_THREADS: if memory is limited, OpenBLAS's threads can wait forever for memory and keep
   the program from exiting. Only compress uses these threads. */
int main(int argc, char **argv) {
  bool changed = !getenv("OMP_WAIT_POLICY") && newly_set("GOMP_SPINCOUNT", "10000");
  if (argc < 2 || strcmp(argv[1], "compress") != 0) changed |= newly_set("OPENBLAS_NUM_THREADS", "1");
  if (changed) execv("/proc/self/exe", argv);
  return ch_command_main(argc, argv);
}
