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
  /* Called before every repetition, also the untimed one; may be NULL. Its time does not count. */
  ch_status (*prepare)(void *context, ch_error *error);
  double *seconds; /* [ch_timing.most] times of the repetitions, in the caller's memory */
  int count;       /* number of timed repetitions */
} ch_timed_work;

/* The number of repetitions, and limits of time. */
typedef struct ch_timing {
  int least, most; /* minimum and maximum number of timed repetitions of each work */
  /* seconds after which no round of turns begins, if each work has `least` repetitions */
  double enough_seconds;
  double most_seconds; /* seconds after which no second or later round of turns begins; 0: no limit */
  double turn_seconds; /* seconds for which a work is repeated in each of its turns; 0: one repetition */
  ch_stop_test stop;   /* called after every repetition; may be NULL */
  void *stop_context;
} ch_timing;

/* Times `count` works. Fails with the error of a work, or with CH_ERROR_INTERRUPTED if `stop` returned true. */
ch_status ch_time(const ch_timing *timing, int count, ch_timed_work *works, ch_error *error);

/* Returns the median of the times. Sorts them. */
double ch_timed_median(ch_timed_work *work);
/* Returns the shortest time. It is the least disturbed one, because disturbances only add to times. */
double ch_shortest_time(const ch_timed_work *work);

#endif
