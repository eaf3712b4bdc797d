/* Tests sessions through the public interface: logits of all positions, uneven sequences, truncating,
 * copying, forking, progress, end tokens, text with special tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <crosshead/crosshead.h>

#define MODEL TEST_DATA "/TinyStories-656K"

enum { V = 2048, TOKENS = 24 };
static const int32_t text[TOKENS] = {1,   80,  147, 201, 282,  215,  286, 598, 629, 10,  208, 183,
                                     209, 210, 2,   990, 1726, 1061, 178, 921, 356, 819, 241, 294};

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

static ch_session *create(int64_t max_tokens, int32_t sequences) {
  ch_session_settings settings;
  ch_session *session = NULL;
  ch_session_defaults(&settings);
  settings.max_tokens = max_tokens;
  settings.sequences = sequences;
  must(ch_session_create(model, &settings, &session, &error));
  return session;
}

static void close_to(const float *got, const float *expected, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; i++) most = fmaxf(most, fabsf(expected[i]));
  for (int64_t i = 0; i < count; i++)
    if (!(fabsf(got[i] - expected[i]) <= 1e-5f * most))
      fail_msg("logit %lld is %g and should be %g", (long long)i, (double)got[i], (double)expected[i]);
}

static void logits_of_all_positions_are_those_of_feeding_one_by_one(void **state) {
  (void)state;
  enum { B = 2, N = 7 };
  ch_session *all = create(64, B), *single = create(64, 1);
  int32_t rows[B * N];
  for (int i = 0; i < B * N; i++) rows[i] = text[i];
  const float *logits, *one;
  /* A prefix shifts the positions. */
  must(ch_session_feed(all, (const int32_t[]){text[20], text[20]}, 1, &logits, &error));
  must(ch_session_feed_all(all, rows, N, &logits, &error));
  assert_int_equal(ch_session_length(all), 1 + N);
  for (int b = 0; b < B; b++) {
    ch_session_reset(single);
    must(ch_session_feed(single, &text[20], 1, &one, &error));
    for (int t = 0; t < N; t++) {
      must(ch_session_feed(single, &rows[b * N + t], 1, &one, &error));
      close_to(logits + (b * N + t) * V, one, V);
    }
  }
  ch_session_free(single);
  ch_session_free(all);
}

static void sequences_of_different_lengths_go_on_as_they_would_alone(void **state) {
  (void)state;
  enum { B = 3 };
  static const size_t lengths[B] = {3, 11, 6};
  ch_session *many = create(64, B), *alone = create(64, 1);
  float expected[B][V];
  const float *logits;
  int32_t next[B];
  for (int b = 0; b < B; b++) {
    must(ch_session_feed_one(many, b, text, lengths[b], &logits, &error));
    assert_int_equal(ch_session_sequence_length(many, b), lengths[b]);
    next[b] = text[lengths[b]];
  }
  for (int b = 0; b < B; b++) {
    ch_session_reset(alone);
    must(ch_session_feed(alone, text, lengths[b], &logits, &error));
    must(ch_session_feed(alone, &next[b], 1, &logits, &error));
    memcpy(expected[b], logits, sizeof expected[b]);
  }
  must(ch_session_step(many, B, next, &logits, &error));
  for (int b = 0; b < B; b++) assert_memory_equal(logits + b * V, expected[b], sizeof expected[b]);

  /* Fed together, each sequence continues from its own end. */
  int32_t rows[B * 4];
  for (int b = 0; b < B; b++)
    for (int t = 0; t < 4; t++) rows[b * 4 + t] = text[lengths[b] + 1 + (size_t)t];
  must(ch_session_feed(many, rows, 4, &logits, &error));
  float *together = malloc(sizeof expected);
  memcpy(together, logits, sizeof expected);
  for (int b = 0; b < B; b++) {
    assert_int_equal(ch_session_sequence_length(many, b), lengths[b] + 5);
    ch_session_reset(alone);
    must(ch_session_feed(alone, text, lengths[b] + 5, &logits, &error));
    close_to(together + b * V, logits, V);
  }
  free(together);
  ch_session_free(alone);
  ch_session_free(many);
}

