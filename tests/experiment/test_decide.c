/* Decisions on made-up runs with noise of known size: how often they are wrong, and whether differences are found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "experiment/summary.h"
#include "experiment/verdict.h"

enum { MOST_MODELS = 6, DRAWS = 1000 };

/* What is true of made-up models. */
typedef struct truth {
  int count;
  double loss[MOST_MODELS], noise[MOST_MODELS];
  int64_t cache[MOST_MODELS];
} truth;

/* One comparison, filled again for every draw. */
typedef struct made {
  ch_comparison comparison;
  ch_compared runs[MOST_MODELS * CH_COMPARE_MOST_SEEDS];
} made;

static const char *const names[MOST_MODELS] = {"a", "b", "c", "d", "e", "f"};

static ch_compared run_of(const truth *true_of, int model, int seed, double loss) {
  return (ch_compared){.name = names[model],
                       .seed = (uint64_t)seed + 1,
                       .validation_loss = loss,
                       .cache_elements_per_token = true_of->cache[model],
                       .train_seconds = 10};
}

/* Runs with a part of noise that a seed gives to all models, and a part of each run's own. */
static void draw(const truth *true_of, int seeds, ch_random *random, made *m) {
  m->comparison = (ch_comparison){.tolerance = 0.01, .models = m->runs, .training.seeds = seeds};
  for (int s = 0; s < seeds; s++) {
    double common = 0.1 * ch_random_normal(random);
    for (int i = 0; i < true_of->count; i++)
      m->runs[m->comparison.count++] =
          run_of(true_of, i, s, true_of->loss[i] + common + true_of->noise[i] * ch_random_normal(random));
  }
}

static ch_summary summarised(const ch_comparison *comparison, int seeds) {
  ch_summary summary;
  ch_error error = {0};
  if (ch_summarise_first(comparison, seeds, &summary, &error) != CH_OK) fail_msg("%s", error.message);
  return summary;
}

/* Counts over the draws. */
typedef struct counts {
  int kinds[3];           /* of verdicts */
  int taken[MOST_MODELS]; /* verdicts "take", by model */
  int any_beyond;         /* draws in which any difference is larger than the noise */
} counts;

static counts count_draws(const truth *true_of, int seeds, uint64_t stream) {
  static made m;
  counts c = {{0}, {0}, 0};
  for (int d = 0; d < DRAWS; d++) {
    ch_random random;
    ch_random_seed(&random, stream, (uint64_t)d);
    draw(true_of, seeds, &random, &m);
    ch_summary s = summarised(&m.comparison, 0);
    c.kinds[s.decision.kind]++;
    if (s.decision.kind == CH_VERDICT_TAKE) c.taken[s.groups[s.decision.pick].name[0] - 'a']++;
    bool any = false;
    for (int i = 0; i < s.count * s.count; i++) any = any || s.differences[i].beyond_noise;
    c.any_beyond += any;
    ch_arena_free(&s.arena);
  }
  return c;
}

/* Three standard errors above one in twenty. */
static const int one_in_twenty = DRAWS / 20 + 21;

static void a_mechanism_is_not_told_from_itself(void **state) {
  (void)state;
  static const truth same = {.count = 2, .loss = {4, 4}, .noise = {0.02, 0.02}, .cache = {64, 64}},
                     beside_another = {
                         .count = 3, .loss = {4, 4, 4.4}, .noise = {0.02, 0.02, 0.02}, .cache = {64, 64, 16}};
  static const int seeds[] = {2, 3, 5, 8};
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
    counts c = count_draws(&same, seeds[i], i);
    assert_in_range(c.kinds[CH_VERDICT_TAKE], 1, one_in_twenty);
    assert_int_equal(c.kinds[CH_VERDICT_NOT_DISTINGUISHABLE], DRAWS - c.kinds[CH_VERDICT_TAKE]);
    c = count_draws(&beside_another, seeds[i], 10 + i);
    assert_in_range(c.kinds[CH_VERDICT_TAKE], 0, one_in_twenty);
  }
}

