/* Tests writing texts through the public interface: stop strings across token boundaries, why a text ends,
 * probabilities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <crosshead/crosshead.h>

#define MODEL TEST_DATA "/TinyStories-656K"

enum { V = 2048, LENGTH = 60, MOST_TEXT = 4096 };
static const char prompt[] = "Once upon a time, there was a little girl named Lily.";

static ch_error error;
static ch_model *model;
static ch_session *session;

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static int open_model(void **state) {
  (void)state;
  bool open = ch_model_open(MODEL, &model, &error) == CH_OK;
  if (!open || ch_session_create(model, NULL, &session, &error) != CH_OK) return -1;
  /* Without end tokens, stories reach the limit. */
  return ch_session_set_end_tokens(session, NULL, 0, &error) == CH_OK ? 0 : -1;
}

static int close_model(void **state) {
  (void)state;
  ch_session_free(session);
  ch_model_close(model);
  return 0;
}

/* The output of a text's sinks. */
typedef struct page {
  char text[MOST_TEXT];
  size_t size;
  int32_t tokens[LENGTH + 1];
  double log_probability[LENGTH + 1];
  ch_token_probability top[LENGTH + 1][5];
  int32_t count, top_count, stop_after; /* the token sink stops after `stop_after` tokens (0 = never) */
} page;

static bool collect(const char *text, size_t size, void *user) {
  page *p = user;
  assert_true(size > 0 && p->size + size < MOST_TEXT);
  memcpy(p->text + p->size, text, size);
  p->size += size;
  p->text[p->size] = 0;
  return true;
}

static bool note(const ch_token_probability *token, const ch_token_probability *top, int32_t top_count,
                 void *user) {
  page *p = user;
  assert_true(p->count <= LENGTH);
  p->tokens[p->count] = token->token;
  p->log_probability[p->count] = token->log_probability;
  for (int32_t i = 0; i < top_count; i++) p->top[p->count][i] = top[i];
  p->top_count = top_count;
  p->count++;
  return !p->stop_after || p->count < p->stop_after;
}

/* Writes the likeliest tokens after the prompt; `text` has the other options. */
static ch_status write_greedy(ch_batch_text *text, page *p) {
  ch_sampler greedy;
  ch_sampler_defaults(&greedy, 0);
  greedy.temperature = 0;
  memset(p, 0, offsetof(page, stop_after));
  text->prompt = prompt;
  text->max_tokens = LENGTH;
  text->sampler = &greedy;
  text->sink = collect;
  text->token_sink = note;
  text->user = p;
  ch_session_reset(session);
  return ch_generate_text(session, text, &error);
}

/* --- stop strings ------------------------------------------------------------------------------------------- */

/* Uses pieces of the beginning of a text as stop strings. Most begin and end inside tokens and span several. */
static void the_text_ends_before_a_stop_string_wherever_tokens_part(void **state) {
  (void)state;
  static page whole, cut;
  ch_batch_text text = {0};
  must(write_greedy(&text, &whole));
  assert_int_equal(text.generated.end, CH_END_LIMIT);
  assert_int_equal(text.generated.stop_string, -1);
  assert_true(whole.size > 100);
  for (size_t begin = 0; begin < 60; begin += 1) {
    for (size_t length = 1; length <= 13; length += 4) {
      char stop[16] = {0};
      memcpy(stop, whole.text + begin, length);
      const char *stops[] = {"this is nowhere", stop};
      ch_batch_text stopped = {.stops = stops, .stop_count = 2};
      must(write_greedy(&stopped, &cut));
      size_t expected = (size_t)(strstr(whole.text, stop) - whole.text);
      if (cut.size != expected || memcmp(cut.text, whole.text, expected) != 0)
        fail_msg("stopped by \"%s\" the text is \"%s\"", stop, cut.text);
      assert_int_equal(stopped.generated.end, CH_END_STRING);
      assert_int_equal(stopped.generated.stop_string, 1);
      assert_int_equal(stopped.status, CH_OK);
      /* The session contains the prompt and all tokens up to the one that completed the string. */
      assert_int_equal(stopped.generated.tokens, cut.count);
      assert_int_equal(ch_session_length(session),
                       stopped.generated.prompt_tokens + stopped.generated.tokens);
      char *held;
      size_t size;
      must(ch_decode(model, cut.tokens, (size_t)cut.count, &held, &size, &error));
      assert_non_null(strstr(held, stop));
      ch_free(held);
      must(ch_decode(model, cut.tokens, (size_t)cut.count - 1, &held, &size, &error));
      assert_null(strstr(held, stop));
      ch_free(held);
    }
  }
}

