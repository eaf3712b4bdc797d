/* Checks steps of sequences of different lengths: each sequence has the logits that it has alone, bit for bit. With an
 * embedding gate they are equal within rounding, because sequences share the products of common ids. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/session.h"
#include "properties.h"

enum { TEXTS = 4, STEPS = 2 };

static ch_session *open_session(const specimen *s, int64_t sequences, ch_dtype dtype, bool precompute) {
  ch_session_options options = {.sequences = sequences,
                                .context = s->length,
                                .chunk = s->length,
                                .cache = ch_cache_of(dtype),
                                .precompute_gates = precompute};
  ch_session *session = NULL;
  ch_error error = {0};
  if (ch_session_new(&s->config, &s->params, s->narrow, &options, &session, &error) != CH_OK)
    complain(s, "%s", error.message);
  return session;
}

/* Returns token t of text i: the specimen's tokens, with a different start for each text. */
static int32_t token_of(const specimen *s, int64_t i, int64_t t) {
  return s->tokens[(7 * i + t) % (s->sequences * s->length)];
}

/* Returns the length of text i before decoding: from one token to all but STEPS. */
static int64_t length_of(const specimen *s, int64_t i) {
  return 1 + i * (s->length - 1 - STEPS) / (TEXTS - 1);
}

static bool went_well(const specimen *s, ch_status status, const ch_error *error) {
  if (status != CH_OK) complain(s, "%s", error->message);
  return status == CH_OK;
}

static bool feed_text(const specimen *s, ch_session *session, int64_t place, int64_t i) {
  int64_t length = length_of(s, i);
  int32_t *tokens = malloc((size_t)length * sizeof *tokens);
  for (int64_t t = 0; t < length; t++) tokens[t] = token_of(s, i, t);
  const float *logits;
  ch_error error = {0};
  bool fed = went_well(s, ch_session_feed_one(session, place, tokens, length, &logits, &error), &error);
  free(tokens);
  return fed;
}

/* Computes the logits of every text alone: [TEXTS, STEPS, vocab]. */
static bool alone(const specimen *s, ch_dtype dtype, bool precompute, float *logits) {
  ch_session *session = open_session(s, 1, dtype, precompute);
  bool fed = session;
  for (int64_t i = 0; fed && i < TEXTS; i++) {
    assert_int_equal(ch_session_truncate(session, 0, NULL), CH_OK);
    fed = feed_text(s, session, 0, i);
    for (int64_t step = 0; fed && step < STEPS; step++) {
      int32_t token = token_of(s, i, length_of(s, i) + step);
      const float *values;
      ch_error error = {0};
      fed = went_well(s, ch_session_step(session, 1, &token, &values, &error), &error);
      if (fed) memcpy(logits + (i * STEPS + step) * s->vocab, values, (size_t)s->vocab * sizeof *values);
    }
  }
  ch_session_free(session);
  return fed;
}

static bool same_logits(const specimen *s, const float *got, const float *expected) {
  if (!s->config.attention.gate_embedding_dim)
    return memcmp(got, expected, (size_t)s->vocab * sizeof *got) == 0;
  float largest = 0, difference = 0;
  for (int64_t i = 0; i < s->vocab; i++) {
    largest = fmaxf(largest, fabsf(expected[i]));
    difference = fmaxf(difference, fabsf(got[i] - expected[i]));
  }
  return difference <= 1e-5f * largest;
}

/* Runs one step of the texts `text` in `count` sequences of the session: the first ones, or those in `places`.
   Complains and returns false if a text's logits are not those in `expected`, or if the step fails. */
static bool step_together(const specimen *s, ch_session *session, const int32_t *places, const int64_t *text,
                          int64_t count, int64_t step, const float *expected) {
  int32_t tokens[TEXTS];
  const float *values;
  ch_error error = {0};
  for (int64_t p = 0; p < count; p++) tokens[p] = token_of(s, text[p], length_of(s, text[p]) + step);
  ch_status status = places ? ch_session_step_some(session, places, count, tokens, &values, &error)
                            : ch_session_step(session, count, tokens, &values, &error);
  if (!went_well(s, status, &error)) return false;
  for (int64_t p = 0; p < count; p++)
    if (!same_logits(s, values + p * s->vocab, expected + (text[p] * STEPS + step) * s->vocab)) {
      complain(s, "cache %s: step %d of text %d, %d tokens long, differs beside %d others",
               ch_dtype_name(ch_session_cache(session)->views[0][0].dtype), (int)step, (int)text[p],
               (int)length_of(s, text[p]), (int)count - 1);
      return false;
    }
  return true;
}

static void check_with(const specimen *s, ch_dtype dtype, bool precompute) {
  float *expected = calloc((size_t)(TEXTS * STEPS * s->vocab), sizeof *expected);
  ch_session *session = open_session(s, TEXTS, dtype, precompute);
  bool fed = session && alone(s, dtype, precompute, expected);
  for (int64_t i = 0; fed && i < TEXTS; i++) fed = feed_text(s, session, i, i);
  int64_t text[TEXTS] = {0, 1, 2, 3};
  ch_session *fork = NULL;
  ch_error error = {0};
  fed = fed && went_well(s, ch_session_fork(session, &fork, &error), &error);
  fed = fed && step_together(s, session, NULL, text, TEXTS, 0, expected);
  /* The steps of the session must not affect its fork. */
  fed = fed && step_together(s, fork, (int32_t[]){2, 0, 3, 1}, (int64_t[]){2, 0, 3, 1}, TEXTS, 0, expected);
  /* Text 1 has ended. The others stay in their places. */
  if (fed) fed = step_together(s, fork, (int32_t[]){3, 0, 2}, (int64_t[]){3, 0, 2}, TEXTS - 1, 1, expected);
  ch_session_free(fork);
  if (fed) { /* text 1 has ended, and text 3 moves into its place */
    text[1] = 3;
    if (went_well(s, ch_session_copy(session, 3, 1, length_of(s, 3) + 1, &error), &error))
      step_together(s, session, NULL, text, TEXTS - 1, 1, expected);
  }
  ch_session_free(session);
  free(expected);
}

void check_uneven_batch(laboratory *lab, const specimen *s) {
  (void)lab;
  static const ch_dtype dtypes[] = {CH_F32, CH_BF16, CH_Q8_0, CH_Q4_0};
  if (s->length < STEPS + 1) return;
  for (int i = 0; i < 4; i++) check_with(s, dtypes[i], false);
  if (s->config.attention.gate_embedding_dim) check_with(s, CH_F32, true);
}
