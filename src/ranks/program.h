/* Checks that the ranks of a job run the same program on the same kind of machine. */
#ifndef CH_RANKS_PROGRAM_H
#define CH_RANKS_PROGRAM_H

#include "ranks/ranks.h"

/* Fails on all ranks if one has another program or library, other kernels (by their name), or another number of
   threads. */
ch_status ch_ranks_compare_programs(ch_rank_group *ranks, const char *kernels, int threads, ch_error *error);

#endif
