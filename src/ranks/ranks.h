/* The ranks of a job: processes that work together, on one machine or several.
 *
 * A `ch_rank_group *` of NULL is a single process: it has rank 0 of 1 and agrees with itself, and collective operations
 * return at once. Sending, receiving and waiting for messages need a group that is not NULL. */
#ifndef CH_RANKS_RANKS_H
#define CH_RANKS_RANKS_H

#include <crosshead/ranks.h>

#include "base/error.h"
#include "base/progress.h"
#include "ranks/transport.h"

/* These functions implement ch_ranks_rank, ch_ranks_count, ch_ranks_leave, ch_ranks_agree and ch_ranks_largest of
   <crosshead/ranks.h>. */
int ch_own_rank(const ch_rank_group *ranks);
int ch_rank_count(const ch_rank_group *ranks);
void ch_close_ranks(ch_rank_group *ranks);
ch_status ch_agree(ch_rank_group *ranks, ch_status status, ch_error *error);
int ch_largest_of_ranks(ch_rank_group *ranks, int number);

/* The traffic of a rank since it began. */
typedef struct ch_traffic {
  double sent, received; /* bytes */
  double waited;         /* seconds spent waiting for other ranks */
} ch_traffic;

/* Creates ranks from an open transport. Release with ch_close_ranks. */
ch_status ch_ranks_create(const ch_transport *transport, void *context, int rank, int count,
                          ch_rank_group **ranks, ch_error *error);
/* Returns true if this is rank 0, which writes files and reports for all. */
bool ch_ranks_leads(const ch_rank_group *ranks);
ch_traffic ch_ranks_traffic(const ch_rank_group *ranks);

/* Divides the ranks into groups: ranks with equal `group` form one, in the order of their ranks. */
ch_status ch_ranks_split(const ch_rank_group *ranks, int group, ch_rank_group **part, ch_error *error);

/* --- all together: every rank calls these functions, in the same order ---------------------------------- */

/* Gathers all [count][bytes_each] on every rank. Each rank has written its own part before. */
void ch_ranks_gather(ch_rank_group *ranks, void *all, size_t bytes_each);
/* Replaces values [n] by their sums over all ranks; room [count * n]. */
void ch_ranks_sum(ch_rank_group *ranks, int64_t *values, int64_t n, int64_t *room);
void ch_ranks_broadcast(ch_rank_group *ranks, int root, void *data, size_t bytes);
/* Returns rank 0's decision on every rank. */
bool ch_ranks_decide(ch_rank_group *ranks, bool of_rank_0);

/* A property that must be equal on all ranks. */
typedef struct ch_rank_fact {
  const char *name; /* difference, for the error: "other options" */
  uint64_t value;   /* hash of the property */
} ch_rank_fact;
/* Fails on all ranks if values differ between them. The error names the first difference. */
ch_status ch_ranks_compare(ch_rank_group *ranks, const ch_rank_fact *facts, int count, ch_error *error);

/* --- messages from one rank to another ------------------------------------------------------------------ */

/* Begins to send. ch_ranks_receive begins to receive. The transfer must not be active. */
void ch_ranks_send(ch_rank_group *ranks, int to, int tag, const void *data, size_t bytes,
                   ch_transfer *transfer);
void ch_ranks_receive(ch_rank_group *ranks, int from, int tag, void *data, size_t bytes,
                      ch_transfer *transfer);
/* Returns true if the transfer is done, or never began. Also makes progress on other transfers. */
bool ch_ranks_done(const ch_rank_group *ranks, ch_transfer *transfer);
/* Waits until the transfer is done. Returns false if `stop`, which may be NULL, returns true first. */
bool ch_ranks_wait(ch_rank_group *ranks, ch_transfer *transfer, ch_stop_test stop, void *stop_context);
/* Returns true if a message with this tag is waiting to be received. */
bool ch_ranks_message_waits(const ch_rank_group *ranks, int tag);
/* Waits until there is a message with this tag. Returns false if `stop`, which may be NULL, returns true first. */
bool ch_ranks_await_message(ch_rank_group *ranks, int tag, ch_stop_test stop, void *stop_context);

#endif
