/* Tests scores of continuations against all logits of a plain pass. The cache holds common beginnings of any length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "eval/brute_force.h"
#include "bench/random_model.h"
#include "eval/score_groups.h"

enum { GROUPS = 24, MOST = 4, LONGEST = 90 };

/* Windows of random tokens, in groups of one to four that share a beginning. The first eight groups have a
   common beginning. */
typedef struct requests {
  int32_t tokens[GROUPS * MOST][LONGEST];
  ch_score_window windows[GROUPS * MOST];
  int64_t starts[GROUPS + 1];
} requests;

static void fill(int32_t *ids, int64_t count, int64_t vocabulary, ch_random *random) {
  for (int64_t i = 0; i < count; i++) ids[i] = (int32_t)ch_random_below(random, (uint64_t)vocabulary);
}

static requests *make(int64_t vocabulary) {
  requests *r = calloc(1, sizeof *r);
  ch_random random;
  int32_t common[LONGEST], count = 0;
  ch_random_seed(&random, 3, 0);
  fill(common, LONGEST, vocabulary, &random);
  for (int g = 0; g < GROUPS; g++) {
    int32_t own[LONGEST];
    int64_t shared = 1 + (int64_t)ch_random_below(&random, 40);
    fill(own, LONGEST, vocabulary, &random);
    if (g < 8) {
      memcpy(own, common, 36 * sizeof *own);
      shared += 36;
    }
    r->starts[g] = count;
    for (uint64_t i = 0, n = 1 + ch_random_below(&random, MOST); i < n; i++, count++) {
      int64_t behind = 1 + (int64_t)ch_random_below(&random, 12);
      memcpy(r->tokens[count], own, (size_t)shared * sizeof *own);
      fill(r->tokens[count] + shared, behind, vocabulary, &random);
      r->windows[count] =
          (ch_score_window){.tokens = r->tokens[count], .length = shared + behind, .first = shared};
      if (g % 5 == 4)
        r->windows[count].first = shared + behind - 1; /* the texts differ before the predicted token */
    }
  }
  r->starts[GROUPS] = count;
  return r;
}

static void assert_scores(const ch_model *model) {
  requests *r = make(model->config.vocab_size);
  ch_continuation_score scores[GROUPS * MOST];
  int64_t computed = 0, tokens = 0;
  ch_error error = {0};
  if (ch_score_groups(model, NULL, r->windows, r->starts, GROUPS, scores, &computed, NULL, NULL, &error) !=
      CH_OK)
    fail_msg("%s", error.message);
  for (int64_t i = 0; i < r->starts[GROUPS]; i++) {
    const ch_score_window *w = &r->windows[i];
    double expected = brute_force_nll(model, w->tokens, w->length, w->first);
    tokens += w->length - 1;
    if (!(fabs(scores[i].nll - expected) <= 2e-5 * fmax(1, expected)))
      fail_msg("window %lld: %.8f where %.8f is right", (long long)i, scores[i].nll, expected);
  }
  /* A state of constant size cannot serve several continuations: each runs from its first token on. */
  if (ch_linear_layers(&model->config))
    assert_int_equal(computed, tokens);
  else
    assert_true(computed < tokens);
  free(r);
}

static void trained_models_score_as_their_logits_say(void **state) {
  (void)state;
  static const char *const paths[] = {TEST_DATA "/TinyStories-656K", TEST_DATA "/reference/deepseek_v2"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    ch_model *model;
    ch_error error = {0};
    if (ch_model_load(paths[i], CH_WEIGHTS_MAPPED, &model, &error) != CH_OK) fail_msg("%s", error.message);
    assert_scores(model);
    ch_model_unload(model);
  }
}

