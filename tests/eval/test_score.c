/* Tests scores of windows against all logits and against transformers, in any batching, and with broken
 * models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/random.h"
#include "eval/brute_force.h"
#include "bench/random_model.h"
#include "eval/score.h"
#include "text/tokenizer.h"

#define TRAINED TEST_DATA "/TinyStories-656K"

static ch_model *open_model(const char *path) {
  ch_model *model = NULL;
  ch_error error = {0};
  if (ch_model_load(path, CH_WEIGHTS_MAPPED, &model, &error) != CH_OK) fail_msg("%s", error.message);
  return model;
}

static ch_scorer *open_scorer(const ch_model *model) {
  ch_scorer *scorer = NULL;
  assert_int_equal(ch_scorer_create(model, &scorer, NULL), CH_OK);
  return scorer;
}

static void random_ids(int64_t vocabulary, int32_t *ids, int64_t count, uint64_t seed) {
  ch_random random;
  ch_random_seed(&random, seed, 0);
  for (int64_t i = 0; i < count; i++) ids[i] = (int32_t)ch_random_below(&random, (uint64_t)vocabulary);
}

static void windows_of_all_lengths_score_as_their_logits_say(void **state) {
  (void)state;
  enum { N = 60, LONGEST = 120 };
  ch_model *model = open_model(TRAINED);
  ch_scorer *scorer = open_scorer(model);
  ch_random random;
  ch_random_seed(&random, 1, 0);
  int32_t ids[4 * LONGEST];
  random_ids(model->config.vocab_size, ids, 4 * LONGEST, 2);
  ch_score_window windows[N];
  double nll[N];
  for (int i = 0; i < N; i++) {
    int64_t length = 2 + (int64_t)ch_random_below(&random, i % 2 ? 20 : LONGEST - 1);
    windows[i] = (ch_score_window){.tokens = ids + ch_random_below(&random, 3 * LONGEST),
                                   .length = length,
                                   .first = 1 + (int64_t)ch_random_below(&random, (uint64_t)length - 1)};
  }
  ch_error error = {0};
  if (ch_scorer_run(scorer, windows, N, nll, NULL, NULL, &error) != CH_OK) fail_msg("%s", error.message);
  for (int i = 0; i < N; i++) {
    double expected = brute_force_nll(model, windows[i].tokens, windows[i].length, windows[i].first);
    if (!(fabs(nll[i] - expected) <= 1e-5 * expected))
      fail_msg("window %d of %lld tokens: %.8f where %.8f is right", i, (long long)windows[i].length, nll[i],
               expected);
  }
  ch_scorer_free(scorer);
  ch_model_unload(model);
}

/* The expected losses are those of transformers for twenty windows of 255 targets after a beginning token. */
static void losses_are_those_of_transformers(void **state) {
  (void)state;
  enum { WINDOWS = 20, TARGETS = 255 };
  json_t *root = json_load_file(SHARED_DATA "/data/reference/TinyStories-656K/ref.json", 0, NULL);
  char *text = NULL;
  size_t size = 0;
  if (!root || ch_read_file(SHARED_DATA "/data/corpora/tinystories/valid_head.txt", 1 << 24, &text, &size,
                            NULL) != CH_OK) {
    json_decref(root);
    print_message("the shared data is not beside the checkout: skipped\n");
    skip();
  }
  ch_model *model = open_model(TRAINED);
  ch_scorer *scorer = open_scorer(model);
  ch_tokenizer *tokenizer = NULL;
  ch_ids ids = {0};
  assert_int_equal(ch_tokenizer_open(TRAINED, &tokenizer, NULL), CH_OK);
  assert_int_equal(ch_tokenizer_encode(tokenizer, text, size, CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids, NULL),
                   CH_OK);
  assert_int_equal(ids.size, json_integer_value(json_object_get(root, "valid_head_tokens")));
  static int32_t tokens[WINDOWS][TARGETS + 1];
  ch_score_window windows[WINDOWS];
  double nll[WINDOWS], mean = 0;
  for (int w = 0; w < WINDOWS; w++) {
    tokens[w][0] = 1;
    memcpy(tokens[w] + 1, ids.data + w * TARGETS, TARGETS * sizeof **tokens);
    windows[w] = (ch_score_window){tokens[w], TARGETS + 1, 1};
  }
  assert_int_equal(ch_scorer_run(scorer, windows, WINDOWS, nll, NULL, NULL, NULL), CH_OK);
  const json_t *list = json_object_get(root, "nll_windows");
  for (int w = 0; w < WINDOWS; w++) {
    double expected = json_real_value(json_array_get(list, (size_t)w));
    if (!(fabs(nll[w] - expected) <= 1e-5 * expected))
      fail_msg("window %d: %.6f, not %.6f", w, nll[w], expected);
    mean += nll[w] / (WINDOWS * TARGETS);
  }
  assert_true(fabs(mean - json_real_value(json_object_get(root, "nll_mean"))) < 1e-5);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
  ch_scorer_free(scorer);
  ch_model_unload(model);
  json_decref(root);
  free(text);
}

