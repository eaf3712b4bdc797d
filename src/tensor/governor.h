/* Sets the number of workers of a team: fewer than its threads while other programs use the processors.
 *
 * Threads of one step wait for one another. If another program occupies the processor of one of them, all
 * wait until it runs again. The wait is thousands of times longer than a step of decoding. Then one thread
 * alone is faster than two. The governor measures: it times steps, tries another number of workers for some
 * milliseconds from time to time, and uses the faster number. Steps are distinguished by their length,
 * because long steps suffer less. The results of a step never depend on the number of workers
 * (tensor/team.h).
 *
 * The speed of a machine varies for other reasons too. So the governor reads from the system whether its
 * threads wait for a processor. As long as they do not, all of them work, and trials are rare. */
#ifndef CH_TENSOR_GOVERNOR_H
#define CH_TENSOR_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/contention.h"
#include "tensor/team.h"

enum { CH_GOVERNOR_CLASSES = 6, CH_GOVERNOR_CHOICES = 3 };

/* Steps of about the same length. */
typedef struct ch_governed_class {
  double rate[CH_GOVERNOR_CHOICES]; /* recent ratio of expected time to time taken; 0: not known */
  double expected, taken;      /* expected and real time of the steps since the last decision, in seconds */
  double next_trial, interval; /* time of the next trial, and the pause between two trials */
  double last_trial;           /* time at which the last trial ended; before the first: start of the steps */
  int last;                    /* choice tried last */
  /* true if, at the end of the last trial, steps took longer than expected or not all threads were in use */
  bool slow;
  bool was_slow;     /* true if steps were too slow at the last check of the choice in use */
  int choice, trial; /* choice in use, and choice on trial (equal if there is no trial) */
} ch_governed_class;

typedef struct ch_governor {
  int workers[CH_GOVERNOR_CHOICES]; /* numbers to choose from: all threads, half of them, one */
  int choices;                      /* entries of `workers` in use */
  bool varied;                      /* true with CROSSHEAD_WORKERS=varied */
  uint32_t step;                    /* with `varied`: state of the generator of the numbers */
  ch_governed_class classes[CH_GOVERNOR_CLASSES];
  bool (*read_waiting)(ch_waiting *waiting);
  ch_waiting seen; /* last result of read_waiting */
  double looked;   /* time of the last call of read_waiting, in seconds */
  double waits;    /* recent share of their time that threads waited for a processor */
  /* share of waiting above which another program is running: of n + 1 programs for n processors one waits at
     any time */
  double much;
} ch_governor;

/* The expected length of a step, in seconds: about the shortest recent one. 0 before the first step. */
typedef float ch_expected_time;

/* Fails if CROSSHEAD_WORKERS is set to anything but "all" or "varied". */
ch_status ch_governor_check(ch_error *error);
/* If `busy`, starts with one worker and soon tries more. If the environment variable CROSSHEAD_WORKERS is
   "all", there is one choice: all threads. If it is "varied", nothing is measured: the number changes from
   step to step, from 1 to all threads, in a fixed order. Tests use it: results must not change. */
void ch_governor_init(ch_governor *governor, int threads, bool busy);
/* ch_governor_workers returns the number of workers for the next step. ch_governor_observe records the time `taken`
   by the step and updates *expected. `now` is the time at the step's end. Times are in seconds. */
int ch_governor_workers(ch_governor *governor, ch_expected_time expected);
void ch_governor_observe(ch_governor *governor, ch_expected_time *expected, double taken, double now);

#endif
