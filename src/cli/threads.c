/* Sets --threads: engines read this number when they are created (tensor/team.h). */
#include <omp.h>

#include "cli/command.h"

void ch_cli_threads(int64_t threads) {
  omp_set_num_threads((int)threads);
}