static void the_loss_of_the_stories_model_is_that_of_transformers(void **state) {
  (void)state;
  ch_safetensors file;
  json_t *root = json_load_file(SHARED_DATA "/data/reference/stories-qwen3-12L/ref.json", 0, NULL);
  if (!root || ch_safetensors_open(SHARED_DATA "/data/reference/stories-qwen3-12L/ref.safetensors", &file,
                                   NULL) != CH_OK) {
    json_decref(root);
    print_message("the shared data is not beside the checkout: skipped\n");
    skip();
  }
  int32_t tokens[128];
  memcpy(tokens, ch_safetensors_find(&file, "input_ids")->tensor.data, sizeof tokens);
  ch_model *model = open_model(SHARED_DATA "/data/models/stories-qwen3-12L");
  ch_scorer *scorer = open_scorer(model);
  double nll;
  assert_int_equal(ch_scorer_run(scorer, &(ch_score_window){tokens, 128, 1}, 1, &nll, NULL, NULL, NULL),
                   CH_OK);
  assert_true(fabs(nll / 127 - json_real_value(json_object_get(root, "loss_mean_next_token"))) < 1e-4);
  ch_scorer_free(scorer);
  ch_model_unload(model);
  ch_safetensors_close(&file);
  json_decref(root);
}

typedef struct watch {
  int64_t done, total, calls, stop_after, within;
} watch;

static bool watch_progress(int64_t done, int64_t total, void *context) {
  watch *w = context;
  assert_true(done >= w->done && done <= total);
  *w = (watch){done, total, w->calls + 1, w->stop_after, w->within + (done % 100 != 0)};
  return w->stop_after == 0 || w->calls < w->stop_after;
}

static void progress_counts_every_prediction_and_can_stop(void **state) {
  (void)state;
  enum { N = 30, LENGTH = 200 };
  ch_model *model = open_model(TEST_DATA "/reference/llama_gqa");
  ch_scorer *scorer = open_scorer(model);
  int32_t ids[LENGTH];
  random_ids(model->config.vocab_size, ids, LENGTH, 3);
  ch_score_window windows[N];
  double nll[N];
  for (int i = 0; i < N; i++) windows[i] = (ch_score_window){ids, LENGTH, 100};
  watch w = {0};
  assert_int_equal(ch_scorer_run(scorer, windows, N, nll, watch_progress, &w, NULL), CH_OK);
  assert_int_equal(w.done, N * 100);
  assert_int_equal(w.total, N * 100);
  assert_true(w.calls > 1 && w.within > 1); /* called within a batch, too */
  for (int i = 1; i < N; i++) assert_true(fabs(nll[i] - nll[0]) <= 1e-5 * nll[0]);
  w = (watch){.stop_after = 1};
  ch_error error = {0};
  assert_int_equal(ch_scorer_run(scorer, windows, N, nll, watch_progress, &w, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(w.calls, 1);
  assert_int_equal(ch_scorer_run(scorer, windows, 0, nll, NULL, NULL, NULL), CH_OK);
  ch_scorer_free(scorer);
  ch_model_unload(model);
}

static void broken_models_and_ids_are_errors(void **state) {
  (void)state;
  ch_model *model = NULL;
  assert_int_equal(ch_model_random(TEST_DATA "/reference/llama_gqa", CH_F32, 1, &model, NULL), CH_OK);
  ch_scorer *scorer = open_scorer(model);
  int32_t ids[16] = {0};
  ch_score_window window = {ids, 16, 1};
  double nll;
  ch_error error = {0};
  assert_int_equal(ch_scorer_run(scorer, &window, 1, &nll, NULL, NULL, &error), CH_OK);
  assert_true(isfinite(nll) && nll > 0);
  ids[15] = (int32_t)model->config.vocab_size; /* outside the vocabulary, and a target */
  assert_int_equal(ch_scorer_run(scorer, &window, 1, &nll, NULL, NULL, &error), CH_ERROR_ARGUMENT);
  ids[15] = 0;
  ids[3] = -1;
  assert_int_equal(ch_scorer_run(scorer, &window, 1, &nll, NULL, NULL, &error), CH_ERROR_ARGUMENT);
  ids[3] = 0;
  ((float *)model->weights.tensors[0].data)[5] = NAN; /* in the embedding of token 0 */
  assert_int_equal(ch_scorer_run(scorer, &window, 1, &nll, NULL, NULL, &error), CH_ERROR_NUMERIC);
  assert_non_null(strstr(error.message, "not a number"));
  ch_scorer_free(scorer);
  ch_model_unload(model);
}

/* Random models in sixteen bits are the F32 model, rounded. */
static void random_models_depend_on_seed_and_type_alone(void **state) {
  (void)state;
  static const ch_dtype dtypes[] = {CH_F32, CH_F16, CH_BF16};
  int32_t ids[64];
  random_ids(100, ids, 64, 4);
  double nll[4];
  for (int i = 0; i < 4; i++) {
    ch_model *model = NULL;
    assert_int_equal(
        ch_model_random(TEST_DATA "/reference/qwen3", dtypes[i % 3], i == 3 ? 2 : 1, &model, NULL), CH_OK);
    ch_scorer *scorer = open_scorer(model);
    assert_int_equal(ch_scorer_run(scorer, &(ch_score_window){ids, 64, 1}, 1, &nll[i], NULL, NULL, NULL),
                     CH_OK);
    ch_scorer_free(scorer);
    ch_model_unload(model);
  }
  assert_true(nll[1] != nll[0] && fabs(nll[1] - nll[0]) < 1e-2 * nll[0]);
  assert_true(nll[2] != nll[0] && fabs(nll[2] - nll[0]) < 5e-2 * nll[0]);
  assert_true(nll[3] != nll[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_of_all_lengths_score_as_their_logits_say),
      cmocka_unit_test(losses_are_those_of_transformers),
      cmocka_unit_test(the_loss_of_the_stories_model_is_that_of_transformers),
      cmocka_unit_test(progress_counts_every_prediction_and_can_stop),
      cmocka_unit_test(broken_models_and_ids_are_errors),
      cmocka_unit_test(random_models_depend_on_seed_and_type_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
