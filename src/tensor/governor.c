/* Measures which number of workers completes steps fastest. It reads the clock and the system's queues, never
 * values, so no result depends on it. */
#include "tensor/governor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times in seconds. */
static const double TRIAL = 0.012;   /* length of a trial, longer than the scheduler's time slices */
static const double DOUBLING = 60;   /* time in which the expected time of a step may double: contexts grow */
static const double DECISION = 0.02; /* time of steps between two checks of the choice in use */
static const double SHORT_PAUSE = 0.25; /* first pause between trials if steps are slower than expected */
static const double BUSY_PAUSE = 2;     /* longest pause if steps are slower than expected */
static const double BUSY_START = 1;     /* first pause if other programs ran from the start */
static const double LONG_PAUSE = 2;     /* first pause if steps are as fast as expected */
static const double LONGEST_PAUSE = 30; /* longest pause if steps are as fast as expected */
static const double LOOK = 0.1;         /* time between two reads of the threads' waiting times */
static const double MEMORY = 0.25;      /* time over which waiting is averaged, summed over all threads */
static const double CLASS_LIMITS[CH_GOVERNOR_CLASSES - 1] = {20e-6, 100e-6, 500e-6, 2.5e-3, 12e-3};

enum { ALL = 0 };
#define SLOW 0.8    /* rate below which something slows the steps down */
#define BETTER 1.05 /* factor by which another choice must be faster */
/* factor by which another choice must be faster if no thread waits for a processor: machines vary in speed */
#define MUCH_BETTER 1.25
#define WAITS 0.45   /* share of the waiting that one other permanent program would cause */
#define FORGET 0.5   /* share of the old rate in the new average */
#define WORTH 100    /* least pause after a trial that lost time, in multiples of the lost time */
#define WORTH_FEW 40 /* the multiple if not all threads are in use: the obstacle may be gone */

static const char *wanted_workers(void) {
  return getenv("CROSSHEAD_WORKERS");
}

static bool workers_are(const char *wanted) {
  return wanted_workers() && strcmp(wanted_workers(), wanted) == 0;
}

ch_status ch_governor_check(ch_error *error) {
  if (!wanted_workers() || workers_are("all") || workers_are("varied")) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "CROSSHEAD_WORKERS is '%.40s'; set it to all, or to varied, or unset it", wanted_workers());
}

void ch_governor_init(ch_governor *governor, int threads, bool busy) {
  *governor = (ch_governor){.workers = {threads},
                            .choices = 1,
                            .varied = workers_are("varied"),
                            .read_waiting = ch_read_waiting,
                            .much = WAITS / (threads + 1)};
  if (workers_are("all") || governor->varied) return;
  if (threads > 3) governor->workers[governor->choices++] = threads / 2;
  if (threads > 1) governor->workers[governor->choices++] = 1;
  for (int i = 0; i < CH_GOVERNOR_CLASSES; i++) {
    ch_governed_class *c = &governor->classes[i];
    c->choice = c->trial = busy ? governor->choices - 1 : ALL;
    c->interval = c->choice == ALL ? LONG_PAUSE : BUSY_START;
  }
}

static int class_of(ch_expected_time expected) {
  int c = 0;
  while (c < CH_GOVERNOR_CLASSES - 1 && (double)expected > CLASS_LIMITS[c]) c++;
  return c;
}

int ch_governor_workers(ch_governor *governor, ch_expected_time expected) {
  if (governor->varied) {
    governor->step = governor->step * 1664525u + 1013904223u;
    return 1 + (int)((governor->step >> 16) % (uint32_t)governor->workers[ALL]);
  }
  return governor->workers[governor->classes[class_of(expected)].trial];
}

/* Averages the rate of the steps since the last decision into the rate of a choice. A rate that has fallen
   far replaces the average. */
static void learn(ch_governed_class *c, int choice) {
  double rate = c->expected / c->taken;
  bool fell = rate < SLOW * c->rate[choice]; /* something interfered: the older rate means nothing now */
  c->rate[choice] = c->rate[choice] > 0 && !fell ? FORGET * c->rate[choice] + (1 - FORGET) * rate : rate;
  c->expected = c->taken = 0;
}

