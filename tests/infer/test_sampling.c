/* Tests sampling: the distribution, the limits of top-k and top-p, ties, broken logits, determinism. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>

#include "base/random.h"
#include "infer/sampling.h"

/* --- reference: sort the vocabulary, cut, normalise --------------------------------------------------------- */

static const float *sorted_logits;

static int by_rank(const void *pa, const void *pb) {
  int a = *(const int *)pa, b = *(const int *)pb;
  if (sorted_logits[a] != sorted_logits[b]) return sorted_logits[a] < sorted_logits[b] ? 1 : -1;
  return (a > b) - (a < b);
}

/* Temperature, top-k and top-p of a ch_sampler. */
#define SETTINGS(t, k, p)                                                                                    \
  { .temperature = (t), .top_k = (k), .top_p = (p) }

/* Returns the settings with the random state of `seed`. */
static ch_sampler seeded(const ch_sampler *settings, uint64_t seed) {
  ch_sampler sampler;
  ch_sampler_defaults(&sampler, seed);
  sampler.temperature = settings->temperature;
  sampler.top_k = settings->top_k;
  sampler.top_p = settings->top_p;
  return sampler;
}

static void reference(const ch_sampler *sampling, const float *logits, int n, double *probability) {
  int *order = malloc((size_t)n * sizeof *order);
  for (int i = 0; i < n; i++) order[i] = i;
  sorted_logits = logits;
  qsort(order, (size_t)n, sizeof *order, by_rank);
  int kept = sampling->top_k > 0 && sampling->top_k < n ? (int)sampling->top_k : n;
  double total = 0, sum = 0, left = 0;
  for (int i = 0; i < n; i++) probability[i] = 0;
  for (int i = 0; i < kept; i++) {
    double weight = exp(((double)logits[order[i]] - (double)logits[order[0]]) / sampling->temperature);
    probability[order[i]] = weight;
    total += weight;
  }
  int i = 0;
  for (; i < kept && (i == 0 || sum < sampling->top_p * total); i++) sum += probability[order[i]];
  if (sampling->top_p < 1)
    for (; i < kept; i++) probability[order[i]] = 0;
  for (i = 0; i < n; i++) left += probability[i];
  for (i = 0; i < n; i++) probability[i] /= left;
  free(order);
}

static void make_logits(float *logits, int n, uint64_t seed, double spread) {
  ch_random random;
  ch_random_seed(&random, seed, 0);
  for (int i = 0; i < n; i++) logits[i] = (float)(spread * ch_random_normal(&random));
}

/* Draws `draws` tokens. Returns the chi-square statistic against the reference, divided by its degrees of
   freedom. Tokens with less than five expected draws are merged. */
static double chi_square(const ch_sampler *sampling, const float *logits, int n, int draws) {
  double *probability = malloc((size_t)n * sizeof *probability);
  int *count = calloc((size_t)n, sizeof *count);
  void *scratch = malloc(ch_sampling_scratch(n));
  reference(sampling, logits, n, probability);
  ch_sampler sampler = seeded(sampling, 7);
  for (int i = 0; i < draws; i++) {
    int32_t token;
    ch_error error = {0};
    assert_int_equal(ch_sample_token(&sampler, logits, n, scratch, &token, &error), CH_OK);
    if (probability[token] == 0) fail_msg("token %d was drawn though it was cut", token);
    count[token]++;
  }
  double statistic = 0, rest = 0, rest_count = 0;
  int cells = 0;
  for (int i = 0; i < n; i++) {
    double expected = probability[i] * draws;
    if (expected < 5) {
      rest += expected;
      rest_count += count[i];
      continue;
    }
    statistic += (count[i] - expected) * (count[i] - expected) / expected;
    cells++;
  }
  if (rest >= 5) {
    statistic += (rest_count - rest) * (rest_count - rest) / rest;
    cells++;
  }
  free(probability);
  free(count);
  free(scratch);
  return cells > 1 ? statistic / (cells - 1) : 0;
}

