/* Tests comparisons with the best: Dunnett's critical values against published tables, the analysis of seeds
 * as blocks, and how often statements about simulated losses are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "laws/coverage.h"
#include "laws/dunnett.h"
#include "sanitized.h"

/* The expected values are from the tables of Dunnett (1955, 1964), at 5 %. */
static void critical_values_are_those_of_the_tables(void **state) {
  (void)state;
  static const struct {
    int comparisons;
    double degrees, one_sided, two_sided;
  } cases[] = {{1, 5, 2.02, 2.57},  {2, 5, 2.44, 3.03},  {9, 5, 3.30, 3.97},
               {3, 10, 2.34, 2.76}, {4, 20, 2.30, 2.65}, {8, 16, 2.61, 2.97},
               {9, 10, 2.81, 3.24}, {6, 30, 2.40, 2.72}, {9, 60, 2.48, 2.77}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_dunnett dunnett;
    ch_dunnett_prepare(cases[i].comparisons, &dunnett);
    assert_float_equal(ch_dunnett_value(&dunnett, false, 0.05, cases[i].degrees), cases[i].one_sided, 0.0065);
    assert_float_equal(ch_dunnett_value(&dunnett, true, 0.05, cases[i].degrees), cases[i].two_sided, 0.0065);
  }
  ch_dunnett one;
  ch_dunnett_prepare(1, &one); /* one comparison is Student's t */
  for (double degrees = 1; degrees < 200; degrees *= 1.7) {
    double t = ch_student_t(0.02, degrees);
    assert_float_equal(ch_dunnett_value(&one, true, 0.02, degrees), t, 1e-3 * t);
  }
  assert_true(isinf(ch_dunnett_value(&one, true, 0.05, 0)));
}

typedef struct fitted {
  ch_block_means fit;
  ch_best best;
  ch_arena arena;
} fitted;

static void analyse(const ch_block_value *values, int count, int groups, int blocks, fitted *f) {
  ch_error error = {0};
  *f = (fitted){0};
  if (ch_fit_block_means(values, count, groups, blocks, &f->arena, &f->fit, &error) != CH_OK ||
      ch_best_compare(&f->fit, 0.05, &f->arena, &f->best, &error) != CH_OK)
    fail_msg("%s", error.message);
}

/* With two groups the analysis is the paired t test. */
static void two_groups_are_paired(void **state) {
  (void)state;
  static const double a[] = {3.41, 3.73, 3.10}, b[] = {3.40, 3.71, 3.095};
  ch_block_value values[6];
  fitted f;
  for (int s = 0; s < 3; s++) {
    values[2 * s] = (ch_block_value){0, s, a[s]};
    values[2 * s + 1] = (ch_block_value){1, s, b[s]};
  }
  analyse(values, 6, 2, 3, &f);
  assert_float_equal(f.fit.means[0] - f.fit.means[1], 0.0116667, 1e-6);
  assert_float_equal(f.fit.errors[1], 0.0076376 / sqrt(3), 1e-5); /* deviation of the differences */
  assert_float_equal(f.fit.freedom[1], 2, 0.02);
  assert_true(ch_best_tied(&f.fit, &f.best, 0, 1));
  assert_true(f.best.low[0] == 0 && f.best.high[0] > 0.0116 && f.best.high[1] > 0);
  ch_arena_free(&f.arena);
}

/* The losses of five mechanisms, one row per seed. The residual mean square is that of a two-way analysis of
   variance. */
static void seeds_are_blocks(void **state) {
  (void)state;
  enum { GROUPS = 5, SEEDS = 4 };
  ch_block_value values[GROUPS * SEEDS];
  ch_random random;
  double of_group[GROUPS] = {0}, of_seed[SEEDS] = {0}, all = 0, squares = 0;
  fitted f;
  ch_random_seed(&random, 1, 2);
  for (int i = 0; i < GROUPS * SEEDS; i++) {
    values[i] = (ch_block_value){i % GROUPS, i / GROUPS, 3 * (i / GROUPS) + ch_random_normal(&random)};
    of_group[i % GROUPS] += values[i].value / SEEDS;
    of_seed[i / GROUPS] += values[i].value / GROUPS;
    all += values[i].value / (GROUPS * SEEDS);
  }
  for (int i = 0; i < GROUPS * SEEDS; i++)
    squares += pow(values[i].value - of_group[i % GROUPS] - of_seed[i / GROUPS] + all, 2);
  analyse(values, GROUPS * SEEDS, GROUPS, SEEDS, &f);
  assert_float_equal(f.fit.degrees, 12, 1e-9);
  assert_float_equal(f.fit.deviation, sqrt(squares / 12), 1e-9);
  for (int g = 0; g < GROUPS; g++) assert_float_equal(f.fit.means[g], of_group[g], 1e-12);
  /* Noise that looks equal gives nearly the pooled standard error and degrees of freedom. */
  double usual = sqrt(2 * squares / 12 / SEEDS);
  for (int i = 1; i < GROUPS; i++) {
    assert_in_range((int)(100 * f.fit.errors[i] / usual), 60, 150);
    assert_in_range((int)f.fit.freedom[i], 2, 12);
  }
  ch_arena_free(&f.arena);
}

