/* Tests the laws of a ladder on losses simulated by known laws: their values, how often intervals cover the
 * truth, multipliers, crossings, and the prediction of the largest models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <crosshead/ladder.h>

#include "base/random.h"
#include "laws/ladder_laws.h"
#include "laws/statistics.h"
#include "sanitized.h"

enum { MOST = 4, RUNGS = 8, SHARES = 2 };

typedef struct truth {
  double floor, above, alpha; /* above: nats above the floor at 1e13 FLOPs */
} truth;

/* Curves simulated by laws, with memory for their points. */
typedef struct made {
  ch_ladder_curve curves[MOST];
  double flops[MOST][RUNGS], losses[MOST][RUNGS], earlier[MOST][SHARES * RUNGS];
} made;

static double loss_of(const truth *t, double flops) {
  return t->floor + t->above * pow(flops / 1e13, -t->alpha);
}

/* Simulates rungs from 1e12 FLOPs, each `ratio` times the previous one. Half of the noise variance of an earlier
   share is the noise of the run's final loss. */
static void make(made *m, const truth *truths, int count, int rungs, double ratio, double noise,
                 uint64_t seed) {
  static const char *const names[] = {"a", "b", "c", "d"};
  ch_random random;
  ch_random_seed(&random, seed, 5);
  for (int c = 0; c < count; c++) {
    for (int i = 0; i < rungs; i++) {
      m->flops[c][i] = 1e12 * pow(ratio, i) * (1 + 0.05 * c);
      double own = loss_of(&truths[c], m->flops[c][i]), z = noise * ch_random_normal(&random);
      m->losses[c][i] = own + z;
      for (int k = 0; k < SHARES; k++)
        m->earlier[c][k * rungs + i] = truths[c].floor + (1.1 + 0.1 * k) * (own - truths[c].floor) +
                                       sqrt(0.5) * (z + noise * ch_random_normal(&random));
    }
    m->curves[c] = (ch_ladder_curve){.name = names[c],
                                     .rungs = rungs,
                                     .flops = m->flops[c],
                                     .losses = m->losses[c],
                                     .target_flops = 30 * m->flops[c][rungs - 1]};
  }
}

static ch_ladder_laws *fitted(const made *m, int count) {
  ch_ladder_laws *laws = NULL;
  ch_error error;
  assert_int_equal(ch_ladder_fit(m->curves, count, 0, &laws, &error), CH_OK);
  return laws;
}

static bool covers(ch_estimate e, double value) {
  return e.low <= value && value <= e.high;
}

static void near(double value, double expected, double tolerance) {
  if (!(fabs(value - expected) <= tolerance * fabs(expected)))
    fail_msg("%.9g where %.9g is right", value, expected);
}

/* The quantiles are from tables of Fisher's F. F with one degree of freedom in the numerator is the square of
   Student's t. */
static void quantiles_are_those_of_fishers_f(void **state) {
  (void)state;
  near(ch_f_outside(161.4476, 1, 1), 0.05, 1e-5);
  near(ch_f_outside(6.9443, 2, 4), 0.05, 1e-4);
  near(ch_f_outside(2.9782, 10, 10), 0.05, 1e-4);
  near(ch_f_outside(4.8491, 10, 10), 0.01, 1e-4);
  near(ch_f_outside(pow(ch_student_t(0.03, 7), 2), 1, 7), 0.03, 1e-9);
  near(ch_f_outside(0, 3, 3), 1, 1e-12);
}

static void laws_without_noise_are_found(void **state) {
  (void)state;
  static const truth truths[] = {{1.7, 1.5, 0.15}, {1.7, 1.4, 0.17}, {1.7, 1.6, 0.22}};
  made m;
  make(&m, truths, 3, 5, 4, 0, 1);
  for (int c = 0; c < 3; c++) {
    m.curves[c].earlier = m.earlier[c];
    m.curves[c].shares = SHARES;
    m.curves[c].seconds_per_flop = 1e-11 * (1 + c);
  }
  ch_ladder_laws *laws = fitted(&m, 3);
  ch_ladder_basis basis;
  ch_ladder_basis_of(laws, &basis);
  assert_true(basis.one_floor && basis.degrees == 15 - 7 && basis.baseline == 0);
  for (int c = 0; c < 3; c++) {
    const ch_ladder_law *law = ch_ladder_laws_at(laws, c);
    double target = 30 * m.flops[c][4], loss = loss_of(&truths[c], target);
    near(law->floor.value, 1.7, 1e-3);
    near(law->alpha.value, truths[c].alpha, 2e-3);
    near(law->amplitude.value, truths[c].above * pow(1e13, truths[c].alpha), 0.03);
    near(law->target.value, loss, 1e-4);
    near(law->top.value, law->top_loss, 1e-4);
    near(ch_ladder_loss(laws, c, m.flops[c][2]), m.losses[c][2], 1e-5);
    assert_false(law->says_nothing);
    double needed = 1e13 * pow((loss - 1.7) / 1.5, -1 / 0.15);
    near(law->multiplier.value, needed / target, 0.02);
    near(law->time_multiplier.value, needed / target / (1 + c), 0.02);
    near(law->rung_multipliers[1], 1e13 * pow((m.losses[c][1] - 1.7) / 1.5, -1 / 0.15) / m.flops[c][1], 1e-3);
  }
  assert_null(ch_ladder_laws_at(laws, 3));
  ch_ladder_laws_free(laws);
}

