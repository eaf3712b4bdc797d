/* Tests the public interface as a program would use it, with crosshead/crosshead.h only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <crosshead/crosshead.h>

#define MODEL TEST_DATA "/TinyStories-656K"

/* The first ten ids of `greedy` are the prompt. The others are its greedy continuation by transformers 5.12. */
static const char prompt[] = "Once upon a time, there was a little girl named Lily.";
enum { PROMPT_TOKENS = 10 };
static const int32_t greedy[] = {1,   80,   147,  201, 282,  215,  286, 598,  629,  10,  208, 183,
                                 209, 210,  2,    990, 1726, 1061, 178, 921,  356,  819, 241, 294,
                                 144, 1083, 353,  486, 303,  328,  552, 319,  1269, 776, 115, 133,
                                 114, 100,  1148, 92,  274,  776,  204, 1578, 1180};
enum { GREEDY = sizeof greedy / sizeof *greedy };

static ch_error error;

static ch_model *open_model(void) {
  ch_model *model = NULL;
  if (ch_model_open(MODEL, &model, &error) != CH_OK) fail_msg("%s", error.message);
  return model;
}

static ch_session *create(const ch_model *model, int64_t max_tokens, int32_t sequences, int32_t threads) {
  ch_session_settings settings;
  ch_session_defaults(&settings);
  settings.max_tokens = max_tokens;
  settings.sequences = sequences;
  settings.threads = threads;
  ch_session *session = NULL;
  if (ch_session_create(model, &settings, &session, &error) != CH_OK) fail_msg("%s", error.message);
  return session;
}

