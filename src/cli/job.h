/* The processes that run one command together. A launcher (mpirun, srun) or ch_job_fork started them. */
#ifndef CH_CLI_JOB_H
#define CH_CLI_JOB_H

#include <crosshead/ranks.h>
#include <stdbool.h>

/* Joins the processes of the job. Does nothing for a single process. */
ch_status ch_job_join(ch_error *error);
/* Leaves the job. The first process waits for those of ch_job_fork. */
void ch_job_leave(void);
/* Forks this process into `count` processes. It must not have been started by a launcher and must have no other
   thread. */
ch_status ch_job_fork(int count, ch_error *error);

/* Returns the ranks for the library, or NULL for a single process. */
ch_rank_group *ch_job_ranks(void);
/* Returns true if this process prints and writes files. */
bool ch_job_leads(void);
/* Calls ch_ranks_agree with the job's ranks. */
ch_status ch_job_agree(ch_status status, ch_error *error);
/* Returns the number of a signal that any process received, or 0. `number`: this process's signal or 0. */
int ch_job_signal(int number);

#endif
