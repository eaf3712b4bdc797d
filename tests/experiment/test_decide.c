/* Tests choices on simulated runs with noise of known size: the answer, the frequency of wrong answers, and the next
 * seeds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "experiment/findings/summary.h"
#include "experiment/findings/verdict.h"

enum { MOST_MODELS = 6, DRAWS = 300 };

/* The true losses, noise and cache sizes of the simulated models. */
typedef struct truth {
  int count;
  double loss[MOST_MODELS], noise[MOST_MODELS];
  int64_t cache[MOST_MODELS];
} truth;

/* A comparison that is refilled for every draw. */
typedef struct made {
  ch_comparison comparison;
  ch_model_result runs[MOST_MODELS * CH_COMPARE_MOST_SEEDS];
} made;

static const char *const names[MOST_MODELS] = {"a", "b", "c", "d", "e", "f"};

static ch_model_result run_of(const truth *true_of, int model, int seed, double loss) {
  return (ch_model_result){.name = names[model],
                           .seed = (uint64_t)seed + 1,
                           .validation_loss = loss,
                           .cache_elements_per_token = true_of->cache[model],
                           .train_seconds = 10};
}

/* Draws runs whose losses have a part that is common to all models of a seed, and a part that is not. */
static void draw(const truth *true_of, int seeds, ch_random *random, made *m) {
  m->comparison =
      (ch_comparison){.tolerance = 0.01, .models = m->runs, .training = {.seed = 1, .seeds = seeds}};
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

static void answers(const ch_summary *summary, const ch_comparison *comparison, const char *expected) {
  ch_text text = {0};
  ch_verdict_sentence(summary, comparison, &text);
  assert_string_equal(text.data, expected);
  ch_text_free(&text);
}

/* Simulates runs whose means over three seeds are exactly the true losses. Each model's losses differ from its mean by
   -noise, 0 and noise. */
static void make_exactly(const truth *t, double noise, made *m) {
  m->comparison = (ch_comparison){.tolerance = 0.01, .models = m->runs, .training = {.seed = 1, .seeds = 3}};
  for (int s = 0; s < 3; s++)
    for (int i = 0; i < t->count; i++) {
      double off = (i + s) % 3 == 0 ? -noise : (i + s) % 3 == 1 ? noise : 0;
      m->runs[m->comparison.count++] = run_of(t, i, s, t->loss[i] + off);
    }
}

/* Caches are in elements, of two bytes each. */
static const truth papers = {
    .count = 6, .loss = {4, 4.001, 4.004, 4.1, 4.16, 4.3}, .cache = {128, 512, 128, 64, 48, 80}};

static void the_answer_is_a_choice_for_each_cache(void **state) {
  (void)state;
  static made m;
  make_exactly(&papers, 0.006, &m);
  ch_summary s = summarised(&m.comparison, 0);
  ch_text text = {0};
  ch_verdict_sentence(&s, &m.comparison, &text);
  assert_int_equal(s.decision.choice_count, 3);
  assert_string_equal(s.groups[s.decision.choices[0]].name, "a");
  assert_string_equal(s.groups[s.decision.choices[1]].name, "d"); /* f has a larger cache and a higher loss */
  assert_string_equal(s.groups[s.decision.choices[2]].name, "e");
  assert_int_equal(strncmp(text.data, "Take a: 256 bytes of cache per token, at most 0.", 47), 0);
  assert_non_null(strstr(text.data, " % behind the best of 6 (3 seeds, 95 % confidence).\n"
                                    "a and c are tied at 256 bytes; a has the lowest mean.\n"
                                    "Smaller caches: d at 128 bytes ("));
  assert_non_null(strstr(text.data, "e at 96 bytes ("));
  assert_non_null(
      strstr(text.data, ".\nLarger caches buy nothing measurable: b, 1,024 bytes, is tied with a."));
  /* The interval of d contains its distance and not 0, so d is worse beyond the noise. */
  const ch_standing *d = &s.decision.standings[s.decision.choices[1]];
  assert_true(d->low > 0.05 && d->low < 0.1 && d->high > 0.1 && d->high < 0.15);
  ch_text_free(&text);
  ch_arena_free(&s.arena);
}

static void a_budget_makes_it_one_choice(void **state) {
  (void)state;
  static made m;
  make_exactly(&papers, 0.006, &m);
  static const struct {
    double budget;
    const char *name;
  } cases[] = {{5000, "a"}, {256, "a"}, {255, "d"}, {128, "d"}, {100, "e"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    m.comparison.cache_budget = cases[i].budget;
    ch_summary s = summarised(&m.comparison, 0);
    assert_int_equal(s.decision.choice_count, 1);
    assert_string_equal(s.groups[s.decision.pick].name, cases[i].name);
    assert_int_equal(s.decision.choices[0], s.decision.pick);
    ch_arena_free(&s.arena);
  }
  m.comparison.cache_budget = 90.5;
  ch_summary s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.pick, -1);
  assert_int_equal(s.decision.kind, CH_VERDICT_UNDECIDED);
  answers(&s, &m.comparison, "No model fits 90 bytes of cache per token: the smallest, e, needs 96.");
  ch_arena_free(&s.arena);
}

static void a_larger_cache_is_a_choice_where_it_is_better_beyond_the_noise(void **state) {
  (void)state;
  static made m;
  static const truth t = {.count = 3, .loss = {4, 4.02, 4.5}, .cache = {256, 64, 128}};
  make_exactly(&t, 0.001, &m);
  ch_summary s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_TAKE); /* b is surely within the tolerance */
  assert_int_equal(s.decision.choice_count, 2);
  assert_string_equal(s.groups[s.decision.choices[0]].name, "a");
  assert_string_equal(s.groups[s.decision.pick].name, "b");
  ch_text text = {0};
  ch_verdict_sentence(&s, &m.comparison, &text);
  assert_non_null(strstr(text.data, "\nLarger caches: a at 512 bytes (the best)."));
  ch_text_free(&text);
  ch_arena_free(&s.arena);
  m.comparison.tolerance = 0.001;
  s = summarised(&m.comparison, 0);
  assert_string_equal(s.groups[s.decision.pick].name, "a");
  ch_arena_free(&s.arena);
}