static int32_t argmax(const float *logits, int64_t count) {
  int32_t best = 0;
  for (int32_t i = 1; i < count; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

static void a_model_says_what_it_is(void **state) {
  (void)state;
  ch_model *model = open_model();
  assert_int_equal(ch_model_vocab_size(model), 2048);
  assert_int_equal(ch_model_context_length(model), 512);
  assert_true(ch_model_has_tokenizer(model));
  assert_string_equal(ch_model_type(model), "llama");
  assert_false(ch_model_takes_images(model));
  assert_string_equal(ch_version(), CH_VERSION_STRING);
  char *json = NULL;
  assert_int_equal(ch_model_info(model, &json, &error), CH_OK);
  assert_non_null(strstr(json, "\"parameters_total\": 656000"));
  assert_non_null(strstr(json, "\"cache_elements_per_token\": 256"));
  ch_free(json);
  ch_model_close(model);
  ch_model_close(NULL);
  ch_free(NULL);
}

/* A token adds 256 elements to the cache: of 4 bytes in F32, or in Q8_0 blocks of 32 elements and 34 bytes. */
static void a_session_says_what_a_token_takes(void **state) {
  (void)state;
  ch_model *model = open_model();
  static const ch_precision types[] = {CH_PRECISION_F32, CH_PRECISION_Q8_0};
  static const int64_t bytes[] = {256 * 4, 256 / 32 * 34};
  for (int i = 0; i < 2; i++) {
    ch_session_settings settings;
    ch_session *session = NULL;
    ch_session_defaults(&settings);
    settings.max_tokens = 10;
    settings.cache = types[i];
    assert_int_equal(ch_session_create(model, &settings, &session, &error), CH_OK);
    assert_int_equal(ch_session_cache_token_elements(session), 256);
    assert_int_equal(ch_session_cache_token_bytes(session), bytes[i]);
    ch_session_free(session);
  }
  ch_model_close(model);
}

static void a_model_opens_without_its_tokenizer(void **state) {
  (void)state;
  ch_model *model = NULL;
  const ch_model_settings settings = {.no_tokenizer = true};
  assert_int_equal(ch_model_open_with(MODEL, &settings, &model, &error), CH_OK);
  assert_false(ch_model_has_tokenizer(model));
  ch_model_close(model);
  assert_int_equal(
      ch_model_open_with(MODEL, &(ch_model_settings){.tokenizer = "/nonexistent"}, &model, &error),
      CH_ERROR_IO);
  assert_null(model);
}

static void what_is_no_model_is_an_error_that_names_it(void **state) {
  (void)state;
  ch_model *model = (ch_model *)1;
  assert_int_equal(ch_model_open("/nonexistent/model", &model, &error), CH_ERROR_IO);
  assert_null(model);
  assert_non_null(strstr(error.message, "/nonexistent/model"));
  assert_int_not_equal(ch_model_open(TEST_DATA, &model, NULL), CH_OK);
  assert_int_equal(ch_model_open(NULL, &model, &error), CH_ERROR_ARGUMENT);
}

static void text_becomes_tokens_and_comes_back(void **state) {
  (void)state;
  ch_model *model = open_model();
  int32_t tokens[64];
  size_t count = 0;
  assert_int_equal(ch_encode(model, prompt, strlen(prompt), true, tokens, 64, &count, &error), CH_OK);
  assert_int_equal(count, PROMPT_TOKENS);
  assert_memory_equal(tokens, greedy, PROMPT_TOKENS * sizeof *tokens);
  char *text = NULL;
  size_t size = 0;
  assert_int_equal(ch_decode(model, tokens + 1, count - 1, &text, &size, &error), CH_OK);
  assert_int_equal(size, strlen(text));
  assert_string_equal(text, prompt);
  ch_free(text);

  int32_t few[3] = {-1, -1, -1};
  assert_int_equal(ch_encode(model, prompt, strlen(prompt), true, few, 2, &count, &error), CH_ERROR_FULL);
  assert_int_equal(count, PROMPT_TOKENS);
  assert_memory_equal(few, greedy, 2 * sizeof *few);
  assert_int_equal(few[2], -1);
  assert_int_equal(ch_encode(model, prompt, strlen(prompt), true, NULL, 0, &count, &error), CH_ERROR_FULL);

  assert_int_equal(ch_decode(model, NULL, 0, &text, &size, &error), CH_OK);
  assert_string_equal(text, "");
  ch_free(text);
  const int32_t outside[] = {2048};
  assert_int_equal(ch_decode(model, outside, 1, &text, &size, &error), CH_ERROR_ARGUMENT);
  ch_model_close(model);
}

static void the_likeliest_tokens_are_those_of_the_reference(void **state) {
  (void)state;
  ch_model *model = open_model();
  ch_session *session = create(model, GREEDY, 1, 0);
  const float *logits = NULL;
  assert_int_equal(ch_session_feed(session, greedy, PROMPT_TOKENS, &logits, &error), CH_OK);
  for (int i = PROMPT_TOKENS; i < GREEDY; i++) {
    assert_int_equal(argmax(logits, 2048), greedy[i]);
    assert_int_equal(ch_session_feed(session, &greedy[i], 1, &logits, &error), CH_OK);
  }
  assert_int_equal(ch_session_length(session), GREEDY);
  ch_session_free(session);
  ch_session_free(NULL);
  ch_model_close(model);
}

static void batched_sequences_are_what_they_are_alone(void **state) {
  (void)state;
  ch_model *model = open_model();
  ch_session *both = create(model, 32, 2, 0), *alone = create(model, 32, 1, 0);
  int32_t tokens[2][12];
  for (int t = 0; t < 12; t++) {
    tokens[0][t] = greedy[t];
    tokens[1][t] = greedy[t + 20];
  }
  const float *pair = NULL, *single = NULL;
  assert_int_equal(ch_session_feed(both, tokens[0], 12, &pair, &error), CH_OK);
  for (int s = 0; s < 2; s++) {
    ch_session_reset(alone);
    assert_int_equal(ch_session_length(alone), 0);
    assert_int_equal(ch_session_feed(alone, tokens[s], 12, &single, &error), CH_OK);
    for (int v = 0; v < 2048; v++) assert_true(fabsf(pair[s * 2048 + v] - single[v]) < 1e-4f);
  }
  ch_session_free(both);
  ch_session_free(alone);
  ch_model_close(model);
}

static void what_does_not_fit_leaves_the_session_as_it_was(void **state) {
  (void)state;
  ch_model *model = open_model();
  ch_session *session = create(model, 16, 1, 0);
  const float *logits = NULL;
  assert_int_equal(ch_session_feed(session, greedy, 10, &logits, &error), CH_OK);
  assert_int_equal(ch_session_feed(session, greedy, 7, &logits, &error), CH_ERROR_FULL);
  const int32_t bad[][2] = {{5, 2048}, {-1, 5}, {INT32_MIN, INT32_MAX}};
  for (int i = 0; i < 3; i++)
    assert_int_equal(ch_session_feed(session, bad[i], 2, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_feed(session, greedy, 0, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_length(session), 10);
  assert_int_equal(ch_session_feed(session, greedy + 10, 6, &logits, &error), CH_OK);
  assert_int_equal(argmax(logits, 2048), greedy[16]);
  ch_session_free(session);
  ch_model_close(model);
}

static void impossible_settings_are_refused(void **state) {
  (void)state;
  ch_model *model = open_model();
  ch_session *session = NULL;
  ch_memory memory;
  for (int i = 0; i < 6; i++) {
    ch_session_settings settings;
    ch_session_defaults(&settings);
    if (i == 0) settings.max_tokens = -1;
    if (i == 1) settings.sequences = 0;
    if (i == 2) settings.threads = -2;
    if (i == 3) settings.cache = (ch_precision)17;
    if (i == 4) settings.max_tokens = INT64_MAX;
    if (i == 5) settings.sequences = -5;
    assert_int_equal(ch_session_create(model, &settings, &session, &error), CH_ERROR_ARGUMENT);
    assert_null(session);
    assert_int_equal(ch_memory_estimate(model, &settings, &memory, &error), CH_ERROR_ARGUMENT);
  }
  ch_model_close(model);
}

static void the_estimate_is_what_the_cache_takes(void **state) {
  (void)state;
  ch_model *model = open_model();
  static const struct {
    ch_precision precision;
    uint64_t bytes;
  } cases[] = {
      {CH_PRECISION_DEFAULT, 4}, {CH_PRECISION_F32, 4}, {CH_PRECISION_F16, 2}, {CH_PRECISION_BF16, 2}};
  for (int i = 0; i < 4; i++) {
    ch_session_settings settings;
    ch_session_defaults(&settings);
    settings.cache = cases[i].precision;
    settings.sequences = 3;
    settings.max_tokens = 100;
    ch_memory memory;
    ch_session *session = NULL;
    assert_int_equal(ch_memory_estimate(model, &settings, &memory, &error), CH_OK);
    assert_int_equal(ch_session_create(model, &settings, &session, &error), CH_OK);
    /* 2 layers x 2 x 4 heads x 16 dimensions = 256 elements per token */
    assert_int_equal(memory.cache, 256 * 3 * 100 * cases[i].bytes);
    assert_int_equal(ch_session_cache_bytes(session), memory.cache);
    assert_int_equal(memory.weights, 656000 * 4);
    assert_true(memory.workspace > 0);
    ch_session_free(session);
  }
  ch_model_close(model);
}

/* --- generation ---- */

typedef struct collected {
  char text[4096];
  size_t size, calls, stop_after;
} collected;

static bool collect(const char *text, size_t size, void *user) {
  collected *c = user;
  assert_true(size > 0 && c->size + size < sizeof c->text);
  memcpy(c->text + c->size, text, size);
  c->size += size;
  c->text[c->size] = 0;
  return ++c->calls != c->stop_after;
}

static void generating_writes_the_text_of_the_tokens_it_takes(void **state) {
  (void)state;
  ch_model *model = open_model();
  ch_session *session = create(model, 128, 1, 0);
  ch_sampler sampler;
  ch_sampler_defaults(&sampler, 0);
  sampler.temperature = 0;
  collected got = {.size = 0};
  ch_generation_result result;
  assert_int_equal(ch_generate(session, prompt, 50, &sampler, collect, &got, &result, &error), CH_OK);
  /* The reference writes four tokens and then ends the text. */
  char *text = NULL;
  size_t size = 0;
  assert_int_equal(ch_decode(model, greedy + PROMPT_TOKENS, 4, &text, &size, &error), CH_OK);
  assert_string_equal(got.text, text);
  ch_free(text);
  assert_int_equal(result.prompt_tokens, PROMPT_TOKENS);
  assert_int_equal(result.tokens, 4);
  assert_int_equal(ch_session_length(session), PROMPT_TOKENS + 4);
  ch_session_free(session);
  ch_model_close(model);
}

static void generating_stops_when_told_when_full_and_at_the_limit(void **state) {
  (void)state;
  ch_model *model = open_model();
  const char story[] = "One day, a boy";
  ch_session *session = create(model, 64, 1, 0);
  collected got = {.stop_after = 3};
  ch_generation_result result;
  assert_int_equal(ch_generate(session, story, 50, NULL, collect, &got, &result, &error), CH_OK);
  assert_int_equal(got.calls, 3);
  ch_session_reset(session);
  got = (collected){.size = 0};
  assert_int_equal(ch_generate(session, story, 5, NULL, collect, &got, &result, &error), CH_OK);
  assert_int_equal(result.tokens, 5);
  ch_session_free(session);

  session = create(model, 12, 1, 0);
  got = (collected){.size = 0};
  assert_int_equal(ch_generate(session, story, 1000, NULL, collect, &got, &result, &error), CH_OK);
  assert_int_equal(result.prompt_tokens + result.tokens, 12);
  assert_int_equal(ch_generate(session, story, 5, NULL, collect, &got, &result, &error), CH_ERROR_FULL);
  ch_session_free(session);

  session = create(model, 12, 2, 0);
  assert_int_equal(ch_generate(session, story, 5, NULL, collect, &got, &result, &error), CH_ERROR_ARGUMENT);
  ch_session_free(session);
  ch_model_close(model);
}

static void a_seed_decides_what_is_drawn(void **state) {
  (void)state;
  float logits[100];
  for (int i = 0; i < 100; i++) logits[i] = (float)(i % 7);
  ch_sampler a, b, c;
  ch_sampler_defaults(&a, 7);
  ch_sampler_defaults(&b, 7);
  ch_sampler_defaults(&c, 8);
  int different = 0;
  for (int i = 0; i < 200; i++) {
    int32_t x, y, z;
    assert_int_equal(ch_sample(&a, logits, 100, &x, &error), CH_OK);
    assert_int_equal(ch_sample(&b, logits, 100, &y, &error), CH_OK);
    assert_int_equal(ch_sample(&c, logits, 100, &z, &error), CH_OK);
    assert_true(x >= 0 && x < 100);
    assert_int_equal(x, y);
    different += x != z;
  }
  assert_true(different > 100);
  int32_t token;
  a.temperature = -1;
  assert_int_equal(ch_sample(&a, logits, 100, &token, &error), CH_ERROR_ARGUMENT);
  logits[50] = NAN;
  assert_int_equal(ch_sample(&b, logits, 100, &token, &error), CH_ERROR_NUMERIC);
}

/* --- threads ---- */

typedef struct thread_job {
  const ch_model *model;
  int start;
  float logits[2048];
} thread_job;

static void *run_job(void *argument) {
  thread_job *job = argument;
  ch_session *session = NULL;
  const float *logits = NULL;
  ch_session_settings settings;
  ch_session_defaults(&settings);
  settings.threads = 1;
  settings.max_tokens = 32;
  if (ch_session_create(job->model, &settings, &session, NULL) != CH_OK) return NULL;
  for (int repeat = 0; repeat < 5; repeat++) {
    ch_session_reset(session);
    for (int t = 0; t < 12; t++)
      if (ch_session_feed(session, greedy + job->start + t, 1, &logits, NULL) != CH_OK) return NULL;
  }
  memcpy(job->logits, logits, sizeof job->logits);
  ch_session_free(session);
  return job;
}

static void threads_share_a_model_without_meeting(void **state) {
  (void)state;
  ch_model *one = open_model(), *two = open_model();
  enum { JOBS = 4 };
  static thread_job together[JOBS], alone[JOBS];
  pthread_t threads[JOBS];
  for (int i = 0; i < JOBS; i++) {
    together[i] = alone[i] = (thread_job){.model = i % 2 ? one : two, .start = 5 * i};
    assert_non_null(run_job(&alone[i]));
  }
  for (int i = 0; i < JOBS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_job, &together[i]), 0);
  for (int i = 0; i < JOBS; i++) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    assert_non_null(result);
    assert_memory_equal(together[i].logits, alone[i].logits, sizeof alone[i].logits);
  }
  ch_model_close(one);
  ch_model_close(two);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_says_what_it_is),
      cmocka_unit_test(a_session_says_what_a_token_takes),
      cmocka_unit_test(a_model_opens_without_its_tokenizer),
      cmocka_unit_test(what_is_no_model_is_an_error_that_names_it),
      cmocka_unit_test(text_becomes_tokens_and_comes_back),
      cmocka_unit_test(the_likeliest_tokens_are_those_of_the_reference),
      cmocka_unit_test(batched_sequences_are_what_they_are_alone),
      cmocka_unit_test(what_does_not_fit_leaves_the_session_as_it_was),
      cmocka_unit_test(impossible_settings_are_refused),
      cmocka_unit_test(the_estimate_is_what_the_cache_takes),
      cmocka_unit_test(generating_writes_the_text_of_the_tokens_it_takes),
      cmocka_unit_test(generating_stops_when_told_when_full_and_at_the_limit),
      cmocka_unit_test(a_seed_decides_what_is_drawn),
      cmocka_unit_test(threads_share_a_model_without_meeting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
