/* Checks decoding through the cache in F32: the logits do not depend on the steps in which tokens are fed. Also checks
 * rewinding, the operations of a decoding step, and caches of every type that are filled without computing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"
#include "infer/session.h"
#include "properties.h"

ch_session *specimen_session(const specimen *s, int64_t sequences, int64_t chunk, ch_dtype dtype) {
  ch_session_options options = {
      .sequences = sequences, .context = s->length, .chunk = chunk, .cache = ch_cache_of(dtype)};
  ch_session *session = NULL;
  ch_error error = {0};
  if (ch_session_new(&s->config, &s->params, s->narrow, &options, &session, &error) != CH_OK)
    complain(s, "%s", error.message);
  return session;
}

bool feed_tokens(const specimen *s, ch_session *session, int64_t b, int64_t n, int64_t first, int64_t count,
                 double *logits) {
  int32_t *tokens = calloc((size_t)(n * count), sizeof *tokens);
  for (int64_t i = 0; i < n; i++)
    memcpy(tokens + i * count, s->tokens + (b + i) * s->length + first, (size_t)count * sizeof *tokens);
  const float *values = NULL;
  ch_error error = {0};
  ch_status status = ch_session_feed_all(session, tokens, count, &values, &error);
  free(tokens);
  if (status != CH_OK) {
    complain(s, "tokens %lld to %lld: %s", (long long)first, (long long)(first + count - 1), error.message);
    return false;
  }
  for (int64_t i = 0; i < n; i++)
    for (int64_t e = 0; e < count * s->vocab; e++)
      logits[((b + i) * s->length + first) * s->vocab + e] = (double)values[i * count * s->vocab + e];
  return true;
}

static int64_t logit_count(const specimen *s) {
  return s->sequences * s->length * s->vocab;
}

/* Returns the logits of one whole pass without a cache. */
static double *whole_pass(laboratory *lab, const specimen *s) {
  ch_model_graph shape = specimen_shape(s, CH_F32, CH_HEAD_LOGITS);
  return specimen_run(s, &lab->narrow, &shape, s->narrow, s->tokens, NULL, logit_count(s));
}

void check_cached(laboratory *lab, const specimen *s) {
  double *whole = whole_pass(lab, s), *logits = malloc((size_t)logit_count(s) * sizeof *logits);
  const int64_t splits[] = {s->length > 64 ? s->length - 9 : 1, s->length / 2, s->length - 1, s->length};
  ch_session *session = specimen_session(s, s->sequences, s->length, CH_F32);
  for (int i = 0; session && i < 4; i++) {
    if (splits[i] < 1) continue;
    assert_int_equal(ch_session_truncate(session, 0, NULL), CH_OK);
    bool fed = feed_tokens(s, session, 0, s->sequences, 0, splits[i], logits);
    for (int64_t t = splits[i]; fed && t < s->length; t++)
      fed = feed_tokens(s, session, 0, s->sequences, t, 1, logits);
    if (fed) expect_near(s, "logits through the cache", logit_count(s), logits, whole, s->largest, 5e-5);
  }
  ch_session_free(session);
  free(logits);
  free(whole);
}

/* Feeds all tokens in one call, which divides them into the session's chunks and returns only the last logits. */
static void check_last_logits(const specimen *s, ch_session *session, const double *whole) {
  const float *last = NULL;
  ch_error error = {0};
  assert_int_equal(ch_session_truncate(session, 0, NULL), CH_OK);
  if (ch_session_feed(session, s->tokens, s->length, &last, &error) != CH_OK) {
    complain(s, "%s", error.message);
    return;
  }
  for (int64_t b = 0; b < s->sequences; b++) {
    double *values = widened(last + b * s->vocab, s->vocab);
    expect_near(s, "last logits of a prefill in chunks", s->vocab, values,
                whole + ((b + 1) * s->length - 1) * s->vocab, s->largest, 5e-5);
    free(values);
  }
}

void check_chunks(laboratory *lab, const specimen *s) {
  double *whole = whole_pass(lab, s), *logits = malloc((size_t)logit_count(s) * sizeof *logits);
  static const int64_t small[] = {1, 3, 5}, large[] = {7, 64, 65};
  const int64_t *chunks = s->length > 64 ? large : small;
  for (int i = 0; whole && i < 3; i++) {
    ch_session *session = specimen_session(s, s->sequences, chunks[i], CH_F32);
    bool fed = session;
    for (int64_t t = 0; fed && t < s->length; t += chunks[i]) {
      int64_t count = s->length - t < chunks[i] ? s->length - t : chunks[i];
      fed = feed_tokens(s, session, 0, s->sequences, t, count, logits);
    }
    if (fed) {
      expect_near(s, "logits of a prefill in chunks", logit_count(s), logits, whole, s->largest, 5e-5);
      check_last_logits(s, session, whole);
    }
    ch_session_free(session);
  }
  free(logits);
  free(whole);
}

