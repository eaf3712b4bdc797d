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

/* Settings that libraries read before main; what the user has chosen stays. Hence the program starts itself once more.
   Without /proc it goes on as it is.
   GCC's OpenMP lets waiting threads spin for milliseconds, which on a machine that others use too takes the processor
   from the thread that is waited for: training becomes many times slower.
   OpenBLAS, which comes with LAPACK, has its threads wait for memory where that is limited, and the program's end waits
   for them: forever. Only compress has work for them. */
static void set_up_threads(int argc, char **argv) {
  bool changed = !getenv("OMP_WAIT_POLICY") && newly_set("GOMP_SPINCOUNT", "10000");
  if (argc < 2 || strcmp(argv[1], "compress") != 0) changed |= newly_set("OPENBLAS_NUM_THREADS", "1");
  if (changed) execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
  set_up_threads(argc, argv);
  return ch_command_main(argc, argv);
}
