/* Tests sessions: cached equals uncached for random divisions of the tokens, batches, rewinding, a full context, no
 * allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "bench/random_model.h"
#include "count_allocations.h"
#include "infer/api_forward.h"

/* --- a model and its uncached logits ------------------------------------------------------------------------ */

enum { T = 24, B = 3 };

typedef struct fixture {
  ch_model *model;
  int32_t tokens[B][T];
  float *logits[B]; /* each sequence's logits [T, V] of a plain pass */
  float largest;    /* largest absolute value of all logits */
} fixture;

static const char *const models[] = {"reference/llama_gqa", "reference/qwen3", "reference/llama3_rope",
                                     "TinyStories-656K"};
enum { MODELS = sizeof models / sizeof *models };

static void open_fixture(const char *name, fixture *f) {
  char path[512];
  ch_error error = {0};
  snprintf(path, sizeof path, "%s/%s", TEST_DATA, name);
  memset(f, 0, sizeof *f);
  if (ch_model_load(path, CH_WEIGHTS_MAPPED, &f->model, &error) != CH_OK) fail_msg("%s", error.message);
  ch_random random;
  ch_random_seed(&random, 1, 0);
  int64_t vocabulary = f->model->config.vocab_size;
  for (int b = 0; b < B; b++) {
    for (int t = 0; t < T; t++) f->tokens[b][t] = (int32_t)ch_random_below(&random, (uint64_t)vocabulary);
    ch_forward_request request = {.tokens = f->tokens[b], .sequences = 1, .length = T};
    ch_forward_result result;
    if (ch_forward(f->model, &request, &result, &error) != CH_OK) fail_msg("%s", error.message);
    f->logits[b] = malloc((size_t)(T * vocabulary) * sizeof(float));
    memcpy(f->logits[b], result.logits, (size_t)(T * vocabulary) * sizeof(float));
    for (int64_t i = 0; i < T * vocabulary; i++) f->largest = fmaxf(f->largest, fabsf(result.logits[i]));
    ch_forward_result_free(&result);
  }
}

static void close_fixture(fixture *f) {
  for (int b = 0; b < B; b++) free(f->logits[b]);
  ch_model_unload(f->model);
}

static ch_session *open_session(const fixture *f, int64_t sequences, int64_t context, int64_t chunk,
                                ch_dtype dtype) {
  ch_session_options options;
  ch_session_options_default(&f->model->config, &options);
  options.sequences = sequences;
  options.context = context;
  options.chunk = chunk;
  options.cache = ch_cache_of(dtype);
  ch_session *session = NULL;
  ch_error error = {0};
  if (ch_session_new(&f->model->config, &f->model->params, f->model->weights.tensors, &options, &session,
                     &error) != CH_OK)
    fail_msg("%s", error.message);
  return session;
}

/* Returns the largest relative difference between the logits after token t of sequence b and those of the
   plain pass. */
static double difference(const fixture *f, const float *logits, int b, int64_t t) {
  int64_t vocabulary = f->model->config.vocab_size;
  double most = 0;
  for (int64_t v = 0; v < vocabulary; v++)
    most = fmax(most, fabs((double)logits[v] - (double)f->logits[b][t * vocabulary + v]));
  return most / (double)f->largest;
}

/* --- tests -------------------------------------------------------------------------------------------------- */

/* Feeds all tokens of sequence 0 in pieces of random lengths up to `longest`. Returns the largest difference
   after any piece. */
static double feed_in_pieces(const fixture *f, int64_t longest, int64_t chunk, ch_dtype dtype,
                             uint64_t seed) {
  ch_session *session = open_session(f, 1, T, chunk, dtype);
  ch_random random;
  ch_random_seed(&random, seed, 0);
  double most = 0;
  for (int64_t first = 0; first < T;) {
    int64_t length = 1 + (int64_t)ch_random_below(&random, (uint64_t)longest);
    if (length > T - first) length = T - first;
    const float *logits = NULL;
    ch_error error = {0};
    if (ch_session_feed(session, f->tokens[0] + first, length, &logits, &error) != CH_OK)
      fail_msg("%s", error.message);
    first += length;
    assert_int_equal(ch_session_length(session), first);
    most = fmax(most, difference(f, logits, 0, first - 1));
  }
  ch_session_free(session);
  return most;
}

