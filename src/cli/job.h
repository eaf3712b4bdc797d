/* The processes that run one command together, when a launcher (mpirun, srun) started several. */
#ifndef CH_CLI_JOB_H
#define CH_CLI_JOB_H

#include <crosshead/ranks.h>
#include <stdbool.h>

/* Joins them; a process alone has nothing to do. */
ch_status ch_job_join(ch_error *error);
void ch_job_leave(void);
/* Makes `count` processes of this one, which no launcher started, before it starts a thread. The first waits for the others
   when it leaves. */
ch_status ch_job_fork(int count, ch_error *error);

/* For the library; NULL: a process alone. */
ch_rank_group *ch_job_ranks(void);
/* Returns true if this process prints and writes files. */
bool ch_job_leads(void);
/* ch_ranks_agree. */
ch_status ch_job_agree(ch_status status, ch_error *error);
/* The number of a signal that any process was told; 0: none. */
int ch_job_signal(int number);

#endif