/* If runs are missing, means are compared over the seeds that connect them. */
static void missing_seeds_are_adjusted_for(void **state) {
  (void)state;
  fitted f;
  /* No noise at all: group 2 has only the third seed, whose losses are 9 above those of the first. */
  static const ch_block_value values[] = {{0, 0, 1}, {1, 0, 2}, {0, 1, 4}, {1, 1, 5}, {1, 2, 11}, {2, 2, 12}};
  analyse(values, 6, 3, 3, &f);
  assert_float_equal(f.fit.degrees, 1, 1e-9);
  assert_float_equal(f.fit.means[2] - f.fit.means[0], 2, 1e-9);
  assert_float_equal(f.fit.means[1] - f.fit.means[0], 1, 1e-9);
  ch_arena_free(&f.arena);
  /* Nothing connects group 2. */
  static const ch_block_value apart[] = {{0, 0, 1}, {1, 0, 2}, {0, 1, 4}, {1, 1, 5.5}, {2, 2, 12}};
  analyse(apart, 5, 3, 3, &f);
  assert_true(isinf(f.fit.errors[2]) && isfinite(f.fit.errors[1]));
  assert_true(ch_best_tied(&f.fit, &f.best, 0, 2) && isinf(f.best.high[2]));
  ch_arena_free(&f.arena);
  /* One seed: no noise is known. */
  analyse(values, 2, 2, 1, &f);
  assert_true(isinf(f.best.high[0]) && f.best.low[1] == 0);
  ch_arena_free(&f.arena);
}

/* Statements about one mechanism of five that has three times the noise of the others are right in 94.5 % of
   cases or a little more. `least_unequal` is three standard errors of the draws below 94 %. */
enum { DRAWS = 400 };
static const double least_unequal = 0.94 - 0.036;

static void statements_are_right(void **state) {
  (void)state;
  static const int seeds[] = {2, 3, 5, 10};
  for (int noise = NOISE_EQUAL; noise <= NOISE_SKEWED; noise++)
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s += SANITIZED ? 3 : 1)
      for (int step = 0; step <= 3; step += 3) {
        coverage_truth t = {.groups = 5, .seeds = seeds[s], .noise = (coverage_noise)noise};
        coverage c;
        for (int i = 0; i < t.groups; i++) t.means[i] = step * i;
        double least = noise == NOISE_UNEQUAL ? least_unequal : 0.94;
        assert_true(coverage_measure(&t, DRAWS, 1, &c));
        if (c.statements < 0.94 || c.front < least || c.bounds < least || (step == 0 && c.pairs < least))
          fail_msg("%d seeds, noise %d, step %d: intervals %.3f, front %.3f, bounds %.3f, ties %.3f", t.seeds,
                   noise, step, c.statements, c.front, c.bounds, c.pairs);
      }
}

/* Two equal mechanisms must be tied in 93 to 99 % of the comparisons; 95 % are expected. */
static void a_mechanism_beside_itself_is_tied(void **state) {
  (void)state;
  static const int seeds[] = {2, 3, 5};
  for (size_t s = 0; s < (SANITIZED ? 1 : sizeof seeds / sizeof *seeds); s++) {
    coverage_truth t = {.groups = 2, .seeds = seeds[s]};
    coverage c;
    assert_true(coverage_measure(&t, 1000, 2, &c));
    assert_in_range((int)(1000 * c.pairs), 930, 990);
  }
}

/* The losses are spread like those of nine mechanisms with three seeds. */
static void intervals_are_a_third_shorter_than_bonferronis(void **state) {
  (void)state;
  coverage_truth t = {.groups = 9, .seeds = 3, .means = {0, 0, 0.5, 1.1, 2.5, 3.1, 3.3, 3.5, 4}};
  coverage c;
  assert_true(coverage_measure(&t, 200, 3, &c));
  assert_true(c.length < 0.667 * c.earlier);
  assert_true(c.length > 0.5 * c.earlier);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(critical_values_are_those_of_the_tables),
      cmocka_unit_test(two_groups_are_paired),
      cmocka_unit_test(seeds_are_blocks),
      cmocka_unit_test(missing_seeds_are_adjusted_for),
      cmocka_unit_test(statements_are_right),
      cmocka_unit_test(a_mechanism_beside_itself_is_tied),
      cmocka_unit_test(intervals_are_a_third_shorter_than_bonferronis),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