static void cached_logits_equal_uncached_ones_however_tokens_are_fed(void **state) {
  (void)state;
  static const struct {
    ch_dtype dtype;
    double tolerance;
  } caches[] = {{CH_F32, 1e-5}, {CH_F16, 3e-3}, {CH_BF16, 3e-2}};
  for (int m = 0; m < MODELS; m++) {
    fixture f;
    open_fixture(models[m], &f);
    for (int c = 0; c < 3; c++)
      for (uint64_t seed = 0; seed < 3; seed++) {
        int64_t longest = seed == 0 ? 1 : seed == 1 ? T : 7, chunk = seed == 2 ? 3 : 512;
        double most = feed_in_pieces(&f, longest, chunk, caches[c].dtype, seed);
        if (!(most <= caches[c].tolerance))
          fail_msg("%s, cache %s, pieces of %lld: logits differ by %g", models[m],
                   ch_dtype_name(caches[c].dtype), (long long)longest, most);
        /* The rounding of a narrow cache must be visible. */
        if (caches[c].dtype != CH_F32) assert_true(most > 0);
      }
    close_fixture(&f);
  }
}

static void sequences_of_a_batch_do_not_know_of_each_other(void **state) {
  (void)state;
  for (int m = 0; m < MODELS; m++) {
    fixture f;
    open_fixture(models[m], &f);
    ch_session *session = open_session(&f, B, T, 512, CH_F32);
    int64_t vocabulary = f.model->config.vocab_size;
    const int64_t pieces[] = {10, 1, 1, 12};
    int64_t first = 0;
    for (int p = 0; p < 4; p++) {
      int32_t tokens[B * T];
      for (int b = 0; b < B; b++)
        memcpy(tokens + b * pieces[p], f.tokens[b] + first, (size_t)pieces[p] * sizeof *tokens);
      const float *logits = NULL;
      assert_int_equal(ch_session_feed(session, tokens, pieces[p], &logits, NULL), CH_OK);
      first += pieces[p];
      for (int b = 0; b < B; b++) assert_true(difference(&f, logits + b * vocabulary, b, first - 1) <= 1e-5);
    }
    ch_session_free(session);
    close_fixture(&f);
  }
}

static void rewinding_forgets_exactly_what_came_after(void **state) {
  (void)state;
  fixture f;
  open_fixture(models[0], &f);
  ch_session *session = open_session(&f, 1, T, 512, CH_F32);
  const float *logits = NULL;
  assert_int_equal(ch_session_feed(session, f.tokens[1], T, &logits, NULL), CH_OK); /* another text */
  assert_int_equal(ch_session_truncate(session, 0, NULL), CH_OK);
  assert_int_equal(ch_session_feed(session, f.tokens[0], 9, &logits, NULL), CH_OK);
  assert_int_equal(ch_session_feed(session, f.tokens[1], 5, &logits, NULL), CH_OK);
  assert_int_equal(ch_session_truncate(session, 9, NULL), CH_OK);
  assert_int_equal(ch_session_length(session), 9);
  assert_int_equal(ch_session_truncate(session, 20, NULL), CH_OK); /* more than it has: no change */
  assert_int_equal(ch_session_length(session), 9);
  for (int t = 9; t < T; t++) {
    assert_int_equal(ch_session_feed(session, f.tokens[0] + t, 1, &logits, NULL), CH_OK);
    assert_true(difference(&f, logits, 0, t) <= 1e-5);
  }
  ch_session_free(session);
  close_fixture(&f);
}

static void one_pass_over_all_tokens_gives_the_logits_of_each(void **state) {
  (void)state;
  fixture f;
  open_fixture(models[1], &f);
  ch_session *session = open_session(&f, 1, T, 512, CH_F32);
  int64_t vocabulary = f.model->config.vocab_size;
  const float *logits = NULL;
  assert_int_equal(ch_session_feed(session, f.tokens[0], 5, &logits, NULL), CH_OK);
  assert_int_equal(ch_session_feed_all(session, f.tokens[0] + 5, T - 5, &logits, NULL), CH_OK);
  for (int t = 5; t < T; t++) assert_true(difference(&f, logits + (t - 5) * vocabulary, 0, t) <= 1e-5);
  ch_session_free(session);
  close_fixture(&f);
}

