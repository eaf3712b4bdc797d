/* The job of this process. */
#include "cli/job.h"

#include <unistd.h>

#include "base/error.h"

static ch_rank_group *job;
static bool joined = true; /* false: a launcher started this process, and it could not join */

/* Seconds after which a launcher has ended a job whose first process could not join. */
enum { LAUNCHER_NOTICES = 2 };

ch_status ch_job_join(ch_error *error) {
  ch_status status = ch_ranks_join(&job, error);
  joined = status == CH_OK;
  int rank = ch_ranks_expected_rank();
  if (joined || rank == 0) return status;
  /* If none can join, the first has said so by then. If this one alone cannot, nobody else knows why. */
  sleep(LAUNCHER_NOTICES);
  ch_error reason = *error;
  return ch_fail(error, status, "rank %d: %s", rank, reason.message);
}

ch_status ch_job_fork(int count, ch_error *error) {
  return ch_ranks_fork(count, &job, error);
}

void ch_job_leave(void) {
  ch_ranks_leave(job);
  job = NULL;
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
