/* The processes that run one command together, when a launcher (mpirun, srun) started several. */
#ifndef CH_CLI_JOB_H
#define CH_CLI_JOB_H

#include <crosshead/ranks.h>
#include <stdbool.h>

/* Joins them; a process alone has nothing to do. */
ch_status ch_job_join(ch_error *error);
void ch_job_leave(void);
/* Forks this process into `count` processes. No launcher may have started it, and it may have no other thread. The
   first waits for the others when it leaves. */
ch_status ch_job_fork(int count, ch_error *error);

/* Returns the ranks for the library; NULL for a process alone. */
ch_rank_group *ch_job_ranks(void);
/* Returns true if this process prints and writes files. */
bool ch_job_leads(void);
/* Calls ch_ranks_agree with the job's ranks. */
ch_status ch_job_agree(ch_status status, ch_error *error);
/* Returns the number of a signal that any process received; 0: none. */
int ch_job_signal(int number);

#endif