/* Returns true if other programs keep this process's threads from running, or if the system does not report
   waiting times. Reads them if the last read was at least `pause` seconds ago. */
static bool threads_wait(ch_governor *governor, double now, double pause) {
  ch_waiting seen;
  if (now < governor->looked + pause) return governor->waits > governor->much;
  governor->looked = now;
  if (!governor->read_waiting(&seen)) return (governor->waits = 1);
  double waited = seen.waited - governor->seen.waited, time = seen.ran - governor->seen.ran + waited;
  governor->seen = seen;
  if (waited >= 0 && time > 0) /* the sums shrink when a thread ends */
    governor->waits += (1 - exp(-time / MEMORY)) * (waited / time - governor->waits);
  return governor->waits > governor->much;
}

static void start_trial(const ch_governor *governor, ch_governed_class *c, double now) {
  c->last = (c->last + 1) % governor->choices;
  if (c->last == c->choice) c->last = (c->last + 1) % governor->choices;
  c->trial = c->last;
  c->rate[c->trial] = 0; /* an old rate means nothing now */
  c->next_trial = now;
}

/* Adopts the trial's choice if it was faster, and schedules the next trial. `lost` is the time in seconds that
   the trial took longer than the current choice would have. */
static void end_trial(ch_governed_class *c, double lost, bool undisturbed, double now) {
  bool better = c->rate[c->trial] > (undisturbed ? MUCH_BETTER : BETTER) * c->rate[c->choice];
  bool slow = c->rate[c->choice] < SLOW || c->choice != ALL || better;
  if (better) c->choice = c->trial;
  c->trial = c->choice;
  c->interval = slow != c->slow || better ? (slow ? SHORT_PAUSE : LONG_PAUSE)
                                          : fmin(2 * c->interval, slow ? BUSY_PAUSE : LONGEST_PAUSE);
  c->slow = slow;
  c->last_trial = now;
  c->next_trial = now + fmax(c->interval, better ? 0 : (c->choice == ALL ? WORTH : WORTH_FEW) * lost);
}

void ch_governor_observe(ch_governor *governor, ch_expected_time *expected, double taken, double now) {
  if (governor->choices == 1) return;
  ch_governed_class *c = &governor->classes[class_of(*expected)];
  float usual = *expected;
  /* During a trial, the expected time stays as it was before. Otherwise a step would change its class with the
     choice. */
  if (usual == 0 || (taken < (double)usual && c->trial == c->choice))
    *expected = (float)taken;
  else if (c->trial == ALL)
    *expected = usual * (float)(1 + taken / DOUBLING);
  if (usual == 0) return; /* the first step is slow: it touches memory and prepares products */
  c->expected += (double)usual;
  c->taken += taken;
  if (c->next_trial == 0) {
    c->next_trial = now + c->interval;
    c->last_trial = now;
  }
  if (c->trial != c->choice) {
    if (c->taken < TRIAL) return;
    double lost = c->rate[c->choice] > 0 ? c->taken - c->expected / c->rate[c->choice] : 0;
    learn(c, c->trial);
    end_trial(c, lost, c->choice == ALL && governor->waits <= governor->much, now);
  } else if (c->taken >= DECISION) {
    learn(c, c->choice);
    bool slow = c->rate[c->choice] < SLOW, wait = threads_wait(governor, now, slow ? DECISION : LOOK);
    if (slow && c->was_slow && !c->slow && wait) c->next_trial = now; /* slow at two checks in a row */
    c->was_slow = slow;
    /* If all threads are in use and none waits for a processor, fewer threads would help only if the system does not
       report some waiting. */
    double pause = c->choice == ALL && !wait ? LONGEST_PAUSE : 0;
    if (now >= c->next_trial && now >= c->last_trial + pause) start_trial(governor, c, now);
  }
}
