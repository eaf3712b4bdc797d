/* Collects data of all ranks at equal points of their work. Each piece is sent to one rank, and the other ranks
 * continue.
 *
 * The result does not depend on the speed of ranks: the receiver processes pieces in the order of ranks. */
#ifndef CH_RANKS_COLLECTOR_H
#define CH_RANKS_COLLECTOR_H

#include "ranks/ranks.h"

enum { CH_COLLECTOR_SLOTS = 4 };

typedef struct ch_collector {
  ch_rank_group *ranks; /* NULL: this process uses its own data */
  int tag;              /* first tag; messages of rank r have the tag + r */
  ch_stop_test stop;    /* ends waiting when it returns true */
  void *context;
  struct {
    char *data;
    size_t room;
    ch_transfer out;
  } slots[CH_COLLECTOR_SLOTS]; /* messages of this rank that are being sent */
  int next;                    /* slot of the next message */
  char *received;              /* last received message */
  size_t room;                 /* size of `received` */
  int64_t *sent;  /* [ranks, ranks + 1] a row per sender: messages to each rank, then bytes of the largest */
  int64_t *taken; /* [ranks] messages received from each rank */
} ch_collector;

/* Processes the data of one rank. */
typedef ch_status ch_collector_take(void *context, const void *data, size_t bytes, ch_error *error);

/* Creates a collector. Its messages use `tag` and the tags after it, one for each rank; no other messages may use them.
   Release with ch_collector_free. */
ch_status ch_collector_create(ch_collector *collector, ch_rank_group *ranks, int tag, ch_stop_test stop,
                              void *context, ch_error *error);
/* Every rank calls it at the same point. Rank `to` processes data [bytes] of the ranks below `givers`, in their order.
   The others return when their data is copied for sending. No rank sends more than `most` bytes. Fails with
   CH_ERROR_INTERRUPTED if waiting was stopped. */
ch_status ch_collect(ch_collector *collector, int to, int givers, const void *data, size_t bytes, size_t most,
                     ch_collector_take *take, void *context, ch_error *error);
/* Every rank calls it after an agreement on the result. No message is pending afterwards. After a failure,
   unprocessed messages are received and dropped. */
void ch_collector_settle(ch_collector *collector, ch_status status);
void ch_collector_free(ch_collector *collector);

#endif
