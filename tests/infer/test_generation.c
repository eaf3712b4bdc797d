/* Tests generations as a server would use them, with crosshead/crosshead.h only. Each text is bit-identical,
 * whatever other requests are processed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>

#include <crosshead/crosshead.h>

enum { REQUESTS = 12, MOST = 160, TOP = 3, ROOM = 4096, CHUNK = 33 };

static ch_error error;

/* The events of one choice. */
typedef struct said {
  int32_t ids[MOST];
  double log_probabilities[MOST];
  ch_token_probability top[MOST][TOP];
  int count;
  int prompt_events, prompt_tokens, ends;
  double prompt_scores[MOST];
  char text[ROOM];
  size_t size;
  int64_t cached;
  ch_generation_result generated;
  ch_status status;
  int stop_after; /* tokens after which the sink stops the choice (0 = never) */
} said;

static bool note(const ch_event *event, void *user) {
  said *s = (said *)user + event->choice;
  assert_int_equal(s->ends, 0);
  if (event->kind == CH_EVENT_PROMPT_TOKEN) {
    assert_int_equal(event->index, s->prompt_tokens);
    s->prompt_scores[s->prompt_tokens++] = event->log_probability;
    return true;
  }
  if (event->kind == CH_EVENT_PROMPT) {
    s->prompt_events++;
    return true;
  }
  assert_true(s->size + event->size < ROOM);
  if (event->size) memcpy(s->text + s->size, event->text, event->size);
  s->size += event->size;
  s->text[s->size] = 0;
  if (event->kind == CH_EVENT_END) {
    s->ends++;
    s->generated = *event->generated;
    s->status = event->status;
    s->cached = event->cached;
    return true;
  }
  assert_true(s->count < MOST);
  assert_int_equal(event->index, s->count);
  s->ids[s->count] = event->token;
  s->log_probabilities[s->count] = event->log_probability;
  for (int i = 0; i < event->top_count; i++) s->top[s->count][i] = event->top[i];
  s->count++;
  return s->count != s->stop_after;
}

static void assert_same(const said *got, const said *expected, const char *what) {
  if (got->count != expected->count ||
      memcmp(got->ids, expected->ids, sizeof *got->ids * (size_t)got->count) != 0)
    fail_msg("%s: other tokens", what);
  for (int i = 0; i < got->count; i++) {
    if (memcmp(&got->log_probabilities[i], &expected->log_probabilities[i], sizeof(double)) != 0)
      fail_msg("%s: token %d has another log-probability, by %g", what, i,
               got->log_probabilities[i] - expected->log_probabilities[i]);
    for (int k = 0; k < TOP; k++)
      if (got->top[i][k].token != expected->top[i][k].token ||
          got->top[i][k].log_probability != expected->top[i][k].log_probability)
        fail_msg("%s: token %d has other likeliest tokens", what, i);
  }
  assert_string_equal(got->text, expected->text);
  assert_int_equal(got->generated.end, expected->generated.end);
}

static ch_model *open_model(const char *name) {
  char path[512];
  ch_model *model;
  snprintf(path, sizeof path, "%s/%s", TEST_DATA, name);
  if (ch_model_open(path, &model, &error) != CH_OK) fail_msg("%s", error.message);
  return model;
}

static ch_generation *open_generation(const ch_model *model, int32_t places, int64_t context) {
  ch_generation_settings settings;
  ch_generation *g;
  ch_generation_defaults(&settings);
  settings.session.sequences = places;
  settings.session.max_tokens = context;
  settings.chunk = CHUNK;
  if (ch_generation_create(model, &settings, &g, &error) != CH_OK) fail_msg("%s", error.message);
  return g;
}

static int64_t add(ch_generation *g, const ch_generation_request *request) {
  int64_t id;
  if (ch_generation_add(g, request, &id, &error) != CH_OK) fail_msg("%s", error.message);
  return id;
}

static bool step(ch_generation *g) {
  bool busy;
  if (ch_generation_step(g, &busy, &error) != CH_OK) fail_msg("%s", error.message);
  return busy;
}

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 16;
}

/* --- alone and with others ---------------------------------------------------------------------------------- */

typedef struct deck {
  int32_t prompts[REQUESTS][MOST];
  ch_generation_request requests[REQUESTS];
  said alone[REQUESTS], mixed[REQUESTS];
} deck;

