/* Connects a process to the others of its job, through MPI or through sockets. */
#ifndef CH_RANKS_LAUNCH_H
#define CH_RANKS_LAUNCH_H

#include <crosshead/ranks.h>

/* These functions implement ch_ranks_join, ch_ranks_over_sockets and ch_ranks_expected_rank of
   <crosshead/ranks.h>. */
ch_status ch_join_ranks(ch_rank_group **ranks, ch_error *error);
ch_status ch_connect_ranks(int rank, int count, const int *sockets, ch_rank_group **ranks, ch_error *error);
int ch_launched_rank(void);

#endif