/* Checks that layers with a state of constant size cannot rewind, but can start over. */
static void check_refused_rewinding(const specimen *s, double *logits) {
  ch_session *session = specimen_session(s, s->sequences, s->length, CH_F32);
  ch_error error = {0};
  if (session && feed_tokens(s, session, 0, s->sequences, 0, 3, logits)) {
    assert_int_equal(ch_session_truncate(session, 2, &error), CH_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "linear attention only keep the state"));
    assert_int_equal(ch_session_length(session), 3);
    assert_int_equal(ch_session_truncate(session, 3, &error), CH_OK);
    assert_int_equal(ch_session_truncate(session, 0, &error), CH_OK);
  }
  ch_session_free(session);
}

/* Checks that full rings go back by one token and by no more, and again after that token is fed. */
static void check_rewinding_rings(laboratory *lab, const specimen *s) {
  const int64_t last = s->length - 1;
  if (ch_window_and_sinks(&s->config) >= s->length || s->config.sliding_window < 2) return;
  double *whole = whole_pass(lab, s), *logits = malloc((size_t)logit_count(s) * sizeof *logits);
  ch_session *session = specimen_session(s, s->sequences, s->length, CH_F32);
  ch_error error = {0};
  if (session && feed_tokens(s, session, 0, s->sequences, 0, s->length, logits)) {
    for (int i = 0; i < 2; i++) {
      assert_int_equal(ch_session_truncate(session, last, &error), CH_OK);
      assert_int_equal(ch_session_truncate(session, last - 1, &error), CH_ERROR_ARGUMENT);
      assert_non_null(strstr(error.message, "only keep the last"));
      assert_int_equal(ch_session_length(session), last);
      if (!feed_tokens(s, session, 0, s->sequences, last, 1, logits)) break;
      expect_near(s, "logits after rewinding a ring", logit_count(s), logits, whole, s->largest, 5e-5);
    }
    assert_int_equal(ch_session_truncate(session, 0, &error), CH_OK);
  }
  ch_session_free(session);
  free(logits);
  free(whole);
}

/* Checks that logits decoded after a truncation do not depend on the removed tokens. */
void check_rewinding(laboratory *lab, const specimen *s) {
  if (s->length >= 4 && ch_linear_layers(&s->config)) {
    double *logits = malloc((size_t)logit_count(s) * sizeof *logits);
    check_refused_rewinding(s, logits);
    free(logits);
    return;
  }
  if (s->length < 4) return;
  if (ch_any_layer_slides(&s->config)) {
    check_rewinding_rings(lab, s);
    return;
  }
  int64_t kept = s->length / 2, count = s->sequences * s->length;
  double *whole = whole_pass(lab, s), *logits = malloc((size_t)logit_count(s) * sizeof *logits);
  specimen other = *s; /* a specimen with other tokens in the second half */
  other.tokens = malloc((size_t)count * sizeof *other.tokens);
  for (int64_t i = 0; i < count; i++)
    other.tokens[i] = i % s->length < kept ? s->tokens[i] : (int32_t)((s->tokens[i] + 1) % s->vocab);
  ch_session *session = specimen_session(s, s->sequences, s->length, CH_F32);
  bool fed = session && feed_tokens(&other, session, 0, s->sequences, 0, s->length - 1, logits) &&
             feed_tokens(&other, session, 0, s->sequences, s->length - 1, 1, logits);
  if (fed) {
    assert_int_equal(ch_session_truncate(session, kept, NULL), CH_OK);
    fed = feed_tokens(s, session, 0, s->sequences, kept, 1, logits) &&
          feed_tokens(s, session, 0, s->sequences, kept + 1, s->length - kept - 1, logits);
  }
  if (fed) expect_near(s, "logits after rewinding", logit_count(s), logits, whole, s->largest, 5e-5);
  ch_session_free(session);
  free(other.tokens);
  free(logits);
  free(whole);
}

static bool has_run(const ch_profile *profile, const char *operation) {
  for (int i = 0; i < profile->rows; i++)
    if (strcmp(profile->row[i].name, operation) == 0) return true;
  return false;
}

/* Checks the operations of a decoding step: it must read latents, components and factors without expanding them, where
   that is possible. */
