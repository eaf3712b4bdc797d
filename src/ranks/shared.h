/* Divides independent pieces of work among ranks. Each rank computes some of them; at the end every rank has all
 * results. */
#ifndef CH_RANKS_SHARED_H
#define CH_RANKS_SHARED_H

#include "ranks/alarm.h"

typedef struct ch_shared_work {
  ch_rank_group *ranks; /* NULL: this process does all pieces */
  ch_alarm alarm;
} ch_shared_work;

/* Every rank calls it to begin. Fails on all ranks if `hash`, the hash of the whole work, differs between them. Release
   with ch_shared_end, also after a failure. */
ch_status ch_shared_begin(ch_shared_work *shared, ch_rank_group *ranks, uint64_t hash, ch_error *error);
/* Returns the rank that does a piece. ch_shared_is_own returns true if it is this rank. */
int ch_shared_owner(const ch_shared_work *shared, int64_t piece);
bool ch_shared_is_own(const ch_shared_work *shared, int64_t piece);
/* Returns true if another rank has failed. */
bool ch_shared_stops(ch_shared_work *shared);
/* Every rank calls it with the status of its pieces. If one failed, all ranks fail with its message. */
ch_status ch_shared_agree(ch_shared_work *shared, ch_status status, ch_error *error);
/* Distributes items [count] to all ranks; rank owners[i] has item i. Call it after the agreement. */
ch_status ch_shared_join(ch_shared_work *shared, const int32_t *owners, int64_t count, void *items,
                         size_t bytes_each, ch_error *error);
/* Synchronises a part that only rank 0 does, before the agreement. Rank 0 calls the function after the part has
   finished or failed. The other ranks call it and wait for rank 0's call. If `stop`, which may be NULL, returns
   true while a rank waits, the rank raises the alarm, and its call returns false after rank 0's call. */
bool ch_shared_await_first(ch_shared_work *shared, ch_stop_test stop, void *context);
void ch_shared_end(ch_shared_work *shared);

#endif