/* Tests a mechanism for every way of reading states. */
static void every_kind_of_state_serves_as_a_beginning(void **state) {
  (void)state;
  static const char *const kinds[] = {
      "\"type\": \"gta\"",
      "\"type\": \"diff\"",
      "\"type\": \"talking\"",
      "\"type\": \"mfa\", \"q_lora_rank\": 16",
      "\"type\": \"mfa_kr\", \"q_lora_rank\": 16",
      "\"type\": \"mla\", \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 8, "
      "\"v_head_dim\": 8",
      "\"type\": \"mla\", \"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 8, "
      "\"v_head_dim\": 8, "
      "\"gate_embedding_dim\": 16",
      "\"type\": \"gqa\", \"head_mix\": {\"on\": [\"k\", \"v\"], \"component_heads\": 2}",
      "\"type\": \"gqa\"}, \"layer_types\": [\"linear_attention\", \"full_attention\"], "
      "\"linear_attention\": {\"type\": \"gdn\", \"heads\": 2, \"head_dim\": 8"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char path[] = "/tmp/groups_XXXXXX", file[64], config[1024];
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/config.json", path);
    snprintf(
        config, sizeof config,
        "{\"model_type\": \"crosshead\", \"vocab_size\": 97, \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": %d, \"head_dim\": "
        "16, "
        "\"max_position_embeddings\": 128, \"attention\": {%s}}",
        i == 0 || i == 1 || i == 7 ? 2
        : i == 3 || i == 4         ? 1
                                   : 4,
        kinds[i]);
    assert_int_equal(ch_write_file(file, config, strlen(config), NULL), CH_OK);
    ch_model *model = NULL;
    ch_error error = {0};
    ch_status status = ch_model_random(file, CH_F32, 5, &model, &error);
    remove(file);
    remove(path);
    if (status != CH_OK) fail_msg("%s: %s", kinds[i], error.message);
    assert_scores(model);
    ch_model_unload(model);
  }
}

/* The likeliest tokens, one after another, are greedy; with one token changed they are not. */
static void greedy_continuations_are_recognised(void **state) {
  (void)state;
  ch_model *model;
  ch_error error = {0};
  if (ch_model_load(TEST_DATA "/TinyStories-656K", CH_WEIGHTS_MAPPED, &model, &error) != CH_OK)
    fail_msg("%s", error.message);
  int64_t vocabulary = model->config.vocab_size;
  int32_t good[8] = {1, 80, 33, 579}, bad[8];
  for (int t = 4; t < 8; t++) {
    ch_forward_request request = {.tokens = good, .sequences = 1, .length = t};
    ch_forward_result result;
    assert_int_equal(ch_forward(model, &request, &result, &error), CH_OK);
    const float *last = result.logits + (t - 1) * vocabulary;
    for (int32_t v = 1; v < vocabulary; v++)
      if (last[v] > last[good[t]]) good[t] = v;
    ch_forward_result_free(&result);
  }
  memcpy(bad, good, sizeof bad);
  bad[6] = (bad[6] + 1) % (int32_t)vocabulary;
  ch_score_window windows[] = {{good, 8, 4}, {bad, 8, 4}, {bad, 7, 6}, {good, 5, 4}};
  int64_t starts[] = {0, 2, 4};
  ch_continuation_score scores[4];
  assert_int_equal(ch_score_groups(model, NULL, windows, starts, 2, scores, NULL, NULL, NULL, &error), CH_OK);
  assert_true(scores[0].greedy);
  assert_false(scores[1].greedy);
  assert_false(scores[2].greedy);
  assert_true(scores[3].greedy);
  ch_model_unload(model);
}

static bool stop_at_once(int64_t done, int64_t total, void *context) {
  (void)context;
  (void)done;
  (void)total;
  return false;
}

static void scoring_can_be_interrupted(void **state) {
  (void)state;
  ch_model *model;
  ch_error error = {0};
  assert_int_equal(ch_model_load(TEST_DATA "/TinyStories-656K", CH_WEIGHTS_MAPPED, &model, &error), CH_OK);
  requests *r = make(model->config.vocab_size);
  ch_continuation_score scores[GROUPS * MOST];
  assert_int_equal(
      ch_score_groups(model, NULL, r->windows, r->starts, GROUPS, scores, NULL, stop_at_once, NULL, &error),
      CH_ERROR_INTERRUPTED);
  free(r);
  ch_model_unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(trained_models_score_as_their_logits_say),
                                     cmocka_unit_test(every_kind_of_state_serves_as_a_beginning),
                                     cmocka_unit_test(greedy_continuations_are_recognised),
                                     cmocka_unit_test(scoring_can_be_interrupted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
