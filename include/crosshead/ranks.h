/* Several processes that train one model together: the ranks of an MPI job, on one machine or several. Link
 * libcrosshead-train.
 *
 * `mpirun -n 4 PROGRAM` starts four processes of one program. Each joins, trains with
 * ch_train_settings.workers.ranks, and leaves. Everywhere a `ch_rank_group *` of NULL means a process alone:
 * rank 0 of 1.
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

/* The ranks of a job, as one of them sees them. One thread at a time may use it. */
typedef struct ch_rank_group ch_rank_group;

/* Joins the job that this process was started in; ch_ranks_leave releases *ranks. *ranks is NULL, without an error,
 * for a process that was started alone. Call it at most once in a process, in the thread that will train. The module
 * crosshead-mpi.so contains MPI. CROSSHEAD_MPI names a file to load in place of the installed one. Errors:
 * CH_ERROR_IO if the process was started as one of several and MPI cannot be loaded, does not start or is not in this
 * build; CH_ERROR_MEMORY. */
CH_API ch_status ch_ranks_join(ch_rank_group **ranks, ch_error *error);
/* Makes this process rank `rank` of `count` on one machine, without MPI; ch_ranks_leave releases *ranks. sockets
 * [count] are connected to the other ranks (AF_UNIX, SOCK_SEQPACKET; the element of the own rank is ignored), and
 * ch_ranks_leave closes them. If a rank dies, the others end too. Errors: CH_ERROR_ARGUMENT for a rank outside
 * 0 ... count - 1, CH_ERROR_MEMORY; then the sockets stay open. */
CH_API ch_status ch_ranks_over_sockets(int rank, int count, const int *sockets, ch_rank_group **ranks,
                                       ch_error *error);
/* Waits until all ranks have called it, and releases `ranks`. NULL is fine. */
CH_API void ch_ranks_leave(ch_rank_group *ranks);

/* Return the number of this process, from 0, and the number of ranks; 0 and 1 for NULL. */
CH_API int ch_ranks_rank(const ch_rank_group *ranks);
CH_API int ch_ranks_count(const ch_rank_group *ranks);
/* Returns the number that the launcher gave to this process, which need not have joined; 0 for a process that was
 * started alone. */
CH_API int ch_ranks_expected_rank(void);

/* Shares the failure of a rank with all; every rank must call it. Returns CH_OK if `status` is CH_OK on every
 * rank. Otherwise all ranks return the status of one that failed, and *error gets its sentence. The sentence
 * names the rank and its host, unless all ranks failed with that status. */
CH_API ch_status ch_ranks_agree(ch_rank_group *ranks, ch_status status, ch_error *error);
/* Returns the largest `number` of all ranks; every rank must call it. */
CH_API int ch_ranks_largest(ch_rank_group *ranks, int number);

#ifdef __cplusplus
}
#endif
#endif
