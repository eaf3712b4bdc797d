/* The crosshead program. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "cli/command.h"

/* GCC's OpenMP lets waiting threads spin for milliseconds, which on a machine that others use too takes the processor
   from the thread that is waited for: training becomes many times slower. It reads its settings before main, hence the
   program starts itself once more with a short spin, unless the user has chosen. Without /proc it goes on as it is. */
static void spin_shortly(char **argv) {
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  if (setenv("GOMP_SPINCOUNT", "10000", 0) == 0) execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
  spin_shortly(argv);
  return ch_command_main(argc, argv);
}
