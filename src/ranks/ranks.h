/* The ranks of a job: processes that work on one thing together, on one machine or several.
 *
 * A `ch_rank_group *` of NULL is a process alone: it has rank 0 of 1, agrees with itself, and every exchange
 * is done at once. Callers need no special case. */
#ifndef CH_RANKS_RANKS_H
#define CH_RANKS_RANKS_H

#include <crosshead/ranks.h>

#include "base/error.h"
#include "base/progress.h"
#include "ranks/transport.h"

/* These functions implement ch_ranks_rank, ch_ranks_count and ch_ranks_leave of <crosshead/ranks.h>; those
   for all ranks also implement ch_ranks_agree and ch_ranks_largest. */
int ch_own_rank(const ch_rank_group *ranks);
int ch_rank_count(const ch_rank_group *ranks);
void ch_close_ranks(ch_rank_group *ranks);
ch_status ch_agree(ch_rank_group *ranks, ch_status status, ch_error *error);
int ch_largest_of_ranks(ch_rank_group *ranks, int number);

/* The traffic of a rank since it began: bytes sent and received, and the time spent waiting for others. */
typedef struct ch_traffic {
  double sent, received; /* bytes */
  double waited;         /* seconds */
} ch_traffic;

/* Creates ranks from an open transport. Release with ch_close_ranks. */
ch_status ch_ranks_create(const ch_transport *transport, void *context, int rank, int count,
                          ch_rank_group **ranks, ch_error *error);
/* Returns true if this is rank 0, which writes files and reports for all. */
bool ch_ranks_leads(const ch_rank_group *ranks);
ch_traffic ch_ranks_traffic(const ch_rank_group *ranks);

/* Divides the ranks into groups: those with the same `group` form one, in the order of their ranks. */
ch_status ch_ranks_split(const ch_rank_group *ranks, int group, ch_rank_group **part, ch_error *error);

/* --- all together: every rank calls these, in the same order -------------------------------------------- */

/* Gathers all [count][bytes_each]: each rank has written its own part. */
void ch_ranks_gather(ch_rank_group *ranks, void *all, size_t bytes_each);
/* Sums over all ranks in the order of ranks, so that all have the same bits. room [count * n] */
void ch_ranks_sum(ch_rank_group *ranks, int64_t *values, int64_t n, int64_t *room);
void ch_ranks_broadcast(ch_rank_group *ranks, int root, void *data, size_t bytes);
bool ch_ranks_decide(ch_rank_group *ranks, bool of_rank_0);

/* Something that must be the same on all ranks. */
typedef struct ch_rank_fact {
  const char *name; /* "other options" */
  uint64_t value;   /* a hash of it */
} ch_rank_fact;
/* Fails on all ranks if values differ between them. The error names the first difference. */
ch_status ch_ranks_compare(ch_rank_group *ranks, const ch_rank_fact *facts, int count, ch_error *error);

/* --- one to another ------------------------------------------------------------------------------------- */

/* Begin to send or receive. The transfer must not be active. */
void ch_ranks_send(ch_rank_group *ranks, int to, int tag, const void *data, size_t bytes,
                   ch_transfer *transfer);
void ch_ranks_receive(ch_rank_group *ranks, int from, int tag, void *data, size_t bytes,
                      ch_transfer *transfer);
/* Returns true once the transfer is done, or if it never began. Also makes progress on other transfers. */
bool ch_ranks_done(const ch_rank_group *ranks, ch_transfer *transfer);
/* Waits until the transfer is done. Returns false if `stop` (or NULL) returns true first. */
bool ch_ranks_wait(ch_rank_group *ranks, ch_transfer *transfer, ch_stop_test stop, void *stop_context);
bool ch_ranks_message_waits(const ch_rank_group *ranks, int tag);
/* Waits until one does. Returns false if `stop` (or NULL) returns true first. */
bool ch_ranks_await_message(ch_rank_group *ranks, int tag, ch_stop_test stop, void *stop_context);

#endif
