/* The job of this process: a single process, a rank of mpirun, or one of several processes that the program started.
 * Rank 0 prints and writes. All ranks agree on the outcome. */
#define _GNU_SOURCE
#include "cli/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

static ch_rank_group *job;
static bool joined = true; /* false if a launcher started this process, but it could not join the others */

/* Seconds within which a launcher ends a job whose first process could not join. */
enum { LAUNCHER_NOTICES = 2 };

ch_status ch_job_join(ch_error *error) {
  ch_status status = ch_ranks_join(&job, error);
  joined = status == CH_OK;
  int rank = ch_ranks_expected_rank();
  if (joined || rank == 0) return status;
  /* If no process can join, the first one has reported it by now. Otherwise this process must report it. */
  sleep(LAUNCHER_NOTICES);
  char place[32];
  snprintf(place, sizeof place, "rank %d", rank);
  return ch_fail_in(error, place);
}

/* Connects every two processes by a pair of sockets. ends [count][count]: row a, column b is the socket that process
   a uses to reach process b; -1 if a is b. */
static bool connect_all(int count, int *ends) {
  for (int i = 0; i < count * count; i++) ends[i] = -1;
  for (int a = 0; a < count; a++)
    for (int b = a + 1; b < count; b++) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
      ends[a * count + b] = pair[0];
      ends[b * count + a] = pair[1];
    }
  return true;
}

/* Forks this process into `count` processes. Returns the number of the process, 0 in the first one, or -1 if one
   could not start. */
static int fork_all(int count) {
  pid_t parent = getpid();
  fflush(NULL);
  for (int r = 1; r < count; r++) {
    pid_t child = fork();
    if (child < 0) return -1;
    if (child > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(EXIT_FAILURE);
    return r;
  }
  return 0;
}

ch_status ch_job_fork(int count, ch_error *error) {
  int *ends = calloc((size_t)count * (size_t)count, sizeof *ends), rank = -1;
  if (!ends) return ch_no_memory(error);
  if (connect_all(count, ends)) rank = fork_all(count);
  for (int i = 0; i < count * count; i++)
    if (ends[i] >= 0 && i / count != rank) close(ends[i]);
  ch_status status =
      rank < 0 ? ch_fail(error, CH_ERROR_IO, "cannot start %d processes: %s", count, strerror(errno))
               : ch_ranks_over_sockets(rank, count, ends + rank * count, &job, error);
  free(ends);
  return status;
}

void ch_job_leave(void) {
  bool waits = job && ch_job_leads();
  ch_ranks_leave(job);
  job = NULL;
  while (waits && (wait(NULL) > 0 || errno == EINTR)) continue; /* waits for the processes of ch_job_fork */
}

ch_rank_group *ch_job_ranks(void) {
  return job;
}

bool ch_job_leads(void) {
  return !joined || ch_ranks_rank(job) == 0;
}

ch_status ch_job_agree(ch_status status, ch_error *error) {
  return ch_ranks_agree(job, status, error);
}

int ch_job_signal(int number) {
  return ch_ranks_largest(job, number);
}
