/* The team of threads that tests of kernels use. It has OpenMP's number of threads. */
#ifndef TESTS_TEAM_TESTING_H
#define TESTS_TEAM_TESTING_H

#include "tensor/team.h"

static inline ch_team *all_threads(void) {
  static ch_team team;
  team = ch_team_of(0);
  return &team;
}

#endif