/* Returns the difference between the true loss of a group's model and the lowest. */
static double truly_behind(const truth *t, const ch_group *group) {
  double best = INFINITY;
  for (int i = 0; i < t->count; i++) best = fmin(best, t->loss[i]);
  return t->loss[group->name[0] - 'a'] - best;
}

/* Checks the statement about every choice over many draws. In the second case, one model has three times the noise of
   the others. */
static void choices_are_as_far_behind_as_is_said(void **state) {
  (void)state;
  static made m;
  static const truth cases[] = {{.count = 5,
                                 .loss = {4, 4, 4, 4, 4},
                                 .noise = {0.02, 0.02, 0.02, 0.02, 0.02},
                                 .cache = {64, 32, 16, 8, 4}},
                                {.count = 5,
                                 .loss = {4, 4.02, 4.05, 4.12, 4.2},
                                 .noise = {0.06, 0.02, 0.02, 0.02, 0.02},
                                 .cache = {64, 32, 16, 8, 4}}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int seeds = 2; seeds <= 5; seeds += 3) {
      int right = 0, said = 0, wrong_takes = 0;
      for (int d = 0; d < DRAWS; d++) {
        ch_random random;
        ch_random_seed(&random, (uint64_t)d, 10 * c + (uint64_t)seeds);
        draw(&cases[c], seeds, &random, &m);
        ch_summary s = summarised(&m.comparison, 0);
        for (int i = 0; i < s.decision.choice_count; i++) {
          const ch_standing *standing = &s.decision.standings[s.decision.choices[i]];
          double behind = truly_behind(&cases[c], &s.groups[s.decision.choices[i]]);
          right += standing->low <= behind && behind <= standing->high;
          said++;
        }
        /* A choice that is said to be the only one is within the tolerance. */
        wrong_takes +=
            s.decision.kind == CH_VERDICT_TAKE && truly_behind(&cases[c], &s.groups[s.decision.pick]) > 0.04;
        ch_arena_free(&s.arena);
      }
      assert_in_range(right, said * 92 / 100, said); /* 94 %, less twice the standard error */
      assert_in_range(wrong_takes, 0, DRAWS / 20 + 10);
    }
}

