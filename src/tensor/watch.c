/* Calls the stop test and the progress callback of a long computation, each at a limited rate. */
#include "tensor/watch.h"

static const double STOP_PAUSE = 0.05, SHARE_PAUSE = 0.25, FIRST_SHARE = 1;

void ch_watch_begin(ch_watch *watch, ch_stop_test stop, void (*share)(void *context, double share),
                    void *context) {
  watch->stop = stop;
  watch->share = share;
  watch->context = context;
  watch->next_stop = 0;
  watch->next_share = ch_clock() + FIRST_SHARE;
  atomic_store(&watch->stopped, false);
}

bool ch_watch_stops(ch_watch *watch) {
  double now = ch_clock();
  if (watch->stop && now >= watch->next_stop) {
    watch->next_stop = now + STOP_PAUSE;
    if (watch->stop(watch->context)) atomic_store_explicit(&watch->stopped, true, memory_order_relaxed);
  }
  return atomic_load_explicit(&watch->stopped, memory_order_relaxed);
}

void ch_watch_tell(ch_watch *watch, double share) {
  if (!watch->share || ch_clock() < watch->next_share) return;
  watch->share(watch->context, share);
  watch->next_share = ch_clock() + SHARE_PAUSE;
}