void check_decoding_form(laboratory *lab, const specimen *s) {
  (void)lab;
  if (s->length < 2) return;
  const tested_mechanism *type = s->definition.type;
  const ch_attention_config *a = &s->config.attention;
  bool latent = type->absorbs_latents, gated = a->gate_embedding_dim > 0;
  bool grouped =
      gated && a->gate_op == CH_GATE_MULTIPLY && !a->qk_norm && !(a->knocking.on & (CH_ON_K | CH_ON_V));
  bool absorbed = false; /* true if the mixes of any layer are absorbed */
  if (s->config.num_hidden_layers == ch_linear_layers(&s->config)) return; /* no layer has attention */
  for (int layer = 0; layer < s->config.num_hidden_layers; layer++) {
    if (ch_layer_is_linear(&s->config, layer)) continue;
    int64_t k = ch_mixed_components(&s->config, layer, CH_ON_K),
            v = ch_mixed_components(&s->config, layer, CH_ON_V);
    absorbed |= type->absorbs_mixes && k && v && k < s->definition.key_groups &&
                v < s->definition.value_groups && !a->qk_norm && !(a->knocking.on & (CH_ON_K | CH_ON_V));
  }
  ch_session *session = specimen_session(s, s->sequences, s->length, CH_F32);
  double *logits = malloc((size_t)logit_count(s) * sizeof *logits);
  ch_profile profile = {0};
  if (session && feed_tokens(s, session, 0, s->sequences, 0, s->length - 1, logits)) {
    ch_session_profile(session, &profile);
    feed_tokens(s, session, 0, s->sequences, s->length - 1, 1, logits);
    bool absorbs = has_run(&profile, "head_product"), own_maps = s->definition.knock.per_head;
    bool keys_normed = a->qk_norm && !a->v_lora_rank; /* separate latents of values are absorbed */
    if (latent && !gated && !keys_normed ? !absorbs : absorbs && !own_maps)
      complain(s, "latents are not absorbed");
    if (has_run(&profile, "gated_attend") != grouped) complain(s, "tokens of one id are not taken together");
    bool fixed = s->definition.ranks.fixed, factors = type->reads_factors && !fixed;
    if (has_run(&profile, "mix_by_head") != (absorbed || (type->reads_factors && fixed)))
      complain(s, "mixes are not absorbed");
    if (has_run(&profile, "factor_attend") != factors) complain(s, "factors are not read as they are");
  }
  ch_session_free(session);
  free(logits);
}

/* Checks decoding with an embedding gate in all its forms: latents expanded or tokens of one id processed together,
   with and without precomputed gates. */
void check_gate_forms(laboratory *lab, const specimen *s) {
  if (!s->config.attention.gate_embedding_dim || s->length < 3) return;
  double *whole = whole_pass(lab, s), *logits = malloc((size_t)logit_count(s) * sizeof *logits);
  for (int form = 0; form < 4; form++) {
    ch_session_options options = {.sequences = s->sequences,
                                  .context = s->length,
                                  .chunk = s->length,
                                  .precompute_gates = form & 1,
                                  .expand_gates = form & 2};
    ch_session *session = NULL;
    ch_error error = {0};
    if (ch_session_new(&s->config, &s->params, s->narrow, &options, &session, &error) != CH_OK)
      complain(s, "%s", error.message);
    bool fed = session && feed_tokens(s, session, 0, s->sequences, 0, s->length / 2, logits);
    for (int64_t t = s->length / 2; fed && t < s->length; t++)
      fed = feed_tokens(s, session, 0, s->sequences, t, 1, logits);
    if (fed) expect_near(s, "logits of a gate's forms", logit_count(s), logits, whole, s->largest, 5e-5);
    ch_session_free(session);
  }
  free(logits);
  free(whole);
}

/* Checks a cache that is filled without computing, as in benchmarks. */
void check_pretended_depth(laboratory *lab, const specimen *s) {
  (void)lab;
  if (s->length < 3) return;
  static const ch_dtype dtypes[] = {CH_F32, CH_F16, CH_BF16, CH_Q8_0, CH_Q4_0};
  double *logits = calloc((size_t)logit_count(s), sizeof *logits);
  for (int i = 0; i < 5; i++) {
    ch_session *session = specimen_session(s, s->sequences, s->length, dtypes[i]);
    if (session && ch_session_pretend(session, s->length - 2, 1, NULL, 0, NULL) != CH_OK)
      complain(s, "a depth cannot be pretended");
    else if (session)
      feed_tokens(s, session, 0, s->sequences, s->length - 2, 2, logits);
    for (int64_t e = 0; e < logit_count(s); e++)
      if (!isfinite(logits[e])) {
        complain(s, "after a pretended depth logit %lld is %g", (long long)e, logits[e]);
        break;
      }
    ch_session_free(session);
  }
  free(logits);
}

/* Feeds each sequence alone, half of it at once and the rest token by token, and compares the logits with those of one
   pass over all sequences. */
void check_batch(laboratory *lab, const specimen *s) {
  if (s->sequences < 2) return;
  double *whole = whole_pass(lab, s), *logits = malloc((size_t)logit_count(s) * sizeof *logits);
  int64_t half = (s->length + 1) / 2;
  bool fed = true;
  for (int64_t b = 0; fed && b < s->sequences; b++) {
    ch_session *session = specimen_session(s, 1, s->length, CH_F32);
    fed = session && feed_tokens(s, session, b, 1, 0, half, logits);
    for (int64_t t = half; fed && t < s->length; t++) fed = feed_tokens(s, session, b, 1, t, 1, logits);
    ch_session_free(session);
  }
  if (fed) expect_near(s, "logits of sequences alone", logit_count(s), logits, whole, s->largest, 5e-5);
  free(logits);
  free(whole);
}
