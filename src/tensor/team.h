/* The threads that a computation is planned for, and those that compute now.
 *
 * `threads` decides how much scratch memory an operation gets and in which order partial sums are added. It
 * stays the same from planning to the last run, so results do not depend on how busy the machine is.
 * `workers` of these threads compute at the moment: fewer while other programs use the processors
 * (tensor/governor.h). Every kernel receives its team; none uses OpenMP's default number of threads. */
#ifndef CH_TENSOR_TEAM_H
#define CH_TENSOR_TEAM_H

#include <stdbool.h>

#include <crosshead/common.h>

struct ch_watch;

typedef struct ch_team {
  int threads;            /* threads that work is planned for, at least 1 */
  int workers;            /* threads that compute now: 1 ... threads */
  struct ch_watch *watch; /* stops the team's computation on request (tensor/watch.h), or NULL */
} ch_team;

/* Returns true if the team was stopped. Loops over long tasks then skip the rest. The results are incomplete,
   and the run ends with CH_ERROR_INTERRUPTED. */
bool ch_team_stops(const ch_team *team);

/* Creates a team of `threads` threads. 0: as many as OpenMP would give the calling thread (OMP_NUM_THREADS,
   else all processors). */
ch_team ch_team_of(int threads);

/* Starts the team's threads, which OpenMP keeps for the calling thread. Fails with CH_ERROR_MEMORY if the
   system cannot start them; OpenMP itself would end the process. */
ch_status ch_team_start(const ch_team *team, ch_error *error);

/* One thread: for kernels that are called by a thread of a parallel region, and for little work. */
extern const ch_team ch_alone;

/* The calling thread's default team, for one call of a kernel outside an engine. */
#define ch_team_here() ((const ch_team[1]){ch_team_of(0)})

/* The settings of a caller's thread before ch_team_enter. */
typedef struct ch_team_before {
  int threads; /* OpenMP's maximum number of threads */
} ch_team_before;

/* Gives the calling thread's OpenMP regions, the GEMM library's among them, team->workers threads until
   ch_team_leave. */
ch_team_before ch_team_enter(const ch_team *team);
void ch_team_leave(ch_team_before before);

#endif
