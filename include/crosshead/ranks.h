/* Several processes that train one model together: the ranks of an MPI job, on one machine or several. Link
 * libcrosshead-train.
 *
 * `mpirun -n 4 PROGRAM` starts four processes of one program. Each joins, trains with
 * ch_train_settings.workers.ranks, and leaves. A NULL in the place of a `ch_rank_group *` means everywhere a
 * process alone: rank 0 of 1.
 *
 *   ch_error error;
 *   ch_rank_group *ranks;
 *   ch_train_settings settings;
 *   ch_train_defaults(&settings);
 *   settings.model.config = "config.json";
 *   settings.text.data = "book.txt";
 *   if (ch_ranks_join(&ranks, &error) == CH_OK) {
 *     settings.workers.ranks = ranks;
 *     ch_status status = ch_train("model", &settings, NULL, &error); // the same on every rank
 *     if (status != CH_OK && ch_ranks_rank(ranks) == 0) puts(error.message);
 *     ch_ranks_leave(ranks);
 *   } */
#ifndef CROSSHEAD_RANKS_H
#define CROSSHEAD_RANKS_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ch_rank_group ch_rank_group;

/* Joins the job that this process was started in. *ranks is NULL when it was started alone. Called at most
 * once in a process, by the thread that will train. Errors: CH_ERROR_IO, if the process was started as one of
 * several and MPI cannot be loaded, or this build has none. The module crosshead-mpi.so brings MPI;
 * CROSSHEAD_MPI names another file than the installed one. */
CH_API ch_status ch_ranks_join(ch_rank_group **ranks, ch_error *error);
/* Makes this process rank `rank` of `count` on one machine, without MPI: sockets [count] are connected to the
 * others (AF_UNIX, SOCK_SEQPACKET; that of the own rank is not looked at), and ch_ranks_leave closes them.
 * For work whose ranks exchange messages below 64 KiB: a comparison that trains a run in each (compare.h),
 * not a training step. A rank that the others lose ends them. Errors: CH_ERROR_ARGUMENT, CH_ERROR_MEMORY. */
CH_API ch_status ch_ranks_over_sockets(int rank, int count, const int *sockets, ch_rank_group **ranks,
                                       ch_error *error);
/* Leaves the job, which waits until all ranks leave. Nothing of the ranks may be used afterwards. NULL is
 * fine. */
CH_API void ch_ranks_leave(ch_rank_group *ranks);

/* Return the number of this process, from 0, and how many there are. */
CH_API int ch_ranks_rank(const ch_rank_group *ranks);
CH_API int ch_ranks_count(const ch_rank_group *ranks);
/* Returns the number of this process before it has joined, as its launcher says; 0 when it was started
 * alone. */
CH_API int ch_ranks_expected_rank(void);

/* Returns CH_OK only if `status` is CH_OK on every rank. Otherwise all ranks return the status of one that
 * failed, and *error has its sentence; it is said on which rank and host, unless all failed with that status.
 * Every rank calls it. */
CH_API ch_status ch_ranks_agree(ch_rank_group *ranks, ch_status status, ch_error *error);
/* Returns the largest of the ranks' numbers. Every rank calls it. */
CH_API int ch_ranks_largest(ch_rank_group *ranks, int number);

#ifdef __cplusplus
}
#endif
#endif
