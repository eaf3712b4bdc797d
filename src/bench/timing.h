/* Timing pieces of work. Each runs once untimed; then they take turns, so that a slow moment of the machine
 * affects all of them. */
#ifndef CH_BENCH_TIMING_H
#define CH_BENCH_TIMING_H

#include "base/error.h"
#include "base/progress.h"

/* One piece of work, and how long it took. */
typedef struct ch_timed_work {
  void *context;
  ch_status (*once)(void *context, ch_error *error);
  /* Runs before every repetition, the untimed one too, and is not timed itself; or NULL. */
  ch_status (*prepare)(void *context, ch_error *error);
  double *seconds; /* [ch_timing.most], the caller's: receives the time of every repetition */
  int count;       /* repetitions timed */
} ch_timed_work;

/* How often works are repeated. */
typedef struct ch_timing {
  int least, most;       /* timed repetitions of each work */
  double enough_seconds; /* no turn begins after so long, once each work has `least` repetitions */
  double most_seconds;   /* no turn but the first begins after so long in any case; 0: no limit */
  double turn_seconds;   /* a work is repeated for so long in each of its turns; 0: once */
  ch_stop_test stop;     /* called after every repetition; may be NULL */
  void *stop_context;
} ch_timing;

/* Times `count` works. Errors: those of the works; CH_ERROR_INTERRUPTED when `stop` returned true. */
ch_status ch_time(const ch_timing *timing, int count, ch_timed_work *works, ch_error *error);

/* The median of the times. Sorts them. */
double ch_timed_median(ch_timed_work *work);
/* The shortest time: the best that the machine can do, as disturbances only add to times. */
double ch_shortest_time(const ch_timed_work *work);

#endif