static void of_equal_mechanisms_no_pair_differs_in_nineteen_of_twenty_comparisons(void **state) {
  (void)state;
  truth same = {.count = 5,
                .loss = {4, 4, 4, 4, 4},
                .noise = {0.02, 0.02, 0.02, 0.02, 0.02},
                .cache = {64, 32, 16, 8, 4}};
  static const int seeds[] = {2, 3, 5};
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
    assert_in_range(count_draws(&same, seeds[i], 20 + i).any_beyond, 1, one_in_twenty);
  /* Where one is five times as noisy, the pooled noise says too little of its pairs, and their own noise helps. */
  same.noise[0] = 0.1;
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
    assert_in_range(count_draws(&same, seeds[i], 30 + i).any_beyond, 1, DRAWS / 10);
}

static void planted_differences_are_found(void **state) {
  (void)state;
  /* b is 3 % worse, c 0.3 % with a quarter of the cache; a difference has a noise of 0.2 %. */
  static const truth smaller = {.count = 3,
                                .loss = {4, 4.12, 4.012},
                                .noise = {0.0057, 0.0057, 0.0057},
                                .cache = {64, 16, 16}},
                     /* and here what has the smaller caches is worse by more than the tolerance */
      best = {.count = 3, .loss = {4, 4.12, 4.16}, .noise = {0.01, 0.01, 0.01}, .cache = {64, 16, 8}},
                     /* equal caches: 2 % apart */
      alike = {.count = 2, .loss = {4.08, 4}, .noise = {0.01, 0.01}, .cache = {64, 64}};
  counts c = count_draws(&smaller, 3, 40);
  assert_in_range(c.taken[2], DRAWS * 7 / 10, DRAWS);
  assert_in_range(c.taken[0] + c.taken[1], 0, one_in_twenty);
  c = count_draws(&smaller, 5, 41);
  assert_in_range(c.taken[2], DRAWS * 19 / 20, DRAWS);
  c = count_draws(&best, 3, 42);
  assert_in_range(c.taken[0], DRAWS * 9 / 10, DRAWS);
  c = count_draws(&alike, 4, 43);
  assert_in_range(c.taken[1], DRAWS * 9 / 10, DRAWS);
  assert_in_range(c.taken[0], 0, 1);
}

/* b has the smaller cache and is just beyond the tolerance, or just within it. */
static void at_the_limit_of_the_tolerance_few_verdicts_are_wrong(void **state) {
  (void)state;
  truth border = {.count = 2, .loss = {4, 4.0401}, .noise = {0.02, 0.02}, .cache = {64, 16}};
  counts c = count_draws(&border, 4, 50);
  assert_in_range(c.taken[1], 1, one_in_twenty);
  border.loss[1] = 4.0399;
  c = count_draws(&border, 4, 51);
  assert_in_range(c.taken[0], 1, one_in_twenty);
}

/* The verdict after every seed, until one can be taken. */
static void looking_after_every_seed_misleads_in_one_of_twenty_comparisons(void **state) {
  (void)state;
  static made m;
  static const truth same = {.count = 2, .loss = {4, 4}, .noise = {0.02, 0.02}, .cache = {64, 64}};
  int corrected = 0, plain = 0;
  for (int d = 0; d < DRAWS; d++) {
    ch_random random;
    ch_random_seed(&random, 60, (uint64_t)d);
    draw(&same, 12, &random, &m);
    m.comparison.training.seeds = 2;
    bool wrong[2] = {false, false};
    for (int seeds = 2; seeds <= 12; seeds++)
      for (int k = 0; k < 2; k++) {
        m.comparison.until_decided = k == 0;
        ch_summary s = summarised(&m.comparison, seeds);
        wrong[k] = wrong[k] || s.decision.kind == CH_VERDICT_TAKE;
        ch_arena_free(&s.arena);
      }
    corrected += wrong[0];
    plain += wrong[1];
  }
  assert_in_range(corrected, 1, one_in_twenty);
  assert_in_range(plain, 3 * DRAWS / 20, DRAWS); /* what the correction is for */
}

