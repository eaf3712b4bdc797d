/* Collects data of all ranks at the same points of their work: each piece goes to one of them, while the
 * others continue.
 *
 * The result does not depend on how fast ranks are: the receiver processes pieces in the order of ranks. */
#ifndef CH_RANKS_COLLECTOR_H
#define CH_RANKS_COLLECTOR_H

#include "ranks/ranks.h"

enum { CH_COLLECTOR_SLOTS = 4 };

typedef struct ch_collector {
  ch_rank_group *ranks; /* NULL: this process uses its own data */
  int tag;              /* tag + the number of the sender */
  ch_stop_test stop;    /* ends waiting */
  void *context;
  struct {
    char *data;
    size_t room;
    ch_transfer out;
  } slots[CH_COLLECTOR_SLOTS]; /* on their way */
  int next;
  char *received;
  size_t room;
  int64_t *sent;  /* [ranks, ranks + 1] messages from each to each, and bytes of a sender's largest one */
  int64_t *taken; /* [ranks] messages from each */
} ch_collector;

/* Adds the data of one rank to what this rank keeps. */
typedef ch_status ch_collector_take(void *context, const void *data, size_t bytes, ch_error *error);

/* Creates a collector. Its messages use `tag` and the numbers after it, one for each rank, exclusively.
   Release with ch_collector_free. */
ch_status ch_collector_create(ch_collector *collector, ch_rank_group *ranks, int tag, ch_stop_test stop,
                              void *context, ch_error *error);
/* Every rank calls it at the same point. Rank `to` processes data [bytes] of the ranks below `givers`, in
   their order; the others return when theirs is sent. No rank sends more than `most` bytes. Fails with
   CH_ERROR_INTERRUPTED if waiting was stopped. */
ch_status ch_collect(ch_collector *collector, int to, int givers, const void *data, size_t bytes, size_t most,
                     ch_collector_take *take, void *context, ch_error *error);
/* Every rank calls it after an agreement on the result. No message is pending afterwards. After a failure,
   unprocessed messages are received and dropped. */
void ch_collector_settle(ch_collector *collector, ch_status status);
void ch_collector_free(ch_collector *collector);

#endif
