/* Stopping a long computation, and reporting its progress. */
#ifndef CH_TENSOR_WATCH_H
#define CH_TENSOR_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/progress.h"

typedef struct ch_watch {
  ch_stop_test stop; /* called by the thread that runs, some twenty times a second; NULL: nothing stops it */
  void (*share)(void *context,
                double share); /* some four times a second, with a share from 0 to 1 that grows; or NULL */
  void *context;
  double next_stop, next_share; /* of ch_clock */
  atomic_bool stopped;
} ch_watch;

/* Starts watching. The first report comes a second later: most work is done by then. */
void ch_watch_begin(ch_watch *watch, ch_stop_test stop, void (*share)(void *context, double share),
                    void *context);
/* Calls the stop test if it is time to, and returns true to stop. Only the thread that runs may call it. */
bool ch_watch_stops(ch_watch *watch);
/* Reports the share if it is time to. */
void ch_watch_tell(ch_watch *watch, double share);

#endif
