/* Tests sessions that move between threads with different OpenMP settings. Each session uses the number of threads
 * for which it was planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <omp.h>
#include <pthread.h>

#include <crosshead/crosshead.h>

#define MODEL TEST_DATA "/TinyStories-656K"

enum { V = 2048, TOKENS = 48, PROMPT = 40 };

static ch_error error;
static ch_model *model;

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static int open_model(void **state) {
  (void)state;
  return ch_model_open(MODEL, &model, &error) == CH_OK ? 0 : -1;
}

static int close_model(void **state) {
  (void)state;
  ch_model_close(model);
  return 0;
}

static int32_t token(int i) {
  return 3 + i * 37 % (V - 3);
}

static ch_session *create(int32_t threads) {
  ch_session *session;
  ch_session_settings settings;
  ch_session_defaults(&settings);
  settings.max_tokens = TOKENS;
  settings.threads = threads;
  must(ch_session_create(model, &settings, &session, &error));
  return session;
}

/* A job feeds a prompt at once, then tokens one by one. Each call runs under the next OpenMP number of threads of
   `settings`. */
typedef struct job {
  ch_session *session;
  const int *settings; /* OpenMP numbers of threads, repeated in this order; 0 ends the list */
  float logits[V];
} job;

static void feed(job *j, const int32_t *tokens, size_t count) {
  const float *logits;
  must(ch_session_feed(j->session, tokens, count, &logits, &error));
  memcpy(j->logits, logits, sizeof j->logits);
}

static void *run(void *given) {
  job *j = given;
  int32_t tokens[TOKENS];
  for (int i = 0; i < TOKENS; i++) tokens[i] = token(i);
  const int *setting = j->settings;
  for (int at = 0, count = PROMPT; at < TOKENS; at += count, count = 1) {
    omp_set_num_threads(*setting);
    feed(j, tokens + at, (size_t)count);
    assert_int_equal(omp_get_max_threads(), *setting); /* the caller's setting is unchanged */
    if (!*++setting) setting = j->settings;
  }
  return NULL;
}

/* Computes the logits of a session that is created under `created` threads and then used in another thread. */
static void moved(int created, int32_t threads, const int *settings, float *logits) {
  pthread_t thread;
  job j = {.settings = settings};
  int before = omp_get_max_threads();
  omp_set_num_threads(created);
  j.session = create(threads);
  omp_set_num_threads(before);
  assert_int_equal(pthread_create(&thread, NULL, run, &j), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  memcpy(logits, j.logits, sizeof j.logits);
  ch_session_free(j.session);
}

static void a_session_keeps_its_threads(void **state) {
  (void)state;
  static const int still[] = {1, 0}, more[] = {256, 3, 1, 64, 0};
  float expected[V], got[V];
  for (int created = 1; created <= 3; created++) {
    moved(created, 0, still, expected);
    moved(created, 0, more, got);
    assert_memory_equal(got, expected, sizeof got);
    moved(7, created, more, got); /* the session's settings request the number */
    assert_memory_equal(got, expected, sizeof got);
  }
}

static void memory_is_estimated_for_the_threads_asked_for(void **state) {
  (void)state;
  ch_memory one, many;
  ch_session_settings settings;
  ch_session_defaults(&settings);
  settings.threads = 1;
  must(ch_memory_estimate(model, &settings, &one, &error));
  settings.threads = 64;
  must(ch_memory_estimate(model, &settings, &many, &error));
  assert_true(many.workspace > one.workspace);
  assert_true(many.cache == one.cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_keeps_its_threads),
      cmocka_unit_test(memory_is_estimated_for_the_threads_asked_for),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