static void what_does_not_fit_is_refused_and_changes_nothing(void **state) {
  (void)state;
  fixture f;
  open_fixture(models[0], &f);
  ch_session *session = open_session(&f, 1, T - 2, 4, CH_F32);
  const float *logits = NULL;
  ch_error error = {0};
  assert_int_equal(ch_session_feed(session, f.tokens[0], T, &logits, &error), CH_ERROR_FULL);
  assert_int_equal(ch_session_feed(session, f.tokens[0], 0, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_length(session), 0);
  assert_int_equal(ch_session_feed(session, f.tokens[0], T - 2, &logits, &error), CH_OK);
  assert_true(difference(&f, logits, 0, T - 3) <= 1e-5);
  assert_int_equal(ch_session_feed(session, f.tokens[0], 1, &logits, &error), CH_ERROR_FULL);
  assert_non_null(strstr(error.message, "22 of 22"));
  assert_int_equal(ch_session_truncate(session, 3, NULL), CH_OK);
  /* If a later chunk has an id outside the vocabulary, no earlier chunk may remain in the session. */
  int32_t wrong[12] = {0};
  const int32_t ids[] = {-1, (int32_t)f.model->config.vocab_size, INT32_MIN, INT32_MAX};
  for (int i = 0; i < 4; i++) {
    wrong[11] = ids[i];
    assert_int_equal(ch_session_feed(session, wrong, 12, &logits, &error), CH_ERROR_ARGUMENT);
    assert_int_equal(ch_session_length(session), 3);
  }
  assert_int_equal(ch_session_feed(session, f.tokens[0] + 3, 1, &logits, &error), CH_OK);
  assert_true(difference(&f, logits, 0, 3) <= 1e-5);
  ch_session_free(session);
  close_fixture(&f);
}

static void impossible_options_are_errors(void **state) {
  (void)state;
  fixture f;
  open_fixture(models[0], &f);
  const int64_t huge = (int64_t)1 << 40;
  const ch_session_options wrong[] = {
      {.sequences = 0, .context = 8, .chunk = 8},
      {.sequences = 1, .context = 0, .chunk = 8},
      {.sequences = 1, .context = 8, .chunk = 0},
      {.sequences = 1, .context = 8, .chunk = 8, .cache = {{CH_F64}}},
      {.sequences = 1, .context = huge, .chunk = 8},
      {.sequences = huge, .context = 1 << 20, .chunk = 8},
      {.sequences = 1, .context = 8, .chunk = 8, .precompute_gates = true},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ch_session *session = NULL;
    ch_error error = {0};
    ch_status status = ch_session_new(&f.model->config, &f.model->params, f.model->weights.tensors, &wrong[i],
                                      &session, &error);
    if (status == CH_OK) fail_msg("case %zu was accepted", i);
    assert_null(session);
    assert_true(strlen(error.message) > 10);
  }
  close_fixture(&f);
}

/* The cache has exactly the bytes that the config implies. */
static void the_cache_holds_keys_and_values_and_nothing_else(void **state) {
  (void)state;
  for (int m = 0; m < MODELS; m++) {
    fixture f;
    open_fixture(models[m], &f);
    const ch_config *c = &f.model->config;
    ch_session *session = open_session(&f, B, 17, 512, CH_BF16);
    int64_t elements = 2 * c->num_hidden_layers * c->num_key_value_heads * c->head_dim;
    assert_int_equal(ch_session_cache(session)->bytes, elements * 2 * B * 17);
    ch_session_free(session);
    close_fixture(&f);
  }
}

/* EG-MLA stores latents, ids and moments of tokens, and a row of gates for every id that has appeared. */
static void the_estimate_counts_the_parts_of_gated_latents(void **state) {
  (void)state;
  enum { VOCABULARY = 50, LATENT = 8, ROTARY = 4, HEADS = 2, GATES = HEADS * (4 + 8) };
  char directory[] = "/tmp/crosshead-gated-XXXXXX", path[64];
  static const char json[] =
      "{\"model_type\": \"crosshead\", \"vocab_size\": 50, \"hidden_size\": 16, \"intermediate_size\": 16,"
      " \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 64, \"attention\":"
      " {\"type\": \"mla\", \"kv_lora_rank\": 8, \"qk_rope_head_dim\": 4, \"qk_nope_head_dim\": 4,"
      " \"v_head_dim\": 8, \"gate_embedding_dim\": 4}}";
  assert_non_null(mkdtemp(directory));
  snprintf(path, sizeof path, "%s/config.json", directory);
  ch_error error = {0};
  ch_model *model = NULL;
  if (ch_write_file(path, json, strlen(json), &error) != CH_OK ||
      ch_model_random(path, CH_F32, 1, &model, &error) != CH_OK)
    fail_msg("%s", error.message);
  for (int i = 0; i < 4; i++) {
    ch_session_settings settings;
    ch_session *session = NULL;
    ch_memory memory;
    ch_session_defaults(&settings);
    settings.sequences = 3;
    settings.max_tokens = i % 2 ? 30 : 5; /* 15 tokens, or more than there are ids */
    settings.precompute_gates = i > 1;
    assert_int_equal(ch_memory_estimate(model, &settings, &memory, &error), CH_OK);
    assert_int_equal(ch_session_create(model, &settings, &session, &error), CH_OK);
    const uint64_t rows = i == 0 ? 15 : VOCABULARY,
                   token = (LATENT + ROTARY + 2) * sizeof(float) + sizeof(int32_t);
    assert_int_equal(ch_session_cache_bytes(session), 3 * (uint64_t)settings.max_tokens * token);
    assert_int_equal(memory.cache, ch_session_cache_bytes(session) + rows * GATES * sizeof(float));
    ch_session_free(session);
  }
  ch_model_unload(model);
  unlink(path);
  rmdir(directory);
}

static void a_pretended_depth_can_be_decoded_from(void **state) {
  (void)state;
  fixture f;
  open_fixture(models[1], &f);
  static const ch_dtype dtypes[] = {CH_F32, CH_F16, CH_BF16};
  for (int d = 0; d < 3; d++) {
    ch_session *session = open_session(&f, 2, 40, 512, dtypes[d]);
    assert_int_equal(ch_session_pretend(session, 41, 1, NULL, 0, NULL), CH_ERROR_FULL);
    assert_int_equal(ch_session_pretend(session, 37, 1, NULL, 0, NULL), CH_OK);
    assert_int_equal(ch_session_length(session), 37);
    const int32_t tokens[2] = {1, 2};
    const float *logits = NULL;
    assert_int_equal(ch_session_feed(session, tokens, 1, &logits, NULL), CH_OK);
    for (int64_t v = 0; v < 2 * f.model->config.vocab_size; v++) assert_true(isfinite(logits[v]));
    ch_session_free(session);
  }
  close_fixture(&f);
}

static void a_decoding_step_allocates_nothing(void **state) {
  (void)state;
  if (!COUNTS_ALLOCATIONS) {
    print_message("allocations are not counted here\n");
    skip();
  }
  fixture f;
  open_fixture(models[3], &f);
  ch_session *session = open_session(&f, 1, 64, 512, CH_F16);
  const float *logits = NULL;
  assert_int_equal(ch_session_feed(session, f.tokens[0], T, &logits, NULL), CH_OK);
  assert_int_equal(ch_session_feed(session, f.tokens[1], 1, &logits, NULL), CH_OK);
  long before = allocations;
  assert_true(before > 0);
  for (int t = 1; t < T; t++)
    assert_int_equal(ch_session_feed(session, f.tokens[1] + t, 1, &logits, NULL), CH_OK);
  assert_int_equal(allocations, before);
  /* A repeated prompt reuses its plans. */
  assert_int_equal(ch_session_truncate(session, 0, NULL), CH_OK);
  assert_int_equal(ch_session_feed(session, f.tokens[0], T, &logits, NULL), CH_OK);
  assert_int_equal(allocations, before);
  ch_session_free(session);
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cached_logits_equal_uncached_ones_however_tokens_are_fed),
      cmocka_unit_test(sequences_of_a_batch_do_not_know_of_each_other),
      cmocka_unit_test(rewinding_forgets_exactly_what_came_after),
      cmocka_unit_test(one_pass_over_all_tokens_gives_the_logits_of_each),
      cmocka_unit_test(what_does_not_fit_is_refused_and_changes_nothing),
      cmocka_unit_test(impossible_options_are_errors),
      cmocka_unit_test(the_cache_holds_keys_and_values_and_nothing_else),
      cmocka_unit_test(the_estimate_counts_the_parts_of_gated_latents),
      cmocka_unit_test(a_pretended_depth_can_be_decoded_from),
      cmocka_unit_test(a_decoding_step_allocates_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
