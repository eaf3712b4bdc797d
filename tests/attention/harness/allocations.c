/* Checks that training passes and decoding steps allocate no memory, except the first few of them. */
#include <stdlib.h>

#include "count_allocations.h"
#include "infer/session.h"
#include "properties.h"

static void expect_none(const specimen *s, const char *what, long before) {
  long count = allocations - before;
  if (count > 0) complain(s, "%s allocates %ld times", what, count);
}

static void decode(const specimen *s) {
  enum { WARM = 4 };
  ch_session_options options = {
      .sequences = 1, .context = s->length, .chunk = s->length, .cache = ch_cache_of(CH_F32)};
  ch_session *session = NULL;
  ch_error error = {0};
  const float *logits = NULL;
  ch_status status = ch_session_new(&s->config, &s->params, s->narrow, &options, &session, &error);
  for (int64_t t = 0; status == CH_OK && t < WARM; t++)
    status = ch_session_feed(session, s->tokens + t, 1, &logits, &error);
  long before = allocations;
  for (int64_t t = WARM; status == CH_OK && t < s->length; t++)
    status = ch_session_feed(session, s->tokens + t, 1, &logits, &error);
  if (status == CH_OK)
    expect_none(s, "decoding", before);
  else
    complain(s, "%s", error.message);
  ch_session_free(session);
}

static void train(laboratory *lab, const specimen *s) {
  int64_t total = 0, at = 0;
  for (int p = 0; p < s->params.count; p++) total += ch_param_count(&s->params.rows[p]);
  float *gradients = calloc((size_t)total, sizeof *gradients);
  void **place = calloc((unsigned)s->params.count, sizeof *place);
  for (int p = 0; p < s->params.count; p++) {
    place[p] = gradients + at;
    at += ch_param_count(&s->params.rows[p]);
  }
  ch_model_graph shape = specimen_shape(s, CH_F32, CH_HEAD_LOSS);
  shape.trainable = true;
  ch_runner_call call = {
      .weights = s->narrow, .tokens = s->tokens, .targets = s->targets, .gradients = place, .seed = 0.1};
  ch_runner *runner = NULL;
  ch_error error = {0};
  const void *value = NULL;
  long before = 0;
  ch_status status = ch_runner_create(&lab->narrow, &s->config, &s->params, &shape, true, &runner, &error);
  for (int i = 0; status == CH_OK && i < 3; i++) {
    before = allocations;
    status = ch_runner_run(runner, &call, &value, &error);
  }
  if (status == CH_OK)
    expect_none(s, "a training pass", before);
  else
    complain(s, "%s", error.message);
  ch_runner_free(runner);
  free(gradients);
  free(place);
}

void check_allocations(laboratory *lab, const specimen *s) {
  if (!COUNTS_ALLOCATIONS || s->length < 6) return;
  decode(s);
  train(lab, s);
}
