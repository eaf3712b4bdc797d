/* Tests speeds that were measured several times, and their disturbance by other programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/median.h"
#include "bench/load.h"
#include "experiment/speed/median_speed.h"

static void quartiles_are_interpolated(void **state) {
  (void)state;
  double five[] = {5, 1, 4, 2, 3}, four[] = {4, 1, 3, 2}, one[] = {7};
  ch_quartiles q = ch_quartiles_of(five, 5);
  assert_true(q.low == 2 && q.median == 3 && q.high == 4);
  q = ch_quartiles_of(four, 4);
  assert_true(q.low == 1.75 && q.median == 2.5 && q.high == 3.25);
  q = ch_quartiles_of(one, 1);
  assert_true(q.low == 7 && q.median == 7 && q.high == 7);
  q = ch_quartiles_of(one, 0);
  assert_true(q.low == 0 && q.median == 0 && q.high == 0);
}

static void a_rate_is_unsteady_by_its_spread_or_by_the_machine(void **state) {
  (void)state;
  double near[] = {95, 100, 105, 98, 101}, far[] = {239, 123, 10193, 9000, 200}, one[] = {50};
  ch_median_speed rate = ch_median_speed_of(near, 5, false);
  assert_true(rate.median == 100 && rate.spread == 1.5 && !rate.unsteady);
  assert_true(ch_median_speed_of(near, 5, true).unsteady);
  assert_true(ch_median_speed_of(far, 5, false).unsteady);
  assert_false(ch_median_speed_of(one, 1, false).unsteady);
}

static void the_steadier_of_two_rates_is_known(void **state) {
  (void)state;
  const ch_median_speed steady = {100, 9, false}, calm = {200, 2, false}, wild = {100, 1, true};
  assert_true(ch_median_speed_is_steadier(steady, wild));
  assert_false(ch_median_speed_is_steadier(wild, steady));
  assert_true(ch_median_speed_is_steadier(calm, steady));
  assert_false(ch_median_speed_is_steadier(steady, steady));
}

static void other_programs_disturb_where_they_take_what_the_threads_need(void **state) {
  (void)state;
  assert_false(ch_load_disturbs(0.2, 2, 2));
  assert_true(ch_load_disturbs(0.5, 2, 2));
  assert_false(ch_load_disturbs(5, 2, 8));
  assert_true(ch_load_disturbs(6.5, 2, 8));
  assert_true(ch_load_disturbs(1, 16, 8));
}

static void the_load_of_others_is_without_ones_own(void **state) {
  (void)state;
  const ch_load from = {.all = 100, .own = 10, .clock = 50}, to = {.all = 107, .own = 13, .clock = 52};
  assert_true(ch_load_of_others(&from, &to) == 2);
  const ch_load unknown = {.all = -1, .own = 13, .clock = 52};
  assert_true(ch_load_of_others(&from, &unknown) == 0);
  const ch_load soon = {.all = 101, .own = 10, .clock = 50.01};
  assert_true(ch_load_of_others(&from, &soon) == 0);
  ch_load now = ch_load_now();
  assert_true(now.own >= 0 && now.clock > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quartiles_are_interpolated),
      cmocka_unit_test(a_rate_is_unsteady_by_its_spread_or_by_the_machine),
      cmocka_unit_test(the_steadier_of_two_rates_is_known),
      cmocka_unit_test(other_programs_disturb_where_they_take_what_the_threads_need),
      cmocka_unit_test(the_load_of_others_is_without_ones_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