/* Creates prompts of up to several chunks with different samplers. Some share a beginning. */
static void make_requests(deck *d, int64_t vocabulary, int64_t context) {
  uint32_t state = 7;
  memset(d, 0, sizeof *d);
  for (int i = 0; i < REQUESTS; i++) {
    ch_generation_request *r = &d->requests[i];
    ch_generation_request_defaults(r);
    const int64_t length = 1 + next_random(&state) % (uint32_t)(context - 8);
    for (int64_t t = 0; t < length; t++)
      d->prompts[i][t] = i % 3 && t < CHUNK + 3 ? d->prompts[i - 1][t]
                                                : (int32_t)(next_random(&state) % (uint32_t)vocabulary);
    r->prompt = d->prompts[i];
    r->prompt_count = (size_t)length;
    r->max_tokens = i == 4 ? -1 : 1 + (int64_t)(next_random(&state) % 12);
    r->sampler.temperature = i % 4 == 1 ? 0 : 1.2;
    r->sampler.top_k = i % 2 ? 20 : 0;
    r->seed = (uint64_t)i;
    r->probabilities = true;
    r->top_count = TOP;
    r->frequency_penalty = i % 5 == 2 ? 0.7 : 0;
    r->ban_end_tokens = i % 3 == 0;
    r->sink = note;
  }
}

static void check_model(const char *name, int64_t context) {
  static deck d;
  ch_model *model = open_model(name);
  make_requests(&d, ch_model_vocab_size(model), context);
  for (int i = 0; i < REQUESTS; i++) {
    ch_generation *g = open_generation(model, 1, context);
    d.requests[i].user = &d.alone[i];
    add(g, &d.requests[i]);
    while (step(g)) {
    }
    assert_int_equal(d.alone[i].ends, 1);
    ch_generation_free(g);
  }
  for (uint32_t round = 0; round < 3; round++) {
    uint32_t state = 100 + round;
    ch_generation *g = open_generation(model, 4, context);
    said gone = {0};
    memset(d.mixed, 0, sizeof d.mixed);
    int64_t cancelled = 0;
    for (int i = 0; i < REQUESTS; i++) {
      d.requests[i].user = &d.mixed[i];
      add(g, &d.requests[i]);
      if (i == 5) { /* a request that is cancelled in the queue, during its prompt or during its text */
        ch_generation_request r = d.requests[4];
        r.user = &gone;
        cancelled = add(g, &r);
      }
      for (uint32_t k = next_random(&state) % 4; k > 0; k--) step(g);
      if (i == 7) ch_generation_cancel(g, cancelled, -1);
      if (i == 3) ch_generation_pause(g, 2, true);
      if (i == 8) ch_generation_pause(g, 2, false);
    }
    while (step(g)) {
    }
    assert_int_equal(gone.ends, 1);
    for (int i = 0; i < REQUESTS; i++) {
      char what[200];
      snprintf(what, sizeof what, "%s, round %u, request %d of %zu tokens", name, round, i,
               d.requests[i].prompt_count);
      assert_int_equal(d.mixed[i].ends, 1);
      assert_int_equal(d.mixed[i].prompt_events, 1);
      assert_same(&d.mixed[i], &d.alone[i], what);
    }
    ch_generation_free(g);
  }
  ch_model_close(model);
}

