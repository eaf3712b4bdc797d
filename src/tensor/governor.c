/* Measures which number of workers completes most steps. It reads the clock and the system's queues, never
   values, so no result depends on it. */
#include "tensor/governor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds. A trial has to last longer than the slices in which the system hands out processors. */
static const double TRIAL = 0.012;
static const double DOUBLING = 60;      /* in which the expected time may double: contexts grow */
static const double DECISION = 0.02;    /* between two looks at the choice in use */
static const double SHORT_PAUSE = 0.25; /* the first pause when steps are slower than expected, */
static const double BUSY_PAUSE = 2;     /* and what it grows to while trials change nothing */
static const double BUSY_START = 1;     /* the first pause where others ran from the start */
static const double LONG_PAUSE = 2;     /* the first pause when they do not; it doubles up to LONGEST_PAUSE */
static const double LONGEST_PAUSE = 30;
static const double LOOK = 0.1;    /* between two looks at how long threads waited for a processor */
static const double MEMORY = 0.25; /* time over which that is averaged, in seconds of all threads */
static const double CLASS_LIMITS[CH_GOVERNOR_CLASSES - 1] = {20e-6, 100e-6, 500e-6, 2.5e-3, 12e-3};

enum { ALL = 0 };
#define SLOW 0.8         /* a rate below it means that something slows the steps down */
#define BETTER 1.05      /* how much faster another choice must be, */
#define MUCH_BETTER 1.25 /* and if no thread waits for a processor: the speed of machines varies */
#define WAITS 0.45       /* share of the waiting that one other permanent program would cause */
#define FORGET 0.5       /* share of the old rate in the new average */
#define WORTH 100    /* after a trial that lost time, the next one waits for this multiple of that time, */
#define WORTH_FEW 40 /* or for this one if few threads are in use: the obstacle may be gone */

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
   far replaces it. */
static void learn(ch_governed_class *c, int choice) {
  double rate = c->expected / c->taken;
  bool fell = rate < SLOW * c->rate[choice]; /* something interfered: the older rate means nothing now */
  c->rate[choice] = c->rate[choice] > 0 && !fell ? FORGET * c->rate[choice] + (1 - FORGET) * rate : rate;
  c->expected = c->taken = 0;
}

/* Returns true if other programs keep this process's threads from running. Also true where the system does
   not say. */
static bool threads_wait(ch_governor *governor, double now, double pause) {
  ch_waiting seen;
  if (now < governor->looked + pause) return governor->waits > governor->much;
  governor->looked = now;
  if (!governor->read_waiting(&seen)) return (governor->waits = 1);
  double waited = seen.waited - governor->seen.waited, time = seen.ran - governor->seen.ran + waited;
  governor->seen = seen;
  if (waited >= 0 && time > 0) /* else a thread has ended */
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

/* Keeps the trial's choice if it was faster, and schedules the next trial. `lost`: how many seconds longer
   the trial took than the current choice would have. */
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
  if (usual == 0 ||
      (taken < (double)usual && c->trial == c->choice)) /* a trial is measured by what was usual before */
    *expected = (float)taken;
  else if (c->trial == ALL) /* else a step would change its class with the choice */
    *expected = usual * (float)(1 + taken / DOUBLING);
  if (usual == 0) return; /* the first time memory is touched and products are prepared */
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
    if (slow && c->was_slow && !c->slow && wait) c->next_trial = now; /* the second look in a row */
    c->was_slow = slow;
    /* All threads, and none waits for a processor: fewer could only help against what the system does not
       show. */
    double pause = c->choice == ALL && !wait ? LONGEST_PAUSE : 0;
    if (now >= c->next_trial && now >= c->last_trial + pause) start_trial(governor, c, now);
  }
}
