/* Tests the governor on simulated machines: functions return the time of a step with a number of workers, and the time
 * that threads wait for a processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tensor/governor.h"

/* Returns the seconds of a step that takes one thread `work` seconds on an idle machine. */
typedef double (*machine)(double work, int workers);

static double idle(double work, int workers) {
  return work / workers;
}

/* Another program uses one of the processors, and threads of a step wait for one another. */
static double busy(double work, int workers) {
  return workers > 1 ? 5 * work : work;
}

/* Neighbours slow all threads down equally. */
static double loud(double work, int workers) {
  return 1.4 * work / workers;
}

/* Time on a machine whose speed changes every second. In odd seconds, two threads are slower than one. */
static double swing;

static double swinging(double work, int workers) {
  double taken = fmod(swing, 2) < 1 ? work / workers : 1.1 * work;
  swing += taken;
  return taken;
}

/* The system limits the process to the time of one processor, and does not report it. */
static double rationed(double work, int workers) {
  return workers > 1 ? 1.6 * work : work;
}

static ch_waiting waiting; /* times that read_waiting reports */

static bool read_waiting(ch_waiting *seen) {
  *seen = waiting;
  return true;
}

static bool read_nothing(ch_waiting *seen) {
  (void)seen;
  return false;
}

typedef struct world {
  ch_governor governor;
  ch_expected_time expected;
  double now;
} world;

/* Runs steps for `seconds` seconds. Returns the share of that time in steps with `workers`. */
static double share_with(world *w, machine m, double work, double seconds, int workers) {
  double end = w->now + seconds, with = 0;
  while (w->now < end) {
    int chosen = ch_governor_workers(&w->governor, w->expected);
    double taken = m(work, chosen);
    w->now += taken;
    double waits = m == busy && chosen > 1 ? 0.5 * taken : 0; /* waiting time of one thread */
    waiting = (ch_waiting){waiting.ran + chosen * taken - waits, waiting.waited + waits};
    if (chosen == workers) with += taken;
    ch_governor_observe(&w->governor, &w->expected, taken, w->now);
  }
  return with / seconds;
}

/* Every test runs twice: with a system that reports waiting (read_waiting), and without (read_nothing). */
static bool (*reads)(ch_waiting *seen);

static void start(world *w, int threads, bool busy_now) {
  ch_governor_init(&w->governor, threads, busy_now);
  w->governor.read_waiting = reads;
}

static world begin(int threads) {
  world w = {.now = 100};
  start(&w, threads, false);
  return w;
}

static void all_threads_work_on_an_idle_machine(void **state) {
  (void)state;
  static const double work[] = {20e-6, 300e-6, 5e-3, 0.2};
  for (int i = 0; i < 4; i++) {
    world w = begin(2);
    assert_true(share_with(&w, idle, work[i], 60, 2) > 0.97);
  }
}

static void one_thread_works_on_a_busy_machine(void **state) {
  (void)state;
  world w = begin(2);
  share_with(&w, idle, 200e-6, 5, 2);
  share_with(&w, busy, 200e-6, 2, 1);
  assert_true(share_with(&w, busy, 200e-6, 20, 1) > 0.8);
}

static void all_threads_come_back(void **state) {
  (void)state;
  world w = begin(4);
  share_with(&w, idle, 200e-6, 5, 4);
  share_with(&w, busy, 200e-6, 10, 1);
  share_with(&w, idle, 200e-6, 5, 4);
  assert_true(share_with(&w, idle, 200e-6, 60, 4) > 0.95);
}

static void a_busy_machine_is_met_with_one_thread(void **state) {
  (void)state;
  world w = begin(2);
  start(&w, 2, true);
  assert_true(share_with(&w, busy, 200e-6, 0.9, 1) > 0.99);
  assert_true(share_with(&w, busy, 200e-6, 60, 1) > 0.95);
  start(&w, 2, true); /* now the machine is idle after all */
  share_with(&w, idle, 200e-6, 1, 2);
  assert_true(share_with(&w, idle, 200e-6, 60, 2) > 0.97);
}

static void what_comes_into_the_way_is_answered_at_once(void **state) {
  (void)state;
  world w = begin(2);
  share_with(&w, idle, 200e-6, 5, 2);
  assert_true(share_with(&w, busy, 200e-6, 1, 1) > 0.8);
}

/* Trials without effect cost little, for steps of any length. */
static void all_threads_work_beside_loud_neighbours(void **state) {
  (void)state;
  static const double work[] = {20e-6, 300e-6, 5e-3, 0.2, 2};
  for (int i = 0; i < 5; i++) {
    world w = begin(2);
    share_with(&w, idle, work[i], 10, 2);
    assert_true(share_with(&w, loud, work[i], 600, 2) > 0.97);
  }
}

/* If no thread waits for a processor, changes in the machine's speed do not reduce the number of workers. */
static void all_threads_work_where_the_speed_swings(void **state) {
  (void)state;
  static const double work[] = {20e-6, 300e-6, 5e-3, 0.2};
  for (int i = 0; i < 4 && reads == read_waiting; i++) {
    world w = begin(2);
    assert_true(share_with(&w, swinging, work[i], 600, 2) > 0.97);
  }
}

static void a_rationed_process_finds_its_number_of_threads(void **state) {
  (void)state;
  world w = begin(2);
  share_with(&w, rationed, 300e-6, 35, 1);
  assert_true(share_with(&w, rationed, 300e-6, 60, 1) > 0.95);
}

static void a_team_of_one_is_left_alone(void **state) {
  (void)state;
  world w = begin(1);
  assert_true(share_with(&w, busy, 200e-6, 5, 1) > 0.99);
}

static int with_waiting(void **state) {
  (void)state;
  reads = read_waiting;
  return 0;
}

static int without_waiting(void **state) {
  (void)state;
  reads = read_nothing;
  return 0;
}

static void this_system_says_how_long_threads_waited(void **state) {
  (void)state;
  ch_waiting before, after;
  if (!ch_read_waiting(&before)) {
    print_message("this kernel has no schedstat\n");
    skip();
  }
  assert_true(before.ran > 0 && before.waited >= 0);
  volatile double sum = 0;
  do {
    for (int i = 0; i < 100000; i++) sum += i;
    assert_true(ch_read_waiting(&after));
  } while (after.ran < before.ran + 0.001);
}

int main(void) {
  unsetenv("CROSSHEAD_WORKERS");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_threads_work_on_an_idle_machine),
      cmocka_unit_test(one_thread_works_on_a_busy_machine),
      cmocka_unit_test(all_threads_come_back),
      cmocka_unit_test(a_busy_machine_is_met_with_one_thread),
      cmocka_unit_test(what_comes_into_the_way_is_answered_at_once),
      cmocka_unit_test(all_threads_work_beside_loud_neighbours),
      cmocka_unit_test(all_threads_work_where_the_speed_swings),
      cmocka_unit_test(a_rationed_process_finds_its_number_of_threads),
      cmocka_unit_test(a_team_of_one_is_left_alone),
  };
  const struct CMUnitTest system[] = {cmocka_unit_test(this_system_says_how_long_threads_waited)};
  return cmocka_run_group_tests(tests, with_waiting, NULL) +
         cmocka_run_group_tests(tests, without_waiting, NULL) + cmocka_run_group_tests(system, NULL, NULL);
}
