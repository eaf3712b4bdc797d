/* Tests the fitted law on curves whose law is known. */
#include <crosshead/fit.h>

#include "train/training.h"

typedef struct made {
  double alpha, tokens, floor, noise, correlation, power; /* power: the noise is proportional to loss^power */
  int points, outliers; /* outliers: one point in so many is a spike; 0: none */
} made;

static double truth(const made *m, double tokens) {
  return pow(m->tokens / tokens, m->alpha) + m->floor;
}

/* Simulates the evaluations of a run of 50 M tokens, evenly spaced up to its end. */
static void make(const made *m, uint64_t seed, double *tokens, double *losses) {
  ch_random random;
  ch_random_seed(&random, seed, 7);
  double last = 0;
  for (int i = 0; i < m->points; i++) {
    tokens[i] = 50e6 * (i + 1) / m->points;
    last = m->correlation * last + sqrt(1 - m->correlation * m->correlation) * ch_random_normal(&random);
    losses[i] = truth(m, tokens[i]) + m->noise * pow(truth(m, tokens[i]), m->power) * last;
    if (m->outliers && ch_random_below(&random, (uint64_t)m->outliers) == 0)
      losses[i] += 0.5 + 3 * ch_random_uniform(&random);
  }
}

static ch_scaling_law fit(const made *m, uint64_t seed, double budget) {
  double tokens[1000], losses[1000];
  ch_scaling_law law;
  make(m, seed, tokens, losses);
  assert_ok(ch_scaling_law_fit(tokens, losses, m->points, budget, &law, &failure));
  return law;
}

static bool covers(ch_estimate e, double value) {
  assert_true(e.low <= e.value && e.value <= e.high);
  return e.low <= value && value <= e.high;
}

static void assert_near(double found, double expected, double share) {
  if (fabs(found - expected) > share * fabs(expected)) fail_msg("%.9g where %.9g is right", found, expected);
}

static void a_curve_without_noise_gives_its_law_back(void **state) {
  (void)state;
  const made curves[] = {{.alpha = 0.3, .tokens = 2e8, .floor = 1.7, .points = 40},
                         {.alpha = 0.08, .tokens = 5e13, .floor = 0.5, .points = 30},
                         {.alpha = 1.1, .tokens = 3e6, .floor = 3.2, .points = 8},
                         {.alpha = 0.5, .tokens = 4e8, .floor = 0, .points = 300}};
  for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
    const made *m = &curves[i];
    ch_scaling_law law = fit(m, 1, 1e9);
    assert_near(law.alpha.value, m->alpha, 1e-4);
    assert_near(law.tokens.value, m->tokens, 1e-2);
    assert_true(fabs(law.floor.value - m->floor) < 1e-3);
    assert_near(law.at.value, truth(m, 1e9), 1e-4);
    assert_near(ch_scaling_law_loss(&law, 3e7), truth(m, 3e7), 1e-6);
    assert_near(law.first, 50e6 / m->points, 1e-9);
    assert_near(law.last, 50e6, 1e-9);
    assert_int_equal(law.outliers, 0);
    assert_int_equal(law.points, m->points);
  }
}

/* Checks how often intervals of 95 % hold the truth: fewer than 90 % of 200 has a probability of 1 in 860. */
static void check_coverage(const made *m, double least) {
  enum { CURVES = 200 };
  int alpha = 0, tokens = 0, low_loss = 0, at = 0, alarms = 0;
  for (int i = 0; i < CURVES; i++) {
    ch_scaling_law law = fit(m, (uint64_t)i + 100, 5e8);
    alpha += covers(law.alpha, m->alpha);
    tokens += covers(law.tokens, m->tokens);
    low_loss += covers(law.floor, m->floor);
    at += covers(law.at, truth(m, 5e8));
    alarms += law.systematic > 0;
  }
  assert_in_range(alarms, 0, CURVES / 50); /* these laws do fit */
  print_message("covered: alpha %.3f, D_c %.3f, L_0 %.3f, L(500M) %.3f\n", alpha / (double)CURVES,
                tokens / (double)CURVES, low_loss / (double)CURVES, at / (double)CURVES);
  const int counts[] = {alpha, tokens, low_loss, at};
  for (int i = 0; i < 4; i++) {
    assert_true(counts[i] >= least * CURVES);
    assert_true(counts[i] < CURVES); /* an interval that always covers says nothing */
  }
}