static void texts_are_what_they_are_alone(void **state) {
  (void)state;
  static const char *const models[] = {
      "reference/llama_gqa", "reference/deepseek_v3",   "reference/gemma2",  "reference/gemma3_text",
      "reference/gpt_oss",   "reference/olmo3_windows", "reference/mixtral", "reference/phi3"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(models[i], 60);
  check_model("TinyStories-656K", 140);
}

/* --- reuse -------------------------------------------------------------------------------------------------- */

static said run_one(ch_generation *g, ch_generation_request r) {
  static said s;
  memset(&s, 0, sizeof s);
  r.user = &s;
  r.sink = note;
  add(g, &r);
  while (step(g)) {
  }
  return s;
}

static ch_generation_request long_request(int32_t prompt[MOST], int count) {
  uint32_t state = 3;
  ch_generation_request r;
  ch_generation_request_defaults(&r);
  for (int t = 0; t < count; t++) prompt[t] = (int32_t)(next_random(&state) % 2048);
  r.prompt = prompt;
  r.prompt_count = (size_t)count;
  r.max_tokens = 9;
  r.probabilities = true;
  r.top_count = TOP;
  return r;
}

static void whole_chunks_of_an_earlier_prompt_are_reused(void **state) {
  (void)state;
  static int32_t prompt[MOST];
  ch_model *model = open_model("TinyStories-656K");
  ch_generation *g = open_generation(model, 2, 140);
  ch_generation_request r = long_request(prompt, 120);
  said first = run_one(g, r), again = run_one(g, r);
  assert_int_equal(first.cached, 0);
  assert_int_equal(again.cached, 3 * CHUNK);
  assert_int_equal(again.generated.prompt_tokens, 120 - 3 * CHUNK);
  assert_same(&again, &first, "the same prompt again");
  r.reuse = false;
  said computed = run_one(g, r);
  assert_int_equal(computed.cached, 0);
  assert_same(&computed, &first, "without reuse");
  r.reuse = true;
  prompt[CHUNK + 5] = (prompt[CHUNK + 5] + 1) % 2048;
  said other = run_one(g, r);
  assert_int_equal(other.cached, CHUNK);
  r.reuse = false;
  said expected = run_one(g, r);
  assert_same(&other, &expected, "a common beginning");
  r.reuse = true;
  r.prompt_count = 2 * CHUNK; /* at least one token must be processed */
  said shorter = run_one(g, r);
  assert_int_equal(shorter.cached, CHUNK);
  r.echo_probabilities = true;
  said scored = run_one(g, r);
  assert_int_equal(scored.cached, 0);
  assert_same(&scored, &shorter, "with the prompt's probabilities");
  ch_generation_counts counts;
  ch_generation_count(g, &counts);
  assert_int_equal(counts.waiting + counts.processing, 0);
  assert_int_equal(counts.cached_tokens, 5 * CHUNK);
  ch_generation_free(g);
  ch_model_close(model);
}

/* --- choices ------------------------------------------------------------------------------------------------ */

/* If there are more choices than slots, each must still be the text of its seed. */
static void choices_are_texts_of_their_seeds(void **state) {
  (void)state;
  static int32_t prompt[MOST];
  static said all[7], alone;
  ch_model *model = open_model("TinyStories-656K");
  ch_generation *g = open_generation(model, 3, 140);
  ch_generation_request r = long_request(prompt, 70);
  r.choices = 7;
  r.seed = 40;
  r.sink = note;
  r.user = all;
  memset(all, 0, sizeof all);
  add(g, &r);
  while (step(g)) {
  }
  ch_generation_counts counts;
  ch_generation_count(g, &counts);
  assert_int_equal(counts.prompt_tokens, 70); /* the prompt is processed once */
  assert_int_equal(all[0].prompt_events, 1);
  for (int i = 0; i < 7; i++) {
    ch_generation_request one = r;
    one.choices = 1;
    one.seed = 40 + (uint64_t)i;
    alone = run_one(g, one);
    assert_int_equal(all[i].ends, 1);
    assert_same(&all[i], &alone, "a choice");
  }
  ch_generation_free(g);
  ch_model_close(model);
}

/* --- probabilities of a prompt ------------------------------------------------------------------------------ */

static void tokens_of_a_prompt_are_scored(void **state) {
  (void)state;
  static int32_t prompt[MOST];
  ch_model *model = open_model("TinyStories-656K");
  ch_generation *g = open_generation(model, 1, 140);
  ch_generation_request r = long_request(prompt, 80);
  r.echo_probabilities = true;
  r.max_tokens = 0;
  said s = run_one(g, r);
  assert_int_equal(s.prompt_tokens, 80);
  assert_int_equal(s.count, 0);
  assert_int_equal(s.generated.end, CH_END_LIMIT);
  assert_true(isnan(s.prompt_scores[0]));
  ch_session *session;
  if (ch_session_create(model, NULL, &session, &error) != CH_OK) fail_msg("%s", error.message);
  const float *logits;
  if (ch_session_feed_all(session, prompt, 80, &logits, &error) != CH_OK) fail_msg("%s", error.message);
  for (int t = 1; t < 80; t++) {
    double expected;
    assert_int_equal(ch_log_probability(logits + (t - 1) * 2048, 2048, prompt[t], &expected, &error), CH_OK);
    assert_true(fabs(s.prompt_scores[t] - expected) < 1e-4);
  }
  ch_session_free(session);
  ch_generation_free(g);
  ch_model_close(model);
}

/* --- biases, bans and penalties ----------------------------------------------------------------------------- */

static void biases_bans_and_penalties_decide_what_is_written(void **state) {
  (void)state;
  static int32_t prompt[MOST];
  ch_model *model = open_model("TinyStories-656K");
  ch_generation *g = open_generation(model, 1, 140);
  ch_generation_request r = long_request(prompt, 10);
  r.sampler.temperature = 0;
  r.max_tokens = 20;
  said plain = run_one(g, r);
  ch_logit_bias bias = {.token = 77, .bias = 100};
  r.biases = &bias;
  r.bias_count = 1;
  said biased = run_one(g, r);
  for (int i = 0; i < biased.count; i++) assert_int_equal(biased.ids[i], 77);
  assert_true(biased.log_probabilities[0] < plain.log_probabilities[0]); /* reported without the bias */
  bias.bias = -100;
  bias.token = plain.ids[0];
  said banned = run_one(g, r);
  for (int i = 0; i < banned.count; i++) assert_int_not_equal(banned.ids[i], plain.ids[0]);
  r.bias_count = 0;
  r.banned = plain.ids;
  r.banned_count = 1;
  said same = run_one(g, r);
  assert_same(&same, &banned, "a banned token");
  r.banned_count = 0;
  bias = (ch_logit_bias){.token = 77, .bias = 30};
  r.bias_count = 1;
  r.frequency_penalty = 2;
  said penal = run_one(g, r);
  int often = 0;
  for (int i = 0; i < penal.count; i++) often += penal.ids[i] == 77;
  assert_true(often > 1 && often < 20);
  ch_generation_free(g);
  ch_model_close(model);
}

/* --- stop strings ------------------------------------------------------------------------------------------- */

static void a_text_ends_before_its_stop_string(void **state) {
  (void)state;
  ch_model *model = open_model("TinyStories-656K");
  ch_generation *g = open_generation(model, 1, 140);
  int32_t ids[32];
  size_t count;
  assert_int_equal(ch_encode(model, "Once upon a time", 16, true, ids, 32, &count, &error), CH_OK);
  ch_generation_request r;
  ch_generation_request_defaults(&r);
  r.prompt = ids;
  r.prompt_count = count;
  r.max_tokens = 60;
  r.sampler.temperature = 0;
  said plain = run_one(g, r);
  char stop[5];
  memcpy(stop, plain.text + plain.size / 2, 4);
  stop[4] = 0;
  r.stops = (const char *const[]){"never there", stop};
  r.stop_count = 2;
  said ended = run_one(g, r);
  assert_int_equal(ended.generated.end, CH_END_STRING);
  assert_int_equal(ended.generated.stop_string, 1);
  assert_memory_equal(ended.text, plain.text, ended.size);
  assert_ptr_equal(strstr(plain.text, stop), plain.text + ended.size);
  ch_generation_free(g);
  ch_model_close(model);
}

/* --- refusals ----------------------------------------------------------------------------------------------- */

static void requests_that_make_no_sense_are_refused(void **state) {
  (void)state;
  static int32_t prompt[MOST];
  ch_model *model = open_model("TinyStories-656K");
  ch_generation *g = open_generation(model, 1, 140);
  ch_generation_request good = long_request(prompt, 140), r = good;
  assert_int_equal(ch_generation_add(g, &r, NULL, &error), CH_ERROR_FULL);
  r.max_tokens = 0;
  assert_int_equal(ch_generation_add(g, &r, NULL, &error), CH_OK);
  good.prompt_count = 5;
#define REFUSED(member, value)                                                                               \
  r = good;                                                                                                  \
  r.member = value;                                                                                          \
  assert_int_equal(ch_generation_add(g, &r, NULL, &error), CH_ERROR_ARGUMENT);
  REFUSED(prompt_count, 0)
  REFUSED(choices, 0)
  REFUSED(max_tokens, -2)
  REFUSED(min_tokens, -1)
  REFUSED(top_count, 101)
  REFUSED(sampler.top_p, 2)
  REFUSED(frequency_penalty, NAN)
  const ch_logit_bias beyond = {.token = 2048};
  r = good;
  r.biases = &beyond;
  r.bias_count = 1;
  assert_int_equal(ch_generation_add(g, &r, NULL, &error), CH_ERROR_ARGUMENT);
  prompt[2] = 2048;
  assert_int_equal(ch_generation_add(g, &good, NULL, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "outside the vocabulary"));
  ch_generation_settings settings;
  ch_generation *none;
  ch_generation_defaults(&settings);
  settings.chunk = 32;
  assert_int_equal(ch_generation_create(model, &settings, &none, &error), CH_ERROR_ARGUMENT);
  settings.chunk = 128;
  settings.session.sequences = 33;
  assert_int_equal(ch_generation_create(model, &settings, &none, &error), CH_ERROR_ARGUMENT);
  ch_generation_free(g);
  ch_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_what_they_are_alone),
      cmocka_unit_test(whole_chunks_of_an_earlier_prompt_are_reused),
      cmocka_unit_test(choices_are_texts_of_their_seeds),
      cmocka_unit_test(tokens_of_a_prompt_are_scored),
      cmocka_unit_test(biases_bans_and_penalties_decide_what_is_written),
      cmocka_unit_test(a_text_ends_before_its_stop_string),
      cmocka_unit_test(requests_that_make_no_sense_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