static void planted_differences_are_found(void **state) {
  (void)state;
  static made m;
  /* b is 3 % worse, and c 0.3 % worse with a quarter of the cache. The noise of a difference is 0.2 %. */
  static const truth t = {
      .count = 3, .loss = {4, 4.12, 4.012}, .noise = {0.0057, 0.0057, 0.0057}, .cache = {64, 16, 16}};
  int taken = 0, told = 0;
  for (int d = 0; d < DRAWS; d++) {
    ch_random random;
    ch_random_seed(&random, (uint64_t)d, 40);
    draw(&t, 5, &random, &m);
    ch_summary s = summarised(&m.comparison, 0);
    bool c = s.groups[s.decision.pick].name[0] == 'c';
    taken += c && s.decision.kind == CH_VERDICT_TAKE;
    for (int g = 0; g < s.count; g++)
      if (s.groups[g].name[0] == 'b') told += c && ch_difference_of(&s, s.decision.pick, g)->beyond_noise;
    ch_arena_free(&s.arena);
  }
  assert_in_range(taken, DRAWS * 9 / 10, DRAWS);
  assert_in_range(told, DRAWS * 9 / 10, DRAWS);
}

/* Decides after every seed, and counts the comparisons in which two equal models ever differ beyond the noise. */
static void looking_after_every_seed_misleads_in_one_of_twenty_comparisons(void **state) {
  (void)state;
  static made m;
  static const truth same = {.count = 2, .loss = {4, 4}, .noise = {0.02, 0.02}, .cache = {64, 64}};
  int corrected = 0, plain = 0;
  for (int d = 0; d < DRAWS; d++) {
    ch_random random;
    ch_random_seed(&random, (uint64_t)d, 60);
    draw(&same, 12, &random, &m);
    m.comparison.training.seeds = 2;
    bool wrong[2] = {false, false};
    for (int seeds = 2; seeds <= 12; seeds++)
      for (int k = 0; k < 2; k++) {
        m.comparison.until_decided = k == 0;
        ch_summary s = summarised(&m.comparison, seeds);
        wrong[k] = wrong[k] || s.differences[1].beyond_noise;
        ch_arena_free(&s.arena);
      }
    corrected += wrong[0];
    plain += wrong[1];
  }
  assert_in_range(corrected, 1, DRAWS / 20 + 11);
  assert_in_range(plain, 3 * DRAWS / 20, DRAWS); /* without the correction more are misled */
}

/* Checks that the next seeds go to the choice and to the models that may be better, and that they lower the risk. */
static void seeds_go_where_they_lower_the_risk(void **state) {
  (void)state;
  static made m;
  bool needs[MOST_MODELS];
  static const truth t = {.count = 4, .loss = {4, 4.002, 4.5, 4.6}, .cache = {64, 128, 16, 8}};
  make_exactly(&t, 0.01, &m);
  ch_summary s = summarised(&m.comparison, 0);
  double risk = ch_decision_risk(&s);
  assert_true(risk > 0.001 && risk < 0.02);
  assert_int_equal(ch_decision_next_seeds(&s, needs), 2);
  for (int g = 0; g < s.count; g++) assert_int_equal(needs[g], strchr("ab", s.groups[g].name[0]) != NULL);
  ch_arena_free(&s.arena);
  /* With a fourth seed of a and b, the risk is smaller, and means are adjusted for the seed. */
  for (int i = 0; i < 2; i++) m.runs[m.comparison.count++] = run_of(&t, i, 3, 7 + t.loss[i]);
  s = summarised(&m.comparison, 0);
  assert_true(ch_decision_risk(&s) < risk);
  assert_string_equal(s.groups[0].name, "a");
  assert_string_equal(s.groups[2].name, "c");
  ch_arena_free(&s.arena);
  /* The choice from the first three seeds does not change. */
  s = summarised(&m.comparison, 3);
  assert_float_equal(ch_decision_risk(&s), risk, 1e-12);
  ch_arena_free(&s.arena);
}

static void with_one_seed_the_risk_is_unknown(void **state) {
  (void)state;
  static made m;
  bool needs[MOST_MODELS];
  make_exactly(&papers, 0, &m);
  ch_summary s = summarised(&m.comparison, 1);
  assert_int_equal(s.decision.kind, CH_VERDICT_UNDECIDED);
  assert_true(isinf(ch_decision_risk(&s)));
  assert_int_equal(ch_decision_next_seeds(&s, needs), 6);
  answers(
      &s, &m.comparison,
      "Take a for now: 256 bytes of cache per token, the lowest loss of 6. The risk is unknown with one "
      "seed; "
      "three would bound it.\nSmaller caches: d at 128 bytes (2.5 % behind), e at 96 bytes (4.0 % behind).");
  ch_arena_free(&s.arena);
  m.comparison.count = 7; /* only a has two seeds */
  s = summarised(&m.comparison, 0);
  assert_false(s.decision.known);
  ch_arena_free(&s.arena);
  m.comparison.count = 1; /* with one model there is nothing to decide */
  s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_TAKE);
  answers(&s, &m.comparison, "Take a: it is the only model, with a validation loss of 4.0000.");
  ch_arena_free(&s.arena);
}

