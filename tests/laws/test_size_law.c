/* Tests the law of size and tokens on losses whose law is known. */
#include <crosshead/fit.h>

#include "sanitized.h"
#include "train/training.h"

typedef struct made {
  ch_size_form form;
  double alpha_size, size, alpha_tokens, tokens; /* alpha_N, N_c, alpha_D, D_c; of a sum: alpha, A, beta, B */
  double floor;                                  /* E */
  double noise;                                  /* standard deviation of ln L */
  int sizes, lengths, outliers;                  /* outliers: one model in so many is far off; 0: none */
} made;

enum { MOST = 200 };

static double truth(const made *m, double size, double tokens) {
  if (m->form == CH_SIZE_FORM_SUM)
    return m->floor + m->size * pow(size, -m->alpha_size) + m->tokens * pow(tokens, -m->alpha_tokens);
  return pow(pow(m->size / size, m->alpha_size / m->alpha_tokens) + m->tokens / tokens, m->alpha_tokens);
}

/* Simulates sizes from 1 M and tokens from 20 M, each doubling. Returns the number of losses. */
static int make(const made *m, uint64_t seed, double *sizes, double *tokens, double *losses) {
  ch_random random;
  int n = 0;
  ch_random_seed(&random, seed, 11);
  for (int s = 0; s < m->sizes; s++)
    for (int l = 0; l < m->lengths; l++, n++) {
      sizes[n] = 1e6 * pow(2, s);
      tokens[n] = 2e7 * pow(2, l);
      losses[n] = truth(m, sizes[n], tokens[n]) * exp(m->noise * ch_random_normal(&random));
      if (m->outliers && ch_random_below(&random, (uint64_t)m->outliers) == 0) losses[n] *= 1.5;
    }
  return n;
}

static ch_size_law fit(const made *m, uint64_t seed, double at_size, double at_tokens) {
  double sizes[MOST], tokens[MOST], losses[MOST];
  ch_size_law law;
  int n = make(m, seed, sizes, tokens, losses);
  assert_ok(ch_size_law_fit(m->form, sizes, tokens, losses, n, at_size, at_tokens, &law, &failure));
  return law;
}

static void assert_near(double found, double expected, double share) {
  if (!(fabs(found - expected) <= share * fabs(expected)))
    fail_msg("%.9g where %.9g is right", found, expected);
}

/* Laws without a sum: the constants of Kaplan et al. 2020, and two invented laws. */
static const made kaplan = {
    .alpha_size = 0.076, .size = 6.5e13, .alpha_tokens = 0.103, .tokens = 1.8e13, .sizes = 6, .lengths = 5};
static const made steep = {
    .alpha_size = 0.3, .size = 4e7, .alpha_tokens = 0.4, .tokens = 5e8, .sizes = 4, .lengths = 4};
static const made gentle = {
    .alpha_size = 0.2, .size = 3e9, .alpha_tokens = 0.09, .tokens = 4e13, .sizes = 7, .lengths = 3};

/* Laws that are sums: the constants of Hoffmann et al. 2022, and an invented law without a floor. */
static const made hoffmann = {.form = CH_SIZE_FORM_SUM,
                              .alpha_size = 0.34,
                              .size = 406.4,
                              .alpha_tokens = 0.28,
                              .tokens = 410.7,
                              .floor = 1.69,
                              .sizes = 8,
                              .lengths = 8};
static const made no_floor = {.form = CH_SIZE_FORM_SUM,
                              .alpha_size = 0.2,
                              .size = 30,
                              .alpha_tokens = 0.3,
                              .tokens = 300,
                              .sizes = 6,
                              .lengths = 6};