static void what_only_begins_a_stop_string_is_written_in_the_end(void **state) {
  (void)state;
  static page whole, held;
  ch_batch_text text = {0};
  must(write_greedy(&text, &whole));
  char stop[64];
  strcpy(stop, whole.text + whole.size - 5); /* the last bytes and a continuation that does not come */
  strcat(stop, "~");
  const char *stops[] = {stop};
  ch_batch_text asked = {.stops = stops, .stop_count = 1};
  must(write_greedy(&asked, &held));
  assert_int_equal(asked.generated.end, CH_END_LIMIT);
  assert_string_equal(held.text, whole.text);
}

static void of_several_stop_strings_the_one_completed_first_counts(void **state) {
  (void)state;
  static page whole, cut;
  ch_batch_text text = {0};
  must(write_greedy(&text, &whole));
  char late[32] = {0}, early[32] = {0}, longer[32] = {0};
  memcpy(late, whole.text + 10, 20);  /* begins first, ends last */
  memcpy(early, whole.text + 14, 6);  /* ends first */
  memcpy(longer, whole.text + 12, 8); /* ends with `early` and begins before it */
  const char *stops[] = {late, early, longer};
  ch_batch_text asked = {.stops = stops, .stop_count = 2};
  must(write_greedy(&asked, &cut));
  assert_int_equal(asked.generated.stop_string, 1);
  assert_int_equal(cut.size, strstr(whole.text, early) - whole.text);
  asked = (ch_batch_text){.stops = stops, .stop_count = 3};
  must(write_greedy(&asked, &cut));
  assert_int_equal(asked.generated.stop_string, 2);
  assert_int_equal(cut.size, strstr(whole.text, longer) - whole.text);
  /* A text without a sink ends at the stop string too. */
  ch_sampler greedy;
  ch_sampler_defaults(&greedy, 0);
  greedy.temperature = 0;
  asked = (ch_batch_text){.prompt = prompt, .sampler = &greedy, .stops = stops, .stop_count = 3};
  ch_session_reset(session);
  must(ch_generate_text(session, &asked, &error));
  assert_int_equal(asked.generated.end, CH_END_STRING);
}

static void texts_of_a_batch_have_their_own_stop_strings(void **state) {
  (void)state;
  static page whole, pages[3];
  ch_batch_text text = {0};
  must(write_greedy(&text, &whole));
  static char stop[3][8];
  static const char *stops[3];
  ch_batch_text texts[3] = {{0}};
  ch_sampler greedy[3];
  for (int i = 0; i < 3; i++) {
    memcpy(stop[i], whole.text + 11 + 17 * i, 5);
    stops[i] = stop[i];
    ch_sampler_defaults(&greedy[i], 0);
    greedy[i].temperature = 0;
    memset(&pages[i], 0, sizeof pages[i]);
    texts[i] = (ch_batch_text){.prompt = prompt,
                               .max_tokens = LENGTH,
                               .sampler = &greedy[i],
                               .sink = collect,
                               .token_sink = note,
                               .top_count = i,
                               .user = &pages[i],
                               .stops = &stops[i],
                               .stop_count = i < 2};
  }
  ch_session_settings settings;
  ch_session *batch;
  ch_session_defaults(&settings);
  settings.sequences = 2;
  must(ch_session_create(model, &settings, &batch, &error));
  must(ch_session_set_end_tokens(batch, NULL, 0, &error));
  must(ch_generate_batch(batch, texts, 3, &error));
  for (int i = 0; i < 2; i++) {
    assert_int_equal(texts[i].generated.end, CH_END_STRING);
    assert_int_equal(pages[i].size, strstr(whole.text, stop[i]) - whole.text);
    assert_memory_equal(pages[i].text, whole.text, pages[i].size);
    assert_int_equal(pages[i].top_count, i);
  }
  assert_int_equal(texts[2].generated.end, CH_END_LIMIT);
  assert_string_equal(pages[2].text, whole.text);
  assert_memory_equal(pages[2].log_probability, whole.log_probability, sizeof whole.log_probability);
  ch_session_free(batch);
}

/* --- why a text ends ---------------------------------------------------------------------------------------- */

