/* Tests ch_generate_batch as a program would use it, with crosshead/crosshead.h only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <crosshead/crosshead.h>

#define MODEL TEST_DATA "/TinyStories-656K"

enum { TEXTS = 9, ROOM = 2000, CONTEXT = 60 };
static const char *const beginnings[] = {"One day", "The moon",
                                         "Once upon a time there was a little girl who", "A"};

static ch_error error;

/* The output of one text. */
typedef struct page {
  char text[ROOM];
  size_t size;
  /* calls of the sink so far; stop_after: number of the call that stops the text (0 = none) */
  int calls, stop_after;
} page;

static bool collect(const char *text, size_t size, void *user) {
  page *p = user;
  assert_true(p->size + size < ROOM);
  memcpy(p->text + p->size, text, size);
  p->size += size;
  p->text[p->size] = 0;
  return ++p->calls != p->stop_after;
}

typedef struct desk {
  ch_model *model;
  ch_session *session;
  page pages[TEXTS];
  ch_sampler samplers[TEXTS];
  ch_batch_text texts[TEXTS];
} desk;

/* Sets up texts with different prompts, lengths and samplers. The model ends some, one is stopped, and one
   fills the session. */
static void open_desk(desk *d, int32_t sequences, ch_precision cache) {
  ch_session_settings settings;
  ch_session_defaults(&settings);
  settings.sequences = sequences;
  settings.max_tokens = CONTEXT;
  settings.cache = cache;
  memset(d, 0, sizeof *d);
  if (ch_model_open(MODEL, &d->model, &error) != CH_OK) fail_msg("%s", error.message);
  if (ch_session_create(d->model, &settings, &d->session, &error) != CH_OK) fail_msg("%s", error.message);
  for (int i = 0; i < TEXTS; i++) {
    ch_sampler_defaults(&d->samplers[i], (uint64_t)i);
    d->samplers[i].temperature = i % 4 == 3 ? 0 : 1.1;
    d->samplers[i].top_k = i % 2 ? 20 : 0;
    d->texts[i] = (ch_batch_text){.prompt = beginnings[i / 2 % 4],
                                  .max_tokens = i == 5 ? 0 : 1 + 7 * i % 30,
                                  .sampler = &d->samplers[i],
                                  .sink = collect,
                                  .user = &d->pages[i]};
  }
  d->pages[2].stop_after = 3;
}

static void close_desk(desk *d) {
  ch_session_free(d->session);
  ch_model_close(d->model);
}

/* Writes text i alone, in an empty session of one sequence. */
static void write_alone(desk *d, int i, ch_generation_result *done) {
  ch_session_reset(d->session);
  ch_batch_text *t = &d->texts[i];
  if (ch_generate(d->session, t->prompt, t->max_tokens, t->sampler, t->sink, t->user, done, &error) != CH_OK)
    fail_msg("%s", error.message);
}

static void check_with(int32_t sequences, ch_precision cache) {
  desk together, alone;
  open_desk(&together, sequences, cache);
  open_desk(&alone, 1, cache);
  if (ch_generate_batch(together.session, together.texts, TEXTS, &error) != CH_OK)
    fail_msg("%s", error.message);
  int64_t fed = 0;
  for (int i = 0; i < TEXTS; i++) {
    ch_generation_result one, *many = &together.texts[i].generated;
    write_alone(&alone, i, &one);
    assert_string_equal(together.pages[i].text, alone.pages[i].text);
    assert_int_equal(many->tokens, one.tokens);
    assert_int_equal(together.texts[i].status, CH_OK);
    /* Neighbours with the same prompt share its computation. */
    assert_int_equal(many->prompt_tokens, i % 2 ? 0 : one.prompt_tokens);
    assert_memory_equal(together.samplers[i].state, alone.samplers[i].state, sizeof alone.samplers[i].state);
    fed += many->prompt_tokens;
  }
  assert_true(fed > 0);
  assert_int_equal(together.pages[2].calls, 3);
  assert_int_equal(ch_session_length(together.session), 0);
  close_desk(&together);
  close_desk(&alone);
}

static void texts_of_a_batch_are_what_they_are_alone(void **state) {
  (void)state;
  check_with(4, CH_PRECISION_F32);
  check_with(16, CH_PRECISION_BF16);
  check_with(2, CH_PRECISION_Q8_0);
  check_with(1, CH_PRECISION_F32);
}