/* The rule, once more: the model with the smallest cache within the tolerance, of equal caches the better one. */
static int rule(const truth *true_of, const double *loss, double limit) {
  int pick = -1;
  double best = INFINITY;
  for (int i = 0; i < true_of->count; i++) best = fmin(best, loss[i]);
  for (int i = 0; i < true_of->count; i++) {
    if (loss[i] > best + limit) continue;
    bool cheaper = pick >= 0 && true_of->cache[i] < true_of->cache[pick],
         alike = pick >= 0 && true_of->cache[i] == true_of->cache[pick];
    if (pick < 0 || cheaper || (alike && loss[i] < loss[pick])) pick = i;
  }
  return pick;
}

/* Losses that all intervals allow never lead the rule to a model that the verdict does not name. */
static void no_losses_within_the_intervals_contradict_the_verdict(void **state) {
  (void)state;
  static made m;
  static const int64_t caches[] = {64, 64, 32, 32, 16};
  int tried = 0, kinds[3] = {0};
  for (int d = 0; d < DRAWS; d++) {
    ch_random random;
    ch_random_seed(&random, 70, (uint64_t)d);
    truth t = {.count = 2 + d % 4};
    for (int i = 0; i < t.count; i++) {
      t.loss[i] = 4 + 0.03 * ch_random_normal(&random);
      t.noise[i] = 0.005;
      t.cache[i] = caches[ch_random_below(&random, 5)];
    }
    draw(&t, 2 + d % 5, &random, &m);
    ch_summary s = summarised(&m.comparison, 0);
    kinds[s.decision.kind]++;
    int model[MOST_MODELS]; /* of a group */
    for (int g = 0; g < s.count; g++) model[g] = s.groups[g].name[0] - 'a';
    for (int guess = 0; guess < 200; guess++) {
      double loss[MOST_MODELS];
      double spread = s.differences[1].high - s.differences[1].mean;
      bool allowed = true;
      for (int g = 0; g < s.count; g++)
        loss[model[g]] =
            s.groups[g].quality + fmin(spread, 0.1) * ch_random_normal(&random) * (guess % 4) / 4;
      for (int a = 0; a < s.count; a++)
        for (int b = 0; b < s.count; b++) {
          double difference = loss[model[a]] - loss[model[b]];
          const ch_difference *interval = ch_difference_of(&s, a, b);
          allowed = allowed && (a == b || (difference >= interval->low && difference <= interval->high));
        }
      if (!allowed) continue;
      tried++;
      int pick = rule(&t, loss, s.decision.limit);
      for (int g = 0; g < s.count; g++)
        if (model[g] == pick && !s.decision.standings[g].candidate)
          fail_msg("draw %d: %s is not a candidate", d, names[pick]);
    }
    ch_arena_free(&s.arena);
  }
  assert_true(tried > 50 * DRAWS);
  assert_true(kinds[CH_VERDICT_TAKE] > DRAWS / 5 && kinds[CH_VERDICT_NOT_DISTINGUISHABLE] > DRAWS / 5);
}

/* Two models whose differences have this mean and this deviation exactly. */
static void make_exactly(int seeds, double mean, double deviation, made *m) {
  static const truth two = {.count = 2, .cache = {64, 64}};
  double sum = 0;
  m->comparison = (ch_comparison){.tolerance = 0.01, .models = m->runs, .training.seeds = seeds};
  for (int s = 0; s < seeds; s++) sum += pow(s - (seeds - 1) / 2.0, 2);
  for (int s = 0; s < seeds; s++) {
    double off = deviation * (s - (seeds - 1) / 2.0) / sqrt(sum / (seeds - 1));
    m->runs[m->comparison.count++] = run_of(&two, 0, s, 4);
    m->runs[m->comparison.count++] = run_of(&two, 1, s, 4 + mean + off);
  }
}