/* Asserts that intervals of 95 % cover the truth as often as they should, within four standard errors of the count. By
   chance, a check fails less than once in 300 times. */
static void assert_covers(const char *what, int covered, int of) {
  double least = 0.95 * of - 4 * sqrt(of * 0.95 * 0.05);
  if (covered < least) fail_msg("the interval of %s covers the truth %d of %d times", what, covered, of);
}

static void intervals_cover_as_often_as_they_say(void **state) {
  (void)state;
  static const truth shared[] = {{1.7, 1.5, 0.14}, {1.7, 1.4, 0.16}, {1.7, 1.3, 0.18}},
                     close[] = {{1.7, 1.5, 0.14}, {1.8, 1.3, 0.16}},
                     apart[] = {{1.7, 1.5, 0.14}, {2.0, 1.1, 0.18}};
  static const struct {
    const truth *truths;
    int count, rungs, shares, times;
    double ratio, noise;
  } cases[] = {{shared, 1, 5, 0, 100, 4, 0.005}, {shared, 2, 4, 0, 40, 8, 0.01},
               {shared, 3, 4, 2, 20, 4, 0.004},  {close, 2, 5, 0, 40, 4, 0.005},
               {close, 2, 4, 2, 40, 4, 0.004},   {apart, 2, 4, 0, 40, 4, 0.01}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const truth *truths = cases[k].truths;
    int predicted = 0, tops = 0, floors = 0, alphas = 0, multipliers = 0, of = 0;
    for (int t = 0; t < (SANITIZED ? cases[k].times / 4 : cases[k].times); t++) {
      made m;
      ch_random random;
      ch_random_seed(&random, (uint64_t)t, 77);
      make(&m, truths, cases[k].count, cases[k].rungs, cases[k].ratio, cases[k].noise, (uint64_t)t + 1);
      for (int c = 0; c < cases[k].count; c++) {
        m.curves[c].earlier = cases[k].shares ? m.earlier[c] : NULL;
        m.curves[c].shares = cases[k].shares;
      }
      ch_ladder_laws *laws = fitted(&m, cases[k].count);
      for (int c = 0; c < cases[k].count; c++, of++) {
        const ch_ladder_law *law = ch_ladder_laws_at(laws, c);
        double true_loss = loss_of(&truths[c], law->target_flops);
        double needed = 1e13 * pow((true_loss - truths->floor) / truths->above, -1 / truths->alpha);
        predicted += covers(law->target, true_loss + cases[k].noise * ch_random_normal(&random));
        tops += covers(law->top, law->top_loss);
        floors += covers(law->floor, truths[c].floor);
        alphas += covers(law->alpha, truths[c].alpha);
        multipliers += covers(law->multiplier, needed / law->target_flops) || c == 0;
      }
      ch_ladder_laws_free(laws);
    }
    assert_covers("a prediction", predicted, of);
    if (cases[k].rungs * cases[k].count > 3 * cases[k].count + 1) assert_covers("a largest model", tops, of);
    assert_covers("a floor", floors, of);
    assert_covers("an alpha", alphas, of);
    assert_covers("a multiplier", multipliers, of);
  }
}

static void a_crossing_is_found_where_it_is(void **state) {
  (void)state;
  /* a leads up to 1e15 FLOPs, then b. */
  static const truth truths[] = {{1.6, 1.5, 0.15}, {1.6, 1.5 * 1.2589254, 0.20}};
  int found = 0, covered = 0, times = 20;
  for (int t = 0; t < times; t++) {
    made m;
    make(&m, truths, 2, 6, 4, 0.002, (uint64_t)t + 1);
    ch_ladder_laws *laws = fitted(&m, 2);
    const ch_ladder_crossing *c = ch_ladder_crossing_at(laws, 0);
    if (c) {
      assert_true(c->below == 0 && c->above == 1 && c->share > 0.5 && c->share <= 1);
      assert_true(c->flops.low <= c->flops.value && c->flops.value <= c->flops.high);
      found++;
      covered += covers(c->flops, 1e15);
      assert_null(ch_ladder_crossing_at(laws, 1));
    }
    ch_ladder_laws_free(laws);
  }
  assert_true(found >= times - 1);
  assert_true(covered >= found - 3);
}

static void laws_with_their_own_floors_are_told(void **state) {
  (void)state;
  static const truth apart[] = {{1.2, 1.5, 0.2}, {1.9, 1.0, 0.3}};
  made m;
  make(&m, apart, 2, 6, 4, 0.0005, 3);
  ch_ladder_laws *laws = fitted(&m, 2);
  ch_ladder_basis basis;
  ch_ladder_basis_of(laws, &basis);
  assert_false(basis.one_floor);
  assert_int_equal(basis.degrees, 6);
  assert_true(covers(ch_ladder_laws_at(laws, 0)->floor, 1.2));
  assert_true(covers(ch_ladder_laws_at(laws, 1)->floor, 1.9));
  ch_ladder_laws_free(laws);
}