/* A straight line, and a logarithm that turns, are not powers of the tokens. */
static void a_curve_of_another_form_does_not_fit(void **state) {
  (void)state;
  double tokens[60], losses[60];
  ch_random random;
  ch_random_seed(&random, 3, 7);
  for (int turns = 0; turns < 2; turns++) {
    ch_scaling_law law;
    for (int i = 0; i < 60; i++) {
      tokens[i] = 1e6 * (i + 1);
      losses[i] = turns ? 5 - 0.1 * pow(log(i + 1), 2) : 5 - 0.05 * i;
      losses[i] += 0.005 * ch_random_normal(&random);
    }
    assert_ok(ch_scaling_law_fit(tokens, losses, 60, 0, &law, &failure));
    assert_true(law.systematic > 0.01);
  }
}

static void intervals_cover_the_truth(void **state) {
  (void)state;
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .noise = 0.01, .points = 40};
  check_coverage(&m, 0.9);
}

static void intervals_of_noise_that_grows_with_the_loss_cover_the_truth(void **state) {
  (void)state;
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .noise = 0.005, .points = 60, .power = 1};
  check_coverage(&m, 0.88);
}

static void intervals_of_short_curves_cover_the_truth(void **state) {
  (void)state;
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .noise = 0.005, .points = 14};
  check_coverage(&m, 0.88);
}

static void intervals_of_correlated_noise_cover_the_truth(void **state) {
  (void)state;
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .noise = 0.01, .points = 100, .correlation = 0.6};
  check_coverage(&m, 0.88);
}

static void intervals_with_outliers_cover_the_truth(void **state) {
  (void)state;
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .noise = 0.01, .points = 60, .outliers = 8};
  check_coverage(&m, 0.88);
}

static void spikes_do_not_move_the_law(void **state) {
  (void)state;
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .noise = 0.005, .points = 120};
  ch_scaling_law clean = fit(&m, 3, 5e8);
  double tokens[120], losses[120];
  ch_scaling_law law;
  make(&m, 3, tokens, losses);
  for (int i = 30; i < 42; i++) losses[i] += 2;
  for (int i = 80; i < 90; i++) losses[i] += 0.3;
  assert_ok(ch_scaling_law_fit(tokens, losses, 120, 5e8, &law, &failure));
  assert_int_equal(law.outliers, 22);
  assert_near(law.alpha.value, clean.alpha.value, 0.1);
  assert_near(law.at.value, clean.at.value, 0.01);
}

static void many_points_are_thinned(void **state) {
  (void)state;
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .noise = 0.05, .points = 999};
  ch_scaling_law law = fit(&m, 5, 5e8);
  assert_in_range(law.points, 330, 420);
  assert_true(covers(law.alpha, m.alpha));
}

static void assert_refused(const double *tokens, const double *losses, int n, double budget,
                           const char *part) {
  ch_scaling_law law;
  ch_error error = {0};
  assert_int_equal(ch_scaling_law_fit(tokens, losses, n, budget, &law, &error), CH_ERROR_ARGUMENT);
  if (!strstr(error.message, part)) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void what_has_no_law_is_refused(void **state) {
  (void)state;
  double tokens[10], losses[10];
  made m = {.alpha = 0.35, .tokens = 4e8, .floor = 1.9, .points = 10};
  make(&m, 1, tokens, losses);
  assert_refused(tokens, losses, 7, 0, "at least 8 points");
  assert_refused(tokens, losses, 10, -3, "budget");
  losses[4] = NAN;
  assert_refused(tokens, losses, 10, 0, "point 5");
  make(&m, 1, tokens, losses);
  tokens[3] = tokens[2];
  assert_refused(tokens, losses, 10, 0, "must rise");
  make(&m, 1, tokens, losses);
  for (int i = 0; i < 10; i++) losses[i] = 3;
  assert_refused(tokens, losses, 10, 0, "do not fall");
  for (int i = 0; i < 10; i++) losses[i] = 3 + i;
  assert_refused(tokens, losses, 10, 0, "do not fall");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_curve_without_noise_gives_its_law_back),
      cmocka_unit_test(a_curve_of_another_form_does_not_fit),
      cmocka_unit_test(intervals_cover_the_truth),
      cmocka_unit_test(intervals_of_noise_that_grows_with_the_loss_cover_the_truth),
      cmocka_unit_test(intervals_of_short_curves_cover_the_truth),
      cmocka_unit_test(intervals_of_correlated_noise_cover_the_truth),
      cmocka_unit_test(intervals_with_outliers_cover_the_truth),
      cmocka_unit_test(spikes_do_not_move_the_law),
      cmocka_unit_test(many_points_are_thinned),
      cmocka_unit_test(what_has_no_law_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