static void so_many_more_seeds_tell_if_means_and_noise_stay(void **state) {
  (void)state;
  static made m;
  make_exactly(3, 0.01, 0.01, &m);
  ch_summary s = summarised(&m.comparison, 0);
  const ch_decision d = s.decision;
  assert_int_equal(d.kind, CH_VERDICT_NOT_DISTINGUISHABLE);
  assert_in_range(d.more_seeds, 2, 8);
  assert_float_equal(d.more_seconds, 2 * 10 * d.more_seeds, 1e-9);
  assert_true(d.hope_seconds > 0 && d.hope_seconds < d.more_seconds);
  ch_text text = {0};
  char expected[200];
  ch_verdict_sentence(&s, &m.comparison, &text);
  snprintf(expected, sizeof expected,
           "a or b: not distinguishable with 3 seeds; about %d more seeds (1m%02ds) would tell.",
           d.more_seeds, (int)d.more_seconds - 60);
  assert_string_equal(text.data, expected);
  ch_text_free(&text);
  ch_arena_free(&s.arena);
  for (int more = d.more_seeds - 1; more <= d.more_seeds; more++) {
    make_exactly(3 + more, 0.01, 0.01, &m);
    s = summarised(&m.comparison, 0);
    assert_int_equal(s.decision.kind,
                     more == d.more_seeds ? CH_VERDICT_TAKE : CH_VERDICT_NOT_DISTINGUISHABLE);
    ch_arena_free(&s.arena);
  }
  /* A difference that no number of seeds shows. */
  make_exactly(3, 0, 0.01, &m);
  s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.more_seeds, -1);
  ch_verdict_sentence(&s, &m.comparison, &text);
  assert_string_equal(text.data,
                      "a or b: not distinguishable with 3 seeds; even 100 seeds would hardly tell.");
  ch_text_free(&text);
  ch_arena_free(&s.arena);
  /* Runs that are equal to the last bit. */
  make_exactly(3, 0, 0, &m);
  s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_NOT_DISTINGUISHABLE);
  assert_false(s.differences[1].beyond_noise);
  assert_true(isinf(s.decision.hope_seconds));
  ch_arena_free(&s.arena);
}

/* Three models; b and c differ from a by these means, with a deviation of 0.01 each and no correlation. */
static void make_three(int seeds, double b, double c, made *m) {
  static const truth three = {.count = 3, .cache = {64, 64, 64}};
  double middle = (seeds - 1) / 2.0, squares = 0, bent = 0;
  m->comparison = (ch_comparison){.tolerance = 0.01, .models = m->runs, .training.seeds = seeds};
  for (int s = 0; s < seeds; s++) squares += pow(s - middle, 2);
  for (int s = 0; s < seeds; s++) bent += pow(pow(s - middle, 2) - squares / seeds, 2);
  for (int s = 0; s < seeds; s++) {
    double line = (s - middle) / sqrt(squares / (seeds - 1));
    double bow = (pow(s - middle, 2) - squares / seeds) / sqrt(bent / (seeds - 1));
    m->runs[m->comparison.count++] = run_of(&three, 0, s, 4);
    m->runs[m->comparison.count++] = run_of(&three, 1, s, 4 + b + 0.01 * line);
    m->runs[m->comparison.count++] = run_of(&three, 2, s, 4 + c + 0.01 * bow);
  }
}

/* a and b are all but equal, and c is worse: seeds would exclude c, and the verdict says so. */
static void what_more_seeds_would_leave_is_said(void **state) {
  (void)state;
  static made m;
  const char *left[MOST_MODELS];
  ch_text text = {0};
  make_three(3, 0.0002, 0.012, &m);
  ch_summary s = summarised(&m.comparison, 0);
  int more = s.decision.more_seeds;
  assert_int_equal(s.decision.candidates, 3);
  assert_int_equal(s.decision.would_stay, 2);
  assert_int_equal(ch_verdict_left(&s, left), 2);
  assert_string_equal(left[0], "a");
  assert_string_equal(left[1], "b");
  char expected[200];
  ch_verdict_sentence(&s, &m.comparison, &text);
  snprintf(
      expected, sizeof expected,
      "a, b or c: not distinguishable with 3 seeds; about %d more seeds (2m30s) would leave a or b, which "
      "even 100 would hardly tell apart.",
      more);
  assert_float_equal(s.decision.more_seconds, 150, 1e-9);
  assert_string_equal(text.data, expected);
  ch_text_free(&text);
  ch_arena_free(&s.arena);
  for (int seeds = 2 + more; seeds <= 3 + more; seeds++) {
    make_three(seeds, 0.0002, 0.012, &m);
    s = summarised(&m.comparison, 0);
    assert_int_equal(s.decision.candidates, seeds == 3 + more ? 2 : 3);
    ch_arena_free(&s.arena);
  }
}

