/* Times pieces of work. Each runs once untimed. Then they run in turns, so that a slow moment of the machine
 * affects all of them. */
#ifndef CH_BENCH_TIMING_H
#define CH_BENCH_TIMING_H

#include "base/error.h"
#include "base/progress.h"

/* One piece of work and its times. */
typedef struct ch_timed_work {
  void *context;
  ch_status (*once)(void *context, ch_error *error);
  /* Runs before every repetition, the untimed one too, and is not timed itself; or NULL. */
  ch_status (*prepare)(void *context, ch_error *error);
  double *seconds; /* [ch_timing.most], the caller's: receives the time of every repetition */
  int count;       /* repetitions timed */
} ch_timed_work;

/* The number of repetitions, and limits of time. */
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

/* Returns the median of the times. Sorts them. */
double ch_timed_median(ch_timed_work *work);
/* Returns the shortest time. It is the best that the machine can do, because disturbances only add to
 * times. */
double ch_shortest_time(const ch_timed_work *work);

#endif