static void losses_without_noise_give_their_law_back(void **state) {
  (void)state;
  const made *laws[] = {&kaplan, &steep, &gentle, &hoffmann};
  for (int i = 0; i < 4; i++) {
    const made *m = laws[i];
    ch_size_law law = fit(m, 1, 1e9, 1e11);
    assert_near(law.alpha_size.value, m->alpha_size, 1e-4);
    assert_near(law.alpha_tokens.value, m->alpha_tokens, 1e-4);
    assert_near(law.size.value, m->size, 1e-2);
    assert_near(law.tokens.value, m->tokens, 1e-2);
    assert_near(law.at.value, truth(m, 1e9, 1e11), 1e-5);
    assert_near(ch_size_law_loss(&law, 5e6, 3e7), truth(m, 5e6, 3e7), 1e-6);
    assert_int_equal(law.points, m->sizes * m->lengths);
    assert_near(law.floor.value, m->floor, 1e-3);
    assert_true(law.systematic == 0 && law.other_noise == 0);
    assert_true(law.sizes == m->sizes && law.lengths == m->lengths && law.outliers == 0);
  }
}

static bool covers(ch_estimate e, double value) {
  assert_true(e.low <= e.value && e.value <= e.high);
  return e.low <= value && value <= e.high;
}

/* Checks how often intervals of 95 % hold the truth: fewer than 88 % of 100 has a probability of 1 in 680. */
static void check_coverage(made m, double least) {
  enum { TIMES = 100 };
  int counts[6] = {0}, alarms = 0;
  for (int i = 0; i < TIMES; i++) {
    ch_size_law law = fit(&m, (uint64_t)i + 50, 1e9, 1e10);
    counts[0] += covers(law.alpha_size, m.alpha_size);
    counts[1] += covers(law.size, m.size);
    counts[2] += covers(law.alpha_tokens, m.alpha_tokens);
    counts[3] += covers(law.tokens, m.tokens);
    counts[4] += covers(law.at, truth(&m, 1e9, 1e10));
    counts[5] += covers(law.floor, m.floor);
    alarms += law.systematic > 0;
  }
  print_message("covered of %d: alpha_N %d, N_c %d, alpha_D %d, D_c %d, L %d, E %d; %d do not fit\n", TIMES,
                counts[0], counts[1], counts[2], counts[3], counts[4], counts[5], alarms);
  for (int i = 0; i < 6; i++) assert_true(counts[i] >= least * TIMES);
  assert_in_range(alarms, 0, 1);
}

static void intervals_cover_the_truth(void **state) {
  (void)state;
  made m = steep;
  m.noise = 0.003;
  check_coverage(m, 0.88);
  if (SANITIZED) return;
  m = kaplan;
  m.noise = 0.002;
  check_coverage(m, 0.88);
  m = hoffmann;
  m.noise = 0.002;
  check_coverage(m, 0.88);
}

static void intervals_with_outliers_cover_the_truth(void **state) {
  (void)state;
  made m = kaplan;
  m.noise = 0.003;
  m.outliers = 10;
  check_coverage(m, 0.85);
}

static void outliers_do_not_move_the_law(void **state) {
  (void)state;
  made m = steep;
  m.sizes = m.lengths = 6;
  m.noise = 0.001;
  ch_size_law clean = fit(&m, 3, 0, 0);
  assert_true(isnan(clean.at.value));
  m.outliers = 8;
  ch_size_law law = fit(&m, 3, 0, 0);
  assert_in_range(law.outliers, 1, 9);
  assert_near(law.alpha_size.value, m.alpha_size, 0.03);
  assert_near(law.alpha_tokens.value, m.alpha_tokens, 0.03);
  assert_true(law.noise < 0.003);
}

/* Models so large that only tokens matter say nothing about sizes, and the intervals show that. */
static void what_the_models_do_not_show_is_not_bounded(void **state) {
  (void)state;
  made m = {.alpha_size = 0.3,
            .size = 100,
            .alpha_tokens = 0.3,
            .tokens = 1e9,
            .noise = 0.003,
            .sizes = 5,
            .lengths = 5};
  ch_size_law law = fit(&m, 5, 0, 0);
  assert_near(law.alpha_tokens.value, 0.3, 0.05);
  assert_true(law.alpha_tokens.low > 0.2 && law.alpha_tokens.high < 0.4);
  assert_true(law.alpha_size.high == INFINITY || law.alpha_size.low == 0 || law.size.low == 0);
  assert_false(isfinite(law.size.high) && law.size.low > 0);
}