/* A model that ends worse than guessing must not widen the intervals of models whose losses vary a little. */
static void what_diverged_is_left_out_of_the_choice(void **state) {
  (void)state;
  static made m;
  bool needs[MOST_MODELS];
  static const truth t = {.count = 4, .loss = {4, 4.3, 4.1, 4.2}, .cache = {256, 128, 64, 32}};
  make_exactly(&t, 0.006, &m);
  m.comparison.data.vocab_size = 512;
  m.runs[4 + 3].validation_loss = 7; /* d with the second seed: log 512 is 6.24 */
  ch_summary s = summarised(&m.comparison, 0);
  ch_text text = {0};
  assert_string_equal(s.groups[3].name, "d");
  assert_int_equal(s.compared, 3);
  ch_verdict_sentence(&s, &m.comparison, &text);
  assert_int_equal(strncmp(text.data, "Take a: 512 bytes of cache per token, the best of 3 (3 seeds", 60), 0);
  assert_null(strstr(text.data, "d at "));
  ch_text_free(&text);
  ch_verdict_standings(&s, &text);
  assert_non_null(strstr(text.data, ", d diverged."));
  assert_true(s.deviation < 0.02 && !s.decision.standings[3].candidate);
  ch_decision_next_seeds(&s, needs);
  assert_false(needs[3]);
  ch_arena_free(&s.arena);
  for (int i = 0; i < m.comparison.count; i++) /* all except b diverge */
    if (m.runs[i].name[0] != 'b') m.runs[i].validation_loss = 9;
  s = summarised(&m.comparison, 0);
  answers(&s, &m.comparison,
          "Take b: it is the only model that did not diverge, with a mean validation loss of 4.3000.");
  ch_arena_free(&s.arena);
  for (int i = 0; i < m.comparison.count; i++) m.runs[i].validation_loss += 9;
  s = summarised(&m.comparison, 0); /* all diverged, so all are compared */
  assert_int_equal(s.compared, 4);
  assert_true(s.groups[0].diverged);
  ch_arena_free(&s.arena);
  for (int i = 0; i < m.comparison.count; i++) m.runs[i].validation_loss = INFINITY;
  s = summarised(&m.comparison, 0);
  assert_int_equal(s.compared, 0);
  answers(&s, &m.comparison, "There is nothing to choose: all models diverged.");
  ch_arena_free(&s.arena);
  ch_text_free(&text);
}

/* Compares models whose losses are equal to the last bit. */
static void equal_runs_are_tied(void **state) {
  (void)state;
  static made m;
  static const truth same = {.count = 2, .loss = {4, 4}, .cache = {64, 64}};
  make_exactly(&same, 0, &m);
  ch_summary s = summarised(&m.comparison, 0);
  assert_int_equal(s.decision.kind, CH_VERDICT_NOT_DISTINGUISHABLE);
  assert_false(s.differences[1].beyond_noise);
  answers(&s, &m.comparison,
          "Take a: 128 bytes of cache per token, the best of 2 (3 seeds, 95 % confidence).\n"
          "a and b are tied at 128 bytes.");
  ch_arena_free(&s.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_answer_is_a_choice_for_each_cache),
      cmocka_unit_test(a_budget_makes_it_one_choice),
      cmocka_unit_test(a_larger_cache_is_a_choice_where_it_is_better_beyond_the_noise),
      cmocka_unit_test(choices_are_as_far_behind_as_is_said),
      cmocka_unit_test(planted_differences_are_found),
      cmocka_unit_test(looking_after_every_seed_misleads_in_one_of_twenty_comparisons),
      cmocka_unit_test(seeds_go_where_they_lower_the_risk),
      cmocka_unit_test(with_one_seed_the_risk_is_unknown),
      cmocka_unit_test(what_diverged_is_left_out_of_the_choice),
      cmocka_unit_test(equal_runs_are_tied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