static void tokens_are_drawn_with_their_probabilities(void **state) {
  (void)state;
  static const struct {
    ch_sampler sampling;
    int n;
    double spread;
  } cases[] = {
      {SETTINGS(1, 0, 1), 50, 1.5},     {SETTINGS(0.7, 0, 1), 400, 2},      {SETTINGS(1.5, 20, 1), 1000, 2},
      {SETTINGS(1, 0, 0.9), 1000, 3},   {SETTINGS(0.8, 40, 0.95), 5000, 3}, {SETTINGS(1, 0, 0.5), 300, 0.1},
      {SETTINGS(1, 999, 1), 1000, 0.5}, {SETTINGS(2, 600, 0.3), 1000, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float *logits = malloc((size_t)cases[i].n * sizeof *logits);
    make_logits(logits, cases[i].n, i, cases[i].spread);
    double ratio = chi_square(&cases[i].sampling, logits, cases[i].n, 40000);
    if (ratio > 1.6) fail_msg("case %zu: chi-square is %.2f times its degrees of freedom", i, ratio);
    free(logits);
  }
}

/* Returns the number of different tokens in `draws` draws, and marks them in `seen`. */
static int distinct_tokens(const ch_sampler *sampling, const float *logits, int n, int draws, bool *seen) {
  void *scratch = malloc(ch_sampling_scratch(n));
  ch_sampler sampler = seeded(sampling, 3);
  memset(seen, 0, (size_t)n * sizeof *seen);
  int distinct = 0;
  for (int i = 0; i < draws; i++) {
    int32_t token;
    assert_int_equal(ch_sample_token(&sampler, logits, n, scratch, &token, NULL), CH_OK);
    assert_in_range(token, 0, n - 1);
    distinct += !seen[token];
    seen[token] = true;
  }
  free(scratch);
  return distinct;
}

static void top_k_keeps_exactly_k_and_the_lower_ids_of_ties(void **state) {
  (void)state;
  enum { N = 64 };
  float logits[N];
  bool seen[N];
  for (int i = 0; i < N; i++) logits[i] = (float)(i % 4); /* sixteen tokens of each value */
  for (int k = 1; k <= N; k++) {
    assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(100, k, 1), logits, N, 4000, seen), k);
    /* Classes of equal logits are kept whole from the highest down. The lowest ids of the last class remain. */
    for (int i = 0; i < N; i++) {
      int rank = (3 - i % 4) * 16 + i / 4;
      assert_int_equal(seen[i], rank < k);
    }
  }
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(100, 1000, 1), logits, N, 4000, seen), N);
}

static void top_p_keeps_the_fewest_tokens_that_reach_p(void **state) {
  (void)state;
  enum { N = 10 };
  float logits[N] = {0};
  bool seen[N];
  /* Of ten equal tokens, p = 0.55 needs the six lowest ids. */
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(1, 0, 0.55), logits, N, 2000, seen), 6);
  assert_true(seen[0] && seen[5] && !seen[6]);
  /* p = 0 leaves only the likeliest token, and p = 1 all tokens. */
  logits[7] = 3;
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(1, 0, 0), logits, N, 200, seen), 1);
  assert_true(seen[7]);
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(1, 0, 1), logits, N, 4000, seen), N);
  /* A token more probable than p is the only candidate. */
  logits[7] = 10;
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(1, 0, 0.99), logits, N, 2000, seen), 1);
  /* Top-p applies to the candidates of top-k: of four equal ones, p = 0.5 leaves two. */
  for (int i = 0; i < N; i++) logits[i] = 0;
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(1, 4, 0.5), logits, N, 2000, seen), 2);
}

static void cuts_agree_with_a_full_sort_on_random_logits(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 11, 0);
  enum { MOST = 700 };
  float logits[MOST];
  double probability[MOST];
  bool seen[MOST];
  for (int round = 0; round < 60; round++) {
    int n = 2 + (int)ch_random_below(&random, MOST - 2);
    make_logits(logits, n, (uint64_t)round, 2);
    if (round % 3 == 0) /* creates many ties */
      for (int i = 0; i < n; i++) logits[i] = roundf(logits[i]);
    int32_t top_k = (int32_t)ch_random_below(&random, (uint64_t)n + 5);
    ch_sampler sampling = {8, top_k, ch_random_uniform(&random), {0}};
    reference(&sampling, logits, n, probability);
    int expected = 0;
    for (int i = 0; i < n; i++) expected += probability[i] > 0;
    distinct_tokens(&sampling, logits, n, 3000, seen);
    double unseen = 0;
    for (int i = 0; i < n; i++) {
      if (seen[i] && probability[i] == 0)
        fail_msg("round %d: token %d of %d was cut (%d kept)", round, i, n, expected);
      if (!seen[i]) unseen = fmax(unseen, probability[i]);
    }
    if (unseen > 0.005) fail_msg("round %d: a token of probability %g never came", round, unseen);
  }
}

static void temperature_zero_takes_the_first_of_the_likeliest_and_draws_nothing(void **state) {
  (void)state;
  const float logits[5] = {1, 4, 2, 4, 4};
  ch_sampler sampler = seeded(&(ch_sampler)SETTINGS(0, 0, 1), 1), before = sampler;
  int32_t token;
  assert_int_equal(ch_sample_token(&sampler, logits, 5, NULL, &token, NULL), CH_OK);
  assert_int_equal(token, 1);
  assert_memory_equal(sampler.state, before.state, sizeof sampler.state);
}

static void extreme_temperatures_are_greedy_and_uniform(void **state) {
  (void)state;
  enum { N = 8 };
  float logits[N] = {1, 2, 3, -INFINITY, 5, -1e30f, 1e30f, 0};
  bool seen[N];
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(1e-300, 0, 1), logits, N, 500, seen), 1);
  assert_true(seen[6]);
  logits[6] = -2;
  logits[5] = -2;
  assert_int_equal(distinct_tokens(&(ch_sampler)SETTINGS(1e300, 0, 1), logits, N, 2000, seen), N - 1);
  assert_false(seen[3]); /* minus infinity stays impossible */
}

