/* The job of this process. */
#include "cli/job.h"

#include <stddef.h>

static ch_rank_group *job;
static bool joined = true; /* false: a launcher started this process, and it could not join */

ch_status ch_job_join(ch_error *error) {
  ch_status status = ch_ranks_join(&job, error);
  joined = status == CH_OK;
  return status;
}

void ch_job_leave(void) {
  ch_ranks_leave(job);
  job = NULL;
}

ch_rank_group *ch_job_ranks(void) {
  return job;
}

/* Processes that cannot join all have the same to say, and the first says it. */
bool ch_job_leads(void) {
  return joined ? ch_ranks_rank(job) == 0 : ch_ranks_expected_rank() == 0;
}

ch_status ch_job_agree(ch_status status, ch_error *error) {
  return ch_ranks_agree(job, status, error);
}

int ch_job_signal(int number) {
  return ch_ranks_largest(job, number);
}
