/* Stopping a long computation, and reporting its progress. */
#ifndef CH_TENSOR_WATCH_H
#define CH_TENSOR_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/progress.h"

typedef struct ch_watch {
  /* Called by the thread that runs the computation, up to twenty times a second; NULL: nothing stops the
     computation. */
  ch_stop_test stop;
  /* Called up to four times a second with the finished share of the work, from 0 to 1; or NULL. */
  void (*share)(void *context, double share);
  void *context;
  double next_stop, next_share; /* times of the next calls (ch_clock) */
  atomic_bool stopped;
} ch_watch;

/* Starts watching. The first report comes at least a second later: most computations have ended by then. */
void ch_watch_begin(ch_watch *watch, ch_stop_test stop, void (*share)(void *context, double share),
                    void *context);
/* Calls the stop test if it is due. Returns true if the computation must stop. Only the thread that runs the
   computation may call it. */
bool ch_watch_stops(ch_watch *watch);
/* Reports the share if a report is due. */
void ch_watch_tell(ch_watch *watch, double share);

#endif