static void a_text_says_why_it_ended(void **state) {
  (void)state;
  static page p;
  p.stop_after = 4;
  ch_batch_text text = {0};
  must(write_greedy(&text, &p));
  assert_int_equal(text.generated.end, CH_END_STOPPED);
  assert_int_equal(text.generated.tokens, 4);
  assert_int_equal(p.count, 4);
  p.stop_after = 0;
  must(write_greedy(&text, &p));
  assert_int_equal(text.generated.end, CH_END_LIMIT);
  text.max_tokens = 0;
  ch_session_reset(session);
  ch_session_settings settings;
  ch_session *small;
  ch_session_defaults(&settings);
  settings.max_tokens = 20;
  must(ch_session_create(model, &settings, &small, &error));
  must(ch_session_set_end_tokens(small, NULL, 0, &error));
  memset(&p, 0, sizeof p);
  text.sampler = NULL;
  must(ch_generate_text(small, &text, &error));
  assert_int_equal(text.generated.end, CH_END_FULL);
  assert_int_equal(ch_session_length(small), 20);
  ch_session_free(small);
  assert_string_equal(ch_end_name(CH_END_STRING), "stop string");
  assert_string_equal(ch_end_name(CH_END_TOKEN), "end");
  assert_string_equal(ch_end_name((ch_end)99), "unknown");
}

static void prompts_of_tokens_and_of_special_tokens_are_the_same_as_text(void **state) {
  (void)state;
  static page whole, p;
  ch_batch_text text = {0};
  must(write_greedy(&text, &whole));
  int32_t tokens[64];
  size_t count;
  must(ch_encode(model, prompt, strlen(prompt), true, tokens, 64, &count, &error));
  ch_sampler greedy;
  ch_sampler_defaults(&greedy, 0);
  greedy.temperature = 0;
  memset(&p, 0, sizeof p);
  ch_batch_text from_tokens = {.prompt_tokens = tokens,
                               .prompt_token_count = count,
                               .max_tokens = LENGTH,
                               .sampler = &greedy,
                               .sink = collect,
                               .user = &p};
  ch_session_reset(session);
  must(ch_generate_text(session, &from_tokens, &error));
  assert_string_equal(p.text, whole.text);

  ch_batch_text special = {.prompt = "<|end_story|>One day", .prompt_special = true, .max_tokens = 1};
  ch_batch_text plain = {.prompt = "<|end_story|>One day", .max_tokens = 1};
  ch_session_reset(session);
  must(ch_generate_text(session, &special, &error));
  ch_session_reset(session);
  must(ch_generate_text(session, &plain, &error));
  assert_true(special.generated.prompt_tokens < plain.generated.prompt_tokens);
}

static void impossible_wishes_are_refused_before_anything_is_fed(void **state) {
  (void)state;
  const char *empty[] = {"end", ""}, *broken[] = {"\xff"};
  const int32_t token = 5;
  ch_batch_text wishes[] = {
      {.prompt = prompt, .stops = empty, .stop_count = 2},
      {.prompt = prompt, .stops = broken, .stop_count = 1},
      {.prompt = prompt, .stops = NULL, .stop_count = 1},
      {.prompt = prompt, .stop_count = -1},
      {.prompt = prompt, .top_count = 101},
      {.prompt = prompt, .top_count = -1},
      {.prompt = prompt, .max_tokens = -1},
      {.prompt = prompt, .prompt_tokens = &token, .prompt_token_count = 1},
      {.prompt_tokens = &token},
      {.prompt = NULL},
  };
  ch_session_reset(session);
  for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
    *error.message = 0;
    if (ch_generate_text(session, &wishes[i], &error) != CH_ERROR_ARGUMENT)
      fail_msg("wish %zu is granted", i);
    assert_true(*error.message);
    assert_int_equal(ch_session_length(session), 0);
  }
}

/* --- probabilities ------------------------------------------------------------------------------------------ */

/* Returns the log probability of a token by a plain softmax. */
static double plain_log_probability(const float *logits, int32_t token) {
  long double sum = 0;
  for (int i = 0; i < V; i++) sum += expl((long double)logits[i] - (long double)logits[token]);
  return (double)-logl(sum);
}

