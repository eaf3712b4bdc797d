/* Tests the timing harness: number, order and times of repetitions, and medians. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/median.h"
#include "bench/timing.h"

enum { MOST = 50 };

/* One letter for each call: "p" for `prepare` and "a" for `once` of the first work, "q" and "b" for those of the
   second. */
static char written[400];

static void write_letter(char letter) {
  size_t used = strlen(written);
  assert_true(used + 1 < sizeof written);
  written[used] = letter;
  written[used + 1] = 0;
}

static ch_status prepare(void *context, ch_error *error) {
  (void)error;
  write_letter(*(const char *)context == 'a' ? 'p' : 'q');
  return CH_OK;
}

static ch_status once(void *context, ch_error *error) {
  (void)error;
  write_letter(*(const char *)context);
  return CH_OK;
}

static ch_status fail_third(void *context, ch_error *error) {
  return ++*(int *)context == 3 ? ch_fail(error, CH_ERROR_IO, "it broke") : CH_OK;
}

static bool stop_fourth(void *context) {
  return ++*(int *)context == 4;
}

static void works_take_turns_after_one_untimed_repetition_each(void **state) {
  (void)state;
  char names[2] = {'a', 'b'};
  double seconds[2][MOST] = {{0}};
  ch_timed_work works[2] = {
      {.context = &names[0], .once = once, .prepare = prepare, .seconds = seconds[0]},
      {.context = &names[1], .once = once, .prepare = prepare, .seconds = seconds[1]},
  };
  ch_error error;
  written[0] = 0;
  assert_int_equal(ch_time(&(ch_timing){.least = 3, .most = 3}, 2, works, &error), CH_OK);
  assert_string_equal(written, "paqb"
                               "paqbpaqbpaqb");
  for (int w = 0; w < 2; w++) {
    assert_int_equal(works[w].count, 3);
    assert_true(seconds[w][3] == 0);
    for (int i = 0; i < 3; i++) assert_true(ch_shortest_time(&works[w]) <= seconds[w][i]);
  }
}

static void time_ends_it_only_where_there_are_enough_repetitions(void **state) {
  (void)state;
  char name = 'a';
  double seconds[MOST];
  ch_timed_work work = {.context = &name, .once = once, .seconds = seconds};
  ch_error error;
  const struct {
    ch_timing timing;
    int count;
  } cases[] = {
      {{.least = 7, .most = MOST}, 7}, /* stops at the smallest number, because any time is enough */
      {{.least = 7, .most = MOST, .enough_seconds = 1e9}, MOST}, /* stops at the largest number */
      {{.least = 7, .most = MOST, .enough_seconds = 1e9, .most_seconds = 1e-12}, 1}, /* stops after one */
      {{.least = 1, .most = MOST, .turn_seconds = 1e9}, MOST}, /* repeats within one long turn */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    written[0] = 0;
    assert_int_equal(ch_time(&cases[i].timing, 1, &work, &error), CH_OK);
    assert_int_equal(work.count, cases[i].count);
    assert_int_equal(strlen(written), cases[i].count + 1);
  }
}

static void failures_and_interrupts_end_it(void **state) {
  (void)state;
  int calls = 0;
  char name = 'a';
  double seconds[MOST];
  ch_error error = {0};
  ch_timed_work failing = {.context = &calls, .once = fail_third, .seconds = seconds};
  assert_int_equal(ch_time(&(ch_timing){.least = 5, .most = 5}, 1, &failing, &error), CH_ERROR_IO);
  assert_string_equal(error.message, "it broke");
  assert_int_equal(failing.count, 1);
  calls = 0;
  ch_timed_work stopped = {.context = &name, .once = once, .seconds = seconds};
  ch_timing timing = {.least = 5, .most = 5, .stop = stop_fourth, .stop_context = &calls};
  assert_int_equal(ch_time(&timing, 1, &stopped, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(calls, 4);
}

static void the_median_is_in_the_middle(void **state) {
  (void)state;
  double odd[] = {5, -1, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
  assert_true(ch_median(odd, 3) == 3);
  assert_true(ch_median(even, 4) == 2.5);
  assert_true(ch_median(one, 1) == 7);
  assert_true(ch_median(one, 0) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(works_take_turns_after_one_untimed_repetition_each),
      cmocka_unit_test(time_ends_it_only_where_there_are_enough_repetitions),
      cmocka_unit_test(failures_and_interrupts_end_it),
      cmocka_unit_test(the_median_is_in_the_middle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