static void what_does_not_fit_one_of_several_sequences_changes_none(void **state) {
  (void)state;
  ch_session *session = create(8, 2);
  const float *logits = NULL;
  must(ch_session_feed_one(session, 1, text, 6, &logits, &error));
  assert_int_equal(ch_session_feed(session, text, 3, &logits, &error), CH_ERROR_FULL);
  assert_non_null(strstr(error.message, "holds 6 of 8 tokens"));
  assert_int_equal(ch_session_feed_all(session, text, 3, &logits, &error), CH_ERROR_FULL);
  assert_int_equal(ch_session_sequence_length(session, 0), 0);
  assert_int_equal(ch_session_sequence_length(session, 1), 6);
  assert_int_equal(ch_session_feed_one(session, 2, text, 1, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_feed_one(session, -1, text, 1, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_step(session, 3, text, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_step(session, 0, text, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_feed_all(session, (const int32_t[]){1, V}, 1, &logits, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_feed_all(NULL, text, 1, &logits, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_sequence_length(session, 2), -1);
  assert_int_equal(ch_session_capacity(session), 8);
  ch_session_free(session);
}

static void a_truncated_session_goes_on_as_one_that_never_saw_the_rest(void **state) {
  (void)state;
  ch_session *session = create(64, 1), *fresh = create(64, 1);
  const float *logits;
  float expected[V];
  must(ch_session_feed(fresh, text, 5, &logits, &error));
  must(ch_session_feed(fresh, &text[9], 1, &logits, &error));
  memcpy(expected, logits, sizeof expected);
  must(ch_session_feed(session, text, 5, &logits, &error));
  must(ch_session_feed(session, text + 5, 10, &logits, &error));
  assert_int_equal(ch_session_truncate(session, 100, NULL), CH_OK);
  assert_int_equal(ch_session_length(session), 15);
  assert_int_equal(ch_session_truncate(session, 5, NULL), CH_OK);
  must(ch_session_feed(session, &text[9], 1, &logits, &error));
  assert_memory_equal(logits, expected, sizeof expected);
  assert_int_equal(ch_session_truncate(session, -3, NULL), CH_OK);
  assert_int_equal(ch_session_length(session), 0);
  ch_session_free(session);
  ch_session_free(fresh);
}

static void a_copied_prefix_is_as_good_as_a_computed_one(void **state) {
  (void)state;
  ch_session *session = create(64, 3), *alone = create(64, 1);
  const float *logits;
  float expected[V];
  must(ch_session_feed(alone, text, 9, &logits, &error));
  assert_int_equal(ch_session_truncate(alone, 6, NULL), CH_OK);
  must(ch_session_feed(alone, &text[15], 1, &logits, &error));
  memcpy(expected, logits, sizeof expected);
  must(ch_session_feed_one(session, 2, text, 9, &logits, &error));
  /* ch_session_copy replaces the tokens of sequence 0. */
  must(ch_session_feed_one(session, 0, text + 10, 12, &logits, &error));
  must(ch_session_copy(session, 2, 0, 6, &error));
  assert_int_equal(ch_session_sequence_length(session, 0), 6);
  assert_int_equal(ch_session_sequence_length(session, 2), 9);
  must(ch_session_step(session, 1, &text[15], &logits, &error));
  assert_memory_equal(logits, expected, sizeof expected);
  must(ch_session_copy(session, 2, 2, 4, &error));
  assert_int_equal(ch_session_sequence_length(session, 2), 4);
  assert_int_equal(ch_session_copy(session, 2, 1, 5, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_copy(session, 2, 3, 1, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_copy(session, -1, 1, 0, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_copy(session, 2, 1, -1, &error), CH_ERROR_ARGUMENT);
  ch_session_free(session);
  ch_session_free(alone);
}

static void forks_diverge_like_two_sessions_bit_for_bit(void **state) {
  (void)state;
  static const ch_precision types[] = {CH_PRECISION_F32, CH_PRECISION_BF16, CH_PRECISION_Q8_0};
  for (int type = 0; type < 3; type++) {
    ch_session_settings settings;
    ch_session_defaults(&settings);
    settings.max_tokens = 40;
    settings.sequences = 2;
    settings.cache = types[type];
    ch_session *first, *fork, *other[2];
    must(ch_session_create(model, &settings, &first, &error));
    const float *logits;
    must(ch_session_feed(first, text, 8, &logits, &error));
    must(ch_session_feed_one(first, 1, text + 3, 5, &logits, &error)); /* sequences of different lengths */
    must(ch_session_set_end_tokens(first, (const int32_t[]){7}, 1, &error));
    must(ch_session_fork(first, &fork, &error));
    const int32_t *ends;
    assert_int_equal(ch_session_end_tokens(fork, &ends), 1);
    assert_int_equal(ends[0], 7);
    ch_session *both[2] = {first, fork};
    for (int i = 0; i < 2; i++) {
      must(ch_session_create(model, &settings, &other[i], &error));
      must(ch_session_feed(other[i], text, 8, &logits, &error));
      must(ch_session_feed_one(other[i], 1, text + 3, 5, &logits, &error));
    }
    for (int step = 0; step < 6; step++)
      for (int i = 0; i < 2; i++) {
        const int32_t tokens[] = {text[step + 3 * i], text[12 + step - 4 * i]};
        const float *expected;
        must(ch_session_step(other[i], 2, tokens, &expected, &error));
        must(ch_session_step(both[i], 2, tokens, &logits, &error));
        assert_memory_equal(logits, expected, 2 * V * sizeof *logits);
      }
    ch_session_free(first); /* the fork outlives its origin */
    must(ch_session_step(fork, 2, text, &logits, &error));
    ch_session_free(fork);
    for (int i = 0; i < 2; i++) ch_session_free(other[i]);
  }
  assert_int_equal(ch_session_fork(NULL, NULL, &error), CH_ERROR_ARGUMENT);
}

/* --- progress ----------------------------------------------------------------------------------------------- */

typedef struct watch {
  int64_t calls, done, total, stop_at; /* the callback cancels from `stop_at` tokens on (0 = never) */
} watch;

static bool look(int64_t done, int64_t total, void *user) {
  watch *w = user;
  assert_true(done >= w->done && done <= total);
  w->calls++;
  w->done = done;
  w->total = total;
  return !w->stop_at || done < w->stop_at;
}

/* A pass reads at most 512 tokens of a prompt, so a prompt of several passes exceeds the model's context of 512. The
   sessions of this test have a larger context, which rotary positions allow. */
enum { LONG = 1700 };

static void a_long_prompt_reports_and_can_be_cancelled_and_resumed(void **state) {
  (void)state;
  ch_session *session = create(2048, 1), *plain = create(2048, 1);
  int32_t prompt[LONG];
  for (int i = 0; i < LONG; i++) prompt[i] = text[i % TOKENS];
  const float *logits = NULL, *expected;
  watch w = {.stop_at = 512};
  ch_session_set_progress(session, look, &w);
  assert_int_equal(ch_session_feed(session, prompt, LONG, &logits, &error), CH_ERROR_INTERRUPTED);
  int64_t fed = ch_session_length(session);
  assert_true(fed > 0 && fed < LONG);
  assert_int_equal(w.done, fed);
  assert_int_equal(w.total, LONG);
  assert_true(w.calls >= 1);
  w = (watch){0};
  must(ch_session_feed(session, prompt + fed, (size_t)(LONG - fed), &logits, &error));
  assert_int_equal(w.done, LONG - fed);
  assert_true(w.calls >= 1);
  must(ch_session_feed(plain, prompt, LONG, &expected, &error));
  assert_memory_equal(logits, expected, V * sizeof *logits);
  /* Cancelling after the last pass has no effect. */
  w = (watch){.stop_at = 1};
  must(ch_session_feed(session, prompt, 1, &logits, &error));
  ch_session_set_progress(session, NULL, NULL);
  must(ch_session_feed(session, prompt, 1, &logits, &error));
  assert_int_equal(w.calls, 1);
  ch_session_free(session);
  ch_session_free(plain);
}

static bool refuse(int64_t done, int64_t total, void *user) {
  int64_t *most = user;
  (void)total;
  if (done > *most) *most = done;
  return false;
}

/* With 96 sequences, even the first pass is much longer than the library's interval between progress callbacks. */
static void a_pass_that_takes_long_is_cancelled_within(void **state) {
  (void)state;
  enum { MANY = 96, LENGTH = 511 };
  ch_session *session = create(512, MANY);
  const float *logits = NULL;
  int32_t *prompts = malloc(sizeof *prompts * MANY * LENGTH);
  assert_non_null(prompts);
  for (int i = 0; i < MANY * LENGTH; i++) prompts[i] = text[i % TOKENS];
  int64_t most = 0;
  ch_session_set_progress(session, refuse, &most);
  assert_int_equal(ch_session_feed(session, prompts, LENGTH, &logits, &error), CH_ERROR_INTERRUPTED);
  assert_true(most < LENGTH);
  assert_int_equal(ch_session_length(session), 0);
  assert_non_null(strstr(error.message, "after 0 of 511 tokens"));
  free(prompts);
  ch_session_free(session);
}

static void a_generation_reports_its_prompt_and_stops_there(void **state) {
  (void)state;
  ch_session *session = create(2048, 1);
  int32_t prompt[LONG];
  for (int i = 0; i < LONG; i++) prompt[i] = text[i % TOKENS];
  watch w = {.stop_at = 600};
  ch_session_set_progress(session, look, &w);
  ch_batch_text wanted = {.prompt_tokens = prompt, .prompt_token_count = LONG, .max_tokens = 3};
  must(ch_generate_text(session, &wanted, &error));
  assert_int_equal(wanted.generated.end, CH_END_STOPPED);
  assert_int_equal(wanted.generated.tokens, 0);
  assert_true(wanted.generated.prompt_tokens >= 600 && wanted.generated.prompt_tokens < LONG);
  assert_int_equal(wanted.generated.prompt_tokens, ch_session_length(session));
  ch_session_reset(session);
  w = (watch){0};
  must(ch_generate_text(session, &wanted, &error));
  assert_int_equal(w.done, LONG);
  assert_int_equal(w.total, LONG);
  assert_int_equal(wanted.generated.tokens, 3);
  ch_session_free(session);
}

/* --- end tokens and special tokens -------------------------------------------------------------------------- */

static void end_tokens_are_those_of_the_model_until_they_are_set(void **state) {
  (void)state;
  ch_session *session = create(64, 1);
  const int32_t *own, *of_model;
  size_t count = ch_model_end_tokens(model, &of_model);
  assert_true(count >= 1);
  assert_int_equal(ch_session_end_tokens(session, &own), count);
  assert_memory_equal(own, of_model, count * sizeof *own);

  /* The ninth token of the greedy text becomes an end token. */
  static const int32_t greedy[] = {208, 183, 209, 210, 2, 990, 1726, 1061, 178};
  ch_sampler sampler;
  ch_sampler_defaults(&sampler, 0);
  sampler.temperature = 0;
  must(ch_session_set_end_tokens(session, &greedy[8], 1, &error));
  ch_batch_text wanted = {.prompt_tokens = text, .prompt_token_count = 10, .sampler = &sampler};
  must(ch_generate_text(session, &wanted, &error));
  assert_int_equal(wanted.generated.end, CH_END_TOKEN);
  assert_int_equal(wanted.generated.tokens, 8);

  ch_session_reset(session);
  must(ch_session_set_end_tokens(session, NULL, 0, &error));
  must(ch_generate_text(session, &wanted, &error));
  assert_int_equal(wanted.generated.end, CH_END_FULL);
  int32_t many[17] = {0};
  assert_int_equal(ch_session_set_end_tokens(session, many, 17, &error), CH_ERROR_ARGUMENT);
  many[3] = V;
  assert_int_equal(ch_session_set_end_tokens(session, many, 4, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_session_end_tokens(session, &own), 0);
  ch_session_free(session);
}

static void special_tokens_are_read_and_left_out_on_request(void **state) {
  (void)state;
  const int32_t special = ch_token_id(model, "<|end_story|>");
  assert_int_equal(special, 2);
  assert_true(ch_token_is_special(model, special));
  assert_false(ch_token_is_special(model, text[5]));
  char *spelling;
  size_t size;
  must(ch_decode(model, &special, 1, &spelling, &size, &error));
  assert_true(size > 1);
  assert_int_equal(ch_token_id(model, spelling), special);
  assert_int_equal(ch_token_id(model, "no such token"), -1);
  assert_false(ch_token_is_special(model, -1));

  char line[200];
  int length = snprintf(line, sizeof line, "%sOne day", spelling);
  int32_t plain[64], read[64];
  size_t plain_count, read_count;
  must(ch_encode_text(model, line, (size_t)length, CH_TEXT_BEGINS, plain, 64, &plain_count, &error));
  must(ch_encode_text(model, line, (size_t)length, CH_TEXT_BEGINS | CH_TEXT_SPECIAL, read, 64, &read_count,
                      &error));
  assert_true(read_count < plain_count);
  assert_int_equal(read[0], 1); /* the beginning-of-text token */
  assert_int_equal(read[1], special);
  for (size_t i = 0; i < plain_count; i++) assert_int_not_equal(plain[i], special);

  char *with, *without;
  must(ch_decode_tokens(model, read, read_count, 0, &with, &size, &error));
  assert_non_null(strstr(with, spelling));
  must(ch_decode_tokens(model, read, read_count, CH_TEXT_NO_SPECIAL, &without, &size, &error));
  assert_null(strstr(without, spelling));
  assert_non_null(strstr(without, "One day"));
  ch_free(with);
  ch_free(without);
  ch_free(spelling);
  assert_int_equal(ch_decode_tokens(model, read, 1, CH_TEXT_SPECIAL, &with, &size, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(ch_encode_text(model, line, 1, 64, read, 64, &read_count, &error), CH_ERROR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_of_all_positions_are_those_of_feeding_one_by_one),
      cmocka_unit_test(sequences_of_different_lengths_go_on_as_they_would_alone),
      cmocka_unit_test(what_does_not_fit_one_of_several_sequences_changes_none),
      cmocka_unit_test(a_truncated_session_goes_on_as_one_that_never_saw_the_rest),
      cmocka_unit_test(a_copied_prefix_is_as_good_as_a_computed_one),
      cmocka_unit_test(forks_diverge_like_two_sessions_bit_for_bit),
      cmocka_unit_test(a_long_prompt_reports_and_can_be_cancelled_and_resumed),
      cmocka_unit_test(a_pass_that_takes_long_is_cancelled_within),
      cmocka_unit_test(a_generation_reports_its_prompt_and_stops_there),
      cmocka_unit_test(end_tokens_are_those_of_the_model_until_they_are_set),
      cmocka_unit_test(special_tokens_are_read_and_left_out_on_request),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