static void more_seeds_go_only_to_those_between_which_they_decide(void **state) {
  (void)state;
  static made m;
  /* c is out, a and b are alike; d, which has the largest cache, is the best and b and a are surely within reach of it. */
  static const truth t = {.count = 4,
                          .loss = {4.02, 4.02, 4.6, 4.01},
                          .noise = {0.002, 0.002, 0.002, 0.002},
                          .cache = {64, 64, 16, 128}};
  ch_random random;
  ch_random_seed(&random, 80, 0);
  draw(&t, 3, &random, &m);
  ch_summary s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_NOT_DISTINGUISHABLE);
  for (int g = 0; g < s.count; g++)
    assert_int_equal(s.decision.standings[g].active, strchr("ab", s.groups[g].name[0]) != NULL);
  ch_arena_free(&s.arena);
  /* With a tolerance at which it is open whether a and b are within reach of d, d matters too. */
  m.comparison.tolerance = 0.0025;
  s = summarised(&m.comparison, 0);
  for (int g = 0; g < s.count; g++)
    assert_int_equal(s.decision.standings[g].active, s.groups[g].name[0] != 'c');
  ch_arena_free(&s.arena);
}

static void without_two_seeds_nothing_is_decided(void **state) {
  (void)state;
  static made m;
  static const truth t = {.count = 2, .loss = {4, 5}, .noise = {0.01, 0.01}, .cache = {64, 16}};
  ch_random random;
  ch_text text = {0};
  ch_random_seed(&random, 90, 0);
  draw(&t, 2, &random, &m);
  m.comparison.count = 3; /* b has one seed yet */
  ch_summary s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_UNDECIDED);
  ch_verdict_sentence(&s, &m.comparison, &text);
  assert_int_equal(strncmp(text.data, "Undecided: not every model has two seeds yet. For now a: ", 56), 0);
  ch_text_free(&text);
  ch_arena_free(&s.arena);
  m.comparison.count = 2;
  s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_UNDECIDED);
  assert_true(s.decision.standings[0].active && s.decision.standings[1].active);
  ch_verdict_sentence(&s, &m.comparison, &text);
  assert_int_equal(strncmp(text.data, "One seed: undecided. For now a: ", 32), 0);
  ch_text_free(&text);
  ch_arena_free(&s.arena);
  m.comparison.count = 1; /* one model: nothing is open */
  s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_TAKE);
  ch_arena_free(&s.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_mechanism_is_not_told_from_itself),
      cmocka_unit_test(of_equal_mechanisms_no_pair_differs_in_nineteen_of_twenty_comparisons),
      cmocka_unit_test(planted_differences_are_found),
      cmocka_unit_test(at_the_limit_of_the_tolerance_few_verdicts_are_wrong),
      cmocka_unit_test(looking_after_every_seed_misleads_in_one_of_twenty_comparisons),
      cmocka_unit_test(no_losses_within_the_intervals_contradict_the_verdict),
      cmocka_unit_test(so_many_more_seeds_tell_if_means_and_noise_stay),
      cmocka_unit_test(what_more_seeds_would_leave_is_said),
      cmocka_unit_test(more_seeds_go_only_to_those_between_which_they_decide),
      cmocka_unit_test(without_two_seeds_nothing_is_decided),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