/* The floors differ too little for certainty. One floor for all would miss most multipliers. */
static void floors_that_may_differ_are_not_shared(void **state) {
  (void)state;
  static const truth truths[] = {{1.7, 1.5, 0.14}, {1.3, 1.6, 0.16}, {1.0, 1.55, 0.18}};
  int covered = 0, times = 60;
  for (int t = 0; t < times; t++) {
    made m;
    make(&m, truths, 3, 4, 4, 0.005, (uint64_t)t + 1);
    for (int c = 0; c < 3; c++) {
      m.curves[c].earlier = m.earlier[c];
      m.curves[c].shares = SHARES;
    }
    ch_ladder_laws *laws = fitted(&m, 3);
    for (int c = 0; c < 3; c++)
      covered += covers(ch_ladder_laws_at(laws, c)->target, loss_of(&truths[c], 30 * m.flops[c][3]));
    ch_ladder_laws_free(laws);
  }
  assert_true(covered >= 0.87 * 3 * times);
}

/* Earlier shares that follow another law must not spoil the law of the final losses. */
static void shares_that_do_not_fit_are_left_out(void **state) {
  (void)state;
  static const truth truths[] = {{1.7, 1.5, 0.15}, {1.7, 1.4, 0.17}};
  made m;
  make(&m, truths, 2, 6, 4, 0.0005, 4);
  for (int c = 0; c < 2; c++) {
    for (int k = 0; k < SHARES; k++)
      for (int i = 0; i < 6; i++) m.earlier[c][k * 6 + i] = 4 + 0.1 * c - 0.05 * i * i;
    m.curves[c].earlier = m.earlier[c];
    m.curves[c].shares = SHARES;
  }
  ch_ladder_laws *laws = fitted(&m, 2);
  ch_ladder_basis basis;
  ch_ladder_basis_of(laws, &basis);
  assert_int_equal(basis.shares, 0);
  near(basis.noise, 0.0005, 1);
  ch_ladder_laws_free(laws);
}

static void losses_that_do_not_fall_say_nothing(void **state) {
  (void)state;
  static const double flops[] = {1e12, 4e12, 16e12, 64e12, 256e12}, flat[] = {3, 3.01, 2.99, 3.02, 3};
  ch_ladder_curve curve = {.name = "flat", .rungs = 5, .flops = flops, .losses = flat};
  ch_ladder_laws *laws;
  ch_error error;
  assert_int_equal(ch_ladder_fit(&curve, 1, 0, &laws, &error), CH_OK);
  assert_true(ch_ladder_laws_at(laws, 0)->says_nothing);
  assert_true(isnan(ch_ladder_laws_at(laws, 0)->target.value));
  ch_ladder_laws_free(laws);
}

static void impossible_ladders_are_refused(void **state) {
  (void)state;
  static const double flops[] = {1e12, 4e12, 16e12, 64e12}, same[] = {1e12, 4e12, 4e12, 64e12},
                      losses[] = {4, 3, 2.5, 2.2}, broken[] = {4, 3, NAN, 2.2};
  const struct {
    ch_ladder_curve curve;
    int count, baseline;
    const char *says;
  } cases[] = {
      {{.name = "a", .rungs = 3, .flops = flops, .losses = losses}, 1, 0, "3 sizes; a law needs 4 to 16"},
      {{.name = "a", .rungs = 4, .flops = same, .losses = losses}, 1, 0, "must rise"},
      {{.name = "a", .rungs = 4, .flops = flops, .losses = broken}, 1, 0, "losses are positive"},
      {{.name = "a", .rungs = 4, .flops = flops, .losses = losses, .earlier = losses, .shares = 9},
       1,
       0,
       "9 shares"},
      {{.name = "a", .rungs = 4, .flops = flops, .losses = losses}, 0, 0, "0 curves"},
      {{.name = "a", .rungs = 4, .flops = flops, .losses = losses}, 1, 1, "baseline is curve 1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_ladder_laws *laws;
    ch_error error;
    assert_int_equal(ch_ladder_fit(&cases[i].curve, cases[i].count, cases[i].baseline, &laws, &error),
                     CH_ERROR_ARGUMENT);
    assert_null(laws);
    if (!strstr(error.message, cases[i].says)) fail_msg("%s", error.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantiles_are_those_of_fishers_f),
      cmocka_unit_test(laws_without_noise_are_found),
      cmocka_unit_test(intervals_cover_as_often_as_they_say),
      cmocka_unit_test(a_crossing_is_found_where_it_is),
      cmocka_unit_test(laws_with_their_own_floors_are_told),
      cmocka_unit_test(floors_that_may_differ_are_not_shared),
      cmocka_unit_test(shares_that_do_not_fit_are_left_out),
      cmocka_unit_test(losses_that_do_not_fall_say_nothing),
      cmocka_unit_test(impossible_ladders_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