static void tokens_come_with_their_log_probabilities_and_the_likeliest(void **state) {
  (void)state;
  static page p;
  ch_sampler sampler;
  ch_sampler_defaults(&sampler, 11);
  sampler.temperature = 1.5; /* reported probabilities are before temperature and top-k */
  sampler.top_k = 50;
  memset(&p, 0, sizeof p);
  ch_batch_text text = {.prompt = prompt,
                        .max_tokens = 30,
                        .sampler = &sampler,
                        .token_sink = note,
                        .top_count = 5,
                        .user = &p};
  ch_session_reset(session);
  must(ch_generate_text(session, &text, &error));
  assert_int_equal(p.count, 30);
  int32_t tokens[64];
  size_t count;
  must(ch_encode(model, prompt, strlen(prompt), true, tokens, 64, &count, &error));
  const float *logits;
  ch_session_reset(session);
  must(ch_session_feed(session, tokens, count, &logits, &error));
  for (int i = 0; i < p.count; i++) {
    assert_true(fabs(p.log_probability[i] - plain_log_probability(logits, p.tokens[i])) < 1e-9);
    double own;
    must(ch_log_probability(logits, V, p.tokens[i], &own, &error));
    assert_true(own == p.log_probability[i]);
    for (int k = 0; k < 5; k++) {
      int32_t id = p.top[i][k].token, before = 0;
      for (int32_t v = 0; v < V; v++) before += logits[v] > logits[id] || (logits[v] == logits[id] && v < id);
      assert_int_equal(before, k);
      assert_true(fabs(p.top[i][k].log_probability - plain_log_probability(logits, id)) < 1e-9);
    }
    must(ch_session_feed(session, &p.tokens[i], 1, &logits, &error));
  }
}

static bool refuse(const char *text, size_t size, void *user) {
  (void)text, (void)size, (void)user;
  return false;
}

/* Checks that text.ids receives the ids that the token sink got, and that a second call appends to them. */
static void the_ids_of_a_text_are_kept_for_those_who_ask(void **state) {
  (void)state;
  enum { COUNT = 12 };
  page p = {0};
  ch_ids ids = {0};
  ch_batch_text text = {.prompt = prompt, .max_tokens = COUNT, .token_sink = note, .user = &p, .ids = &ids};
  ch_session_reset(session);
  must(ch_generate_text(session, &text, &error));
  assert_int_equal(ids.size, COUNT);
  assert_int_equal(p.count, COUNT);
  assert_memory_equal(ids.data, p.tokens, COUNT * sizeof *p.tokens);
  must(ch_generate_text(session, &text, &error)); /* appends to `ids` */
  assert_int_equal(ids.size, 2 * COUNT);
  assert_memory_equal(ids.data + COUNT, p.tokens + COUNT, COUNT * sizeof *p.tokens);
  ids.size = 0;
  text = (ch_batch_text){.prompt = prompt, .max_tokens = COUNT, .sink = refuse, .ids = &ids};
  ch_session_reset(session);
  must(ch_generate_text(session, &text, &error));
  assert_int_equal(text.generated.end, CH_END_STOPPED);
  assert_int_equal(ids.size, text.generated.tokens);
  ch_session_reset(session);
  ch_ids_free(&ids);
}

static void the_likeliest_tokens_are_in_order_whatever_the_logits(void **state) {
  (void)state;
  enum { N = 23 };
  float logits[N];
  uint32_t random = 1;
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < N; i++) { /* few different values: many ties */
      random = random * 1664525u + 1013904223u;
      logits[i] = (float)(random >> 29);
    }
    for (int32_t count = 1; count <= N; count++) {
      ch_token_probability top[N];
      must(ch_top_tokens(logits, N, top, count, &error));
      for (int32_t k = 0; k < count; k++) {
        int32_t before = 0, id = top[k].token;
        for (int32_t v = 0; v < N; v++)
          before += logits[v] > logits[id] || (logits[v] == logits[id] && v < id);
        assert_int_equal(before, k);
      }
    }
  }
  ch_token_probability top[N];
  double log_probability;
  assert_int_equal(ch_top_tokens(logits, N, top, 0, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_top_tokens(logits, N, top, N + 1, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_log_probability(logits, N, N, &log_probability, &error), CH_ERROR_ARGUMENT);
  logits[7] = NAN;
  assert_int_equal(ch_log_probability(logits, N, 0, &log_probability, &error), CH_ERROR_NUMERIC);
  logits[7] = INFINITY;
  assert_int_equal(ch_top_tokens(logits, N, top, 1, &error), CH_ERROR_NUMERIC);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_text_ends_before_a_stop_string_wherever_tokens_part),
      cmocka_unit_test(what_only_begins_a_stop_string_is_written_in_the_end),
      cmocka_unit_test(of_several_stop_strings_the_one_completed_first_counts),
      cmocka_unit_test(texts_of_a_batch_have_their_own_stop_strings),
      cmocka_unit_test(a_text_says_why_it_ended),
      cmocka_unit_test(prompts_of_tokens_and_of_special_tokens_are_the_same_as_text),
      cmocka_unit_test(impossible_wishes_are_refused_before_anything_is_fed),
      cmocka_unit_test(tokens_come_with_their_log_probabilities_and_the_likeliest),
      cmocka_unit_test(the_ids_of_a_text_are_kept_for_those_who_ask),
      cmocka_unit_test(the_likeliest_tokens_are_in_order_whatever_the_logits),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
