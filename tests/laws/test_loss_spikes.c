/* Tests spikes and instability on simulated curves. */
#include "train/training.h"
#include "laws/loss_spikes.h"

enum { STEPS = 1000 };

/* Simulates a run's losses: a law with noise. */
static void make(double *losses, uint64_t seed, double noise) {
  ch_random random;
  ch_random_seed(&random, seed, 3);
  for (int i = 0; i < STEPS; i++) losses[i] = 2 + 6 * pow(i + 1, -0.3) + noise * ch_random_normal(&random);
}

static ch_stability judge(const double *losses, int steps, bool finite, int *hopeless) {
  ch_stability_watch watch;
  ch_stability_begin(&watch, STEPS);
  for (int i = 0; i < steps; i++)
    if (ch_stability_loss(&watch, losses[i]) && hopeless && !*hopeless) *hopeless = i + 1;
  return ch_stability_end(&watch, finite);
}

static void add(double *losses, int from, int to, double height) {
  for (int i = from; i <= to; i++) losses[i - 1] += height;
}

static void a_quiet_run_is_stable(void **state) {
  (void)state;
  double losses[STEPS];
  int spikes = 0;
  for (uint64_t seed = 0; seed < 50; seed++) {
    make(losses, seed, 0.01 + 0.004 * (double)seed);
    ch_stability s = judge(losses, STEPS, true, NULL);
    assert_int_equal(s.verdict, CH_STABLE);
    spikes += (int)s.spikes;
  }
  assert_in_range(spikes, 0, 2); /* 50,000 steps */
}

static void spikes_that_pass_are_counted_and_placed(void **state) {
  (void)state;
  double losses[STEPS];
  make(losses, 1, 0.03);
  add(losses, 200, 200, 1.5);
  add(losses, 400, 430, 0.8);
  add(losses, 700, 703, 3);
  ch_stability s = judge(losses, STEPS, true, NULL);
  assert_int_equal(s.verdict, CH_STABLE);
  assert_int_equal(s.spikes, 3);
  assert_int_equal(s.kept, 3);
  assert_int_equal(s.list[0].first, 200);
  assert_int_equal(s.list[0].last, 200);
  assert_int_equal(s.list[1].first, 400);
  assert_in_range(s.list[1].last, 430, 433);
  assert_int_equal(s.list[2].first, 700);
  assert_true(s.list[2].height > 2.7 && s.list[2].height < 3.3);
  for (int i = 0; i < 3; i++) assert_true(s.list[i].recovered);
}

static void a_spike_that_stays_is_instability(void **state) {
  (void)state;
  double losses[STEPS];
  int hopeless = 0;
  make(losses, 2, 0.03);
  add(losses, 300, 300, 2);
  add(losses, 600, STEPS, 1);
  ch_stability s = judge(losses, STEPS, true, &hopeless);
  assert_int_equal(s.verdict, CH_UNRECOVERED);
  assert_int_equal(s.step, 600);
  assert_int_equal(s.spikes, 2);
  assert_true(s.list[0].recovered);
  assert_false(s.list[1].recovered);
  assert_int_equal(hopeless, 800); /* a fifth of the steps later */
}

static void one_high_loss_at_the_end_is_no_instability(void **state) {
  (void)state;
  double losses[STEPS];
  make(losses, 3, 0.03);
  add(losses, STEPS, STEPS, 2);
  ch_stability s = judge(losses, STEPS, true, NULL);
  assert_int_equal(s.verdict, CH_STABLE);
  assert_int_equal(s.spikes, 1);
}

static void a_loss_that_climbs_slowly_is_rising(void **state) {
  (void)state;
  double losses[STEPS];
  make(losses, 4, 0.03);
  for (int i = 500; i < STEPS; i++) losses[i] += 0.002 * (i - 500);
  assert_int_equal(judge(losses, STEPS, true, NULL).verdict, CH_RISING);
}

static void a_loss_that_is_not_finite_is_named_with_its_step(void **state) {
  (void)state;
  double losses[STEPS];
  make(losses, 5, 0.03);
  ch_stability s = judge(losses, 321, false, NULL);
  assert_int_equal(s.verdict, CH_NOT_FINITE);
  assert_int_equal(s.step, 322);
  assert_string_equal(ch_stability_name(s.verdict), "not_finite");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_quiet_run_is_stable),
      cmocka_unit_test(spikes_that_pass_are_counted_and_placed),
      cmocka_unit_test(a_spike_that_stays_is_instability),
      cmocka_unit_test(one_high_loss_at_the_end_is_no_instability),
      cmocka_unit_test(a_loss_that_climbs_slowly_is_rising),
      cmocka_unit_test(a_loss_that_is_not_finite_is_named_with_its_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