static void the_same_seed_gives_the_same_tokens(void **state) {
  (void)state;
  enum { N = 3000, DRAWS = 200 };
  float *logits = malloc(N * sizeof *logits);
  make_logits(logits, N, 5, 2);
  void *scratch = malloc(ch_sampling_scratch(N));
  int32_t first[DRAWS], token;
  int differing = 0;
  for (uint64_t round = 0; round < 3; round++) {
    ch_sampler sampler = seeded(&(ch_sampler)SETTINGS(1, 500, 0.95), round == 2 ? 43 : 42);
    for (int i = 0; i < DRAWS; i++) {
      assert_int_equal(ch_sample_token(&sampler, logits, N, scratch, &token, NULL), CH_OK);
      if (round == 0) first[i] = token;
      if (round == 1) assert_int_equal(token, first[i]);
      if (round == 2) differing += token != first[i];
    }
  }
  assert_true(differing > DRAWS / 2);
  free(logits);
  free(scratch);
}

static void broken_logits_are_errors_and_settings_are_checked(void **state) {
  (void)state;
  float logits[6] = {0, 1, NAN, 3, 2, 1};
  unsigned char scratch[128];
  int32_t token;
  ch_error error = {0};
  for (int i = 0; i < 6; i++) {
    float kept = logits[2];
    logits[2] = 0;
    float at = logits[i];
    logits[i] = NAN;
    assert_int_equal(ch_sample_token(&(ch_sampler)SETTINGS(0, 0, 1), logits, 6, NULL, &token, &error),
                     CH_ERROR_NUMERIC);
    assert_int_equal(ch_sample_token(&(ch_sampler)SETTINGS(1, 2, 1), logits, 6, scratch, &token, &error),
                     CH_ERROR_NUMERIC);
    logits[i] = INFINITY;
    assert_int_equal(ch_sample_token(&(ch_sampler)SETTINGS(1, 0, 1), logits, 6, scratch, &token, &error),
                     CH_ERROR_NUMERIC);
    logits[i] = at;
    logits[2] = kept;
  }
  for (int i = 0; i < 6; i++) logits[i] = -INFINITY;
  assert_int_equal(ch_sample_token(&(ch_sampler)SETTINGS(1, 0, 1), logits, 6, scratch, &token, &error),
                   CH_ERROR_NUMERIC);
  assert_int_equal(ch_sampling_check(&(ch_sampler)SETTINGS(1, 40, 0.9), &error), CH_OK);
  const ch_sampler wrong[] = {SETTINGS(-1, 0, 1), SETTINGS(NAN, 0, 1),  SETTINGS(INFINITY, 0, 1),
                              SETTINGS(1, -1, 1), SETTINGS(1, 0, -0.1), SETTINGS(1, 0, 1.1),
                              SETTINGS(1, 0, NAN)};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(ch_sampling_check(&wrong[i], &error), CH_ERROR_ARGUMENT);
}

/* Logits are scanned in blocks: any place in any block must count. */
static void the_largest_and_the_broken_are_found_anywhere(void **state) {
  (void)state;
  enum { N = 200 };
  static const float broken[] = {NAN, -NAN, INFINITY};
  float logits[N];
  int32_t token;
  char place[40];
  for (int i = 0; i < N; i++) logits[i] = i % 7 == 0 ? -INFINITY : -1e30f - (float)i;
  for (int i = 0; i < N; i++) {
    float kept = logits[i];
    ch_error error = {0};
    logits[i] = i % 2 ? -0.0f : 0.0f; /* an equal logit follows */
    if (i + 70 < N) logits[i + 70] = i % 2 ? 0.0f : -0.0f;
    assert_int_equal(ch_sample_token(&(ch_sampler)SETTINGS(0, 0, 1), logits, N, NULL, &token, &error), CH_OK);
    assert_int_equal(token, i);
    if (i + 70 < N) logits[i + 70] = -1e30f;
    logits[i] = broken[i % 3];
    logits[N - 1] = broken[(i + 1) % 3];
    assert_int_equal(ch_sample_token(&(ch_sampler)SETTINGS(0, 0, 1), logits, N, NULL, &token, &error),
                     CH_ERROR_NUMERIC);
    snprintf(place, sizeof place, "of token %d is", i);
    assert_non_null(strstr(error.message, place));
    logits[i] = kept;
    logits[N - 1] = -1e30f;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_are_drawn_with_their_probabilities),
      cmocka_unit_test(top_k_keeps_exactly_k_and_the_lower_ids_of_ties),
      cmocka_unit_test(top_p_keeps_the_fewest_tokens_that_reach_p),
      cmocka_unit_test(cuts_agree_with_a_full_sort_on_random_logits),
      cmocka_unit_test(temperature_zero_takes_the_first_of_the_likeliest_and_draws_nothing),
      cmocka_unit_test(extreme_temperatures_are_greedy_and_uniform),
      cmocka_unit_test(the_same_seed_gives_the_same_tokens),
      cmocka_unit_test(broken_logits_are_errors_and_settings_are_checked),
      cmocka_unit_test(the_largest_and_the_broken_are_found_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