static void what_a_session_held_is_forgotten(void **state) {
  (void)state;
  desk d, fresh;
  open_desk(&d, 3, CH_PRECISION_F32);
  open_desk(&fresh, 3, CH_PRECISION_F32);
  const int32_t tokens[3][2] = {{5, 6}, {7, 8}, {9, 10}};
  const float *logits;
  assert_int_equal(ch_session_feed(d.session, tokens[0], 2, &logits, &error), CH_OK);
  assert_int_equal(ch_generate_batch(d.session, d.texts, TEXTS, &error), CH_OK);
  assert_int_equal(ch_generate_batch(fresh.session, fresh.texts, TEXTS, &error), CH_OK);
  for (int i = 0; i < TEXTS; i++) assert_string_equal(d.pages[i].text, fresh.pages[i].text);
  /* A second batch writes the same texts. */
  for (int i = 0; i < TEXTS; i++) {
    d.pages[i] = (page){.stop_after = i == 2 ? 3 : 0};
    double temperature = d.samplers[i].temperature;
    int32_t top_k = d.samplers[i].top_k;
    ch_sampler_defaults(&d.samplers[i], (uint64_t)i);
    d.samplers[i].temperature = temperature;
    d.samplers[i].top_k = top_k;
  }
  assert_int_equal(ch_generate_batch(d.session, d.texts, TEXTS, &error), CH_OK);
  for (int i = 0; i < TEXTS; i++) assert_string_equal(d.pages[i].text, fresh.pages[i].text);
  close_desk(&d);
  close_desk(&fresh);
}

static void defaults_are_those_of_ch_generate(void **state) {
  (void)state;
  desk d;
  open_desk(&d, 1, CH_PRECISION_F32);
  d.texts[0] = (ch_batch_text){.prompt = "One day", .max_tokens = 6, .sink = collect, .user = &d.pages[0]};
  assert_int_equal(ch_generate_batch(d.session, d.texts, 1, NULL), CH_OK);
  assert_int_equal(ch_generate(d.session, "One day", 6, NULL, collect, &d.pages[1], NULL, &error), CH_OK);
  assert_string_equal(d.pages[0].text, d.pages[1].text);
  d.texts[0].sink = NULL; /* no output is requested */
  assert_int_equal(ch_generate_batch(d.session, d.texts, 1, &error), CH_OK);
  assert_int_equal(d.texts[0].generated.tokens, 6);
  close_desk(&d);
}

static void what_cannot_be_written_is_refused_before_anything_is(void **state) {
  (void)state;
  desk d;
  open_desk(&d, 2, CH_PRECISION_F32);
  assert_int_equal(ch_generate_batch(NULL, d.texts, 1, &error), CH_ERROR_ARGUMENT);
  assert_string_equal(error.message, "the session is NULL");
  assert_int_equal(ch_generate_batch(d.session, NULL, 1, &error), CH_ERROR_ARGUMENT);
  assert_string_equal(error.message, "the array of texts is NULL");
  assert_int_equal(ch_generate_batch(d.session, NULL, 0, &error), CH_OK);
  assert_int_equal(ch_generate_batch(d.session, d.texts, 0, &error), CH_OK);

  d.texts[3].prompt = NULL;
  assert_int_equal(ch_generate_batch(d.session, d.texts, TEXTS, &error), CH_ERROR_ARGUMENT);
  assert_string_equal(error.message, "texts[3]: the prompt is NULL");
  char too_long[CONTEXT * 8];
  for (size_t i = 0; i + 1 < sizeof too_long; i++) too_long[i] = "the moon "[i % 9];
  too_long[sizeof too_long - 1] = 0;
  d.texts[3].prompt = too_long;
  assert_int_equal(ch_generate_batch(d.session, d.texts, TEXTS, &error), CH_ERROR_FULL);
  assert_non_null(strstr(error.message, "texts[3]: the prompt has "));
  d.texts[3].prompt = "fine";
  d.texts[4].max_tokens = -1;
  assert_int_equal(ch_generate_batch(d.session, d.texts, TEXTS, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "texts[4]: max_tokens is -1"));
  d.texts[4].max_tokens = 1;
  d.samplers[6].top_p = 2;
  assert_int_equal(ch_generate_batch(d.session, d.texts, TEXTS, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "texts[6]: "));
  for (int i = 0; i < TEXTS; i++) assert_int_equal(d.pages[i].calls, 0);
  d.samplers[6].top_p = 1;
  assert_int_equal(ch_generate_batch(d.session, d.texts, TEXTS, &error), CH_OK);
  close_desk(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_of_a_batch_are_what_they_are_alone),
      cmocka_unit_test(what_a_session_held_is_forgotten),
      cmocka_unit_test(defaults_are_those_of_ch_generate),
      cmocka_unit_test(what_cannot_be_written_is_refused_before_anything_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
