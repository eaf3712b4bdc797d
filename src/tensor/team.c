/* Teams of threads: their default size, starting them, and OpenMP's number of threads. */
#include "tensor/team.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

#include "tensor/watch.h"

const ch_team ch_alone = {1, 1, NULL};

ch_team ch_team_of(int threads) {
  int count = threads > 0 ? threads : omp_get_max_threads();
  return (ch_team){count, count, NULL};
}

/* Waits until all threads have started. */
static void *wait_for_all(void *all) {
  pthread_mutex_lock(all);
  pthread_mutex_unlock(all);
  return NULL;
}

/* Returns how many further threads can start, up to `wanted`. */
static int possible_threads(int wanted) {
  pthread_t *threads = calloc((size_t)wanted, sizeof *threads);
  pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
  int made = 0;
  if (!threads) return 0;
  pthread_mutex_lock(&all);
  while (made < wanted && pthread_create(&threads[made], NULL, wait_for_all, &all) == 0) made++;
  pthread_mutex_unlock(&all);
  for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
  free(threads);
  return made;
}

ch_status ch_team_start(const ch_team *team, ch_error *error) {
  int others = team->threads - 1;
  int possible = others > 0 ? possible_threads(others) : 0;
  if (possible < others)
    return ch_fail(error, CH_ERROR_MEMORY,
                   "%d threads were requested, but the system gives this process at most %d; request fewer "
                   "({threads}), or raise its memory limit",
                   team->threads, possible + 1);
#pragma omp parallel num_threads(team->threads)
  {}
  return CH_OK;
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
