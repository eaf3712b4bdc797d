/* How many threads compute: asked of OpenMP here and nowhere else. */
#include "tensor/team.h"

#include <omp.h>
#include <stddef.h>

#include "tensor/watch.h"

const ch_team ch_alone = {1, 1, NULL};

ch_team ch_team_of(int threads) {
  int count = threads > 0 ? threads : omp_get_max_threads();
  return (ch_team){count, count, NULL};
}

bool ch_team_stops(const ch_team *team) {
  if (!team->watch) return false;
  if (omp_get_thread_num() == 0) return ch_watch_stops(team->watch);
  return atomic_load_explicit(&team->watch->stopped, memory_order_relaxed);
}

ch_team_before ch_team_enter(const ch_team *team) {
  ch_team_before before = {omp_get_max_threads()};
  omp_set_num_threads(team->workers);
  return before;
}

void ch_team_leave(ch_team_before before) {
  omp_set_num_threads(before.threads);
}