/* Fits losses of one form with the law of the other: the deviations are systematic, and only the right form
   has the noise of the losses. */
static void a_law_of_the_wrong_form_does_not_fit(void **state) {
  (void)state;
  for (int seed = 0; seed < 10; seed++)
    for (int form = 0; form < 2; form++) {
      made m = form == CH_SIZE_FORM_SUM ? hoffmann : steep;
      double sizes[MOST], tokens[MOST], losses[MOST];
      ch_size_law law;
      m.noise = 0.0005;
      m.sizes = m.lengths = 8;
      int n = make(&m, (uint64_t)seed, sizes, tokens, losses);
      assert_ok(ch_size_law_fit(form == CH_SIZE_FORM_SUM ? CH_SIZE_FORM_RATIO : CH_SIZE_FORM_SUM, sizes,
                                tokens, losses, n, 0, 0, &law, &failure));
      assert_true(law.systematic > 2 * m.noise);
      assert_true(law.other_noise > 0.6 * m.noise && law.other_noise < 1.6 * m.noise);
    }
}

/* The irreducible loss may be zero. */
static void a_floor_of_zero_is_not_bounded_below(void **state) {
  (void)state;
  made m = no_floor;
  m.noise = 0.01;
  ch_size_law law = fit(&m, 4, 1e9, 1e11);
  assert_true(law.floor.low == 0 && law.floor.high < 1.5);
  assert_true(covers(law.at, truth(&m, 1e9, 1e11)));
}

static void what_has_no_law_is_refused(void **state) {
  ch_error failure = {0};
  (void)state;
  double sizes[MOST], tokens[MOST], losses[MOST];
  ch_size_law law;
  int n = make(&steep, 1, sizes, tokens, losses);
  assert_int_equal(ch_size_law_fit(CH_SIZE_FORM_RATIO, sizes, tokens, losses, 7, 0, 0, &law, &failure),
                   CH_ERROR_ARGUMENT);
  assert_non_null(strstr(failure.message, "needs 8 to 10000 models; there are 7"));
  made narrow = steep;
  narrow.sizes = 2;
  narrow.lengths = 6;
  int few = make(&narrow, 1, sizes, tokens, losses);
  assert_int_equal(ch_size_law_fit(CH_SIZE_FORM_RATIO, sizes, tokens, losses, few, 0, 0, &law, &failure),
                   CH_ERROR_ARGUMENT);
  assert_non_null(strstr(failure.message, "there are 2 and 6"));
  assert_int_equal(make(&steep, 1, sizes, tokens, losses), n);
  assert_int_equal(ch_size_law_fit(CH_SIZE_FORM_RATIO, sizes, tokens, losses, n, 1e9, 0, &law, &failure),
                   CH_ERROR_ARGUMENT);
  assert_non_null(strstr(failure.message, "needs a positive number of parameters"));
  assert_int_equal(ch_size_law_fit((ch_size_form)2, sizes, tokens, losses, n, 0, 0, &law, &failure),
                   CH_ERROR_ARGUMENT);
  losses[3] = 0;
  assert_int_equal(ch_size_law_fit(CH_SIZE_FORM_RATIO, sizes, tokens, losses, n, 0, 0, &law, &failure),
                   CH_ERROR_ARGUMENT);
  assert_non_null(strstr(failure.message, "model 4 has"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_without_noise_give_their_law_back),
      cmocka_unit_test(intervals_cover_the_truth),
      cmocka_unit_test(intervals_with_outliers_cover_the_truth),
      cmocka_unit_test(outliers_do_not_move_the_law),
      cmocka_unit_test(what_the_models_do_not_show_is_not_bounded),
      cmocka_unit_test(a_law_of_the_wrong_form_does_not_fit),
      cmocka_unit_test(a_floor_of_zero_is_not_bounded_below),
      cmocka_unit_test(what_has_no_law_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
