/* Measures the speed of decoding and of classifying images, for a short time. trial/timing_rounds.c interleaves the
 * measurements of several models. */
#include "experiment/speed/measure_model.h"

#include <stdlib.h>

#include "attention/registry.h"
#include "bench/timing.h"
#include "infer/model.h"
#include "infer/session.h"
#include "model/runner.h"

enum { LONGEST_PROMPT = 512, LONGEST_DECODING = 256, MOST_TOKENS = 8192 };
/* The usual timing of decoding, and of decoding at one depth. */
static const ch_timing thorough = {.least = 32,
                                   .most = MOST_TOKENS,
                                   .enough_seconds = 0.1,
                                   .most_seconds = 5},
                       brief = {.least = 12, .most = MOST_TOKENS, .enough_seconds = 0.03, .most_seconds = 1};

/* Returns the id of arbitrary token i. The ids are spread over the vocabulary, so that embedding rows are not all in
 * the L1 cache. */
static int32_t some_token(int64_t i, int64_t vocabulary) {
  return (int32_t)((i * 7919 + 13) % vocabulary);
}

/* Repeated decoding of up to `count` tokens after the first `start` tokens, which the cache holds. */
typedef struct decode_loop {
  ch_session *session;
  int64_t start, count, vocabulary;
  int64_t decoded; /* number of tokens in the cache after `start` */
} decode_loop;

static ch_status decode_token(void *context, ch_error *error) {
  decode_loop *d = context;
  int32_t token = some_token(d->decoded++, d->vocabulary);
  const float *logits;
  return ch_session_feed(d->session, &token, 1, &logits, error);
}

/* Rewinds the session before the first token and after `count` tokens. Then one token is decoded that is not timed,
   because its pass may have to be planned and caches may be cold. */
static ch_status begin_again(void *context, ch_error *error) {
  decode_loop *d = context;
  if (d->decoded > 0 && d->decoded < d->count) return CH_OK;
  d->decoded = 0;
  ch_session_pretend_length(d->session, d->start);
  return d->count > 1 ? decode_token(d, error) : CH_OK;
}

/* Returns the usual timing with a stop test, and with its `enough_seconds` scaled by `effort`. */
static ch_timing asking(const ch_timing *usual, double effort, ch_stop_test stop, void *stop_context) {
  ch_timing timing = *usual;
  timing.enough_seconds *= effort;
  timing.stop = stop;
  timing.stop_context = stop_context;
  return timing;
}

/* Times the decoding of single tokens. seconds [timing->most] is scratch. */
static ch_status time_tokens(decode_loop *d, const ch_timing *timing, double *seconds,
                             double *tokens_per_second, ch_error *error) {
  ch_timed_work work = {.context = d, .once = decode_token, .prepare = begin_again, .seconds = seconds};
  CH_TRY(ch_time(timing, 1, &work, error));
  double median = ch_timed_median(&work);
  *tokens_per_second = median > 0 ? 1 / median : 0;
  return CH_OK;
}

static ch_status time_decoding(const ch_model *model, int64_t context, const ch_timing *timing,
                               double *tokens_per_second, ch_error *error) {
  int64_t prompt = context / 2 < LONGEST_PROMPT ? context / 2 : LONGEST_PROMPT;
  decode_loop d = {.start = prompt,
                   .count = context - prompt < LONGEST_DECODING ? context - prompt : LONGEST_DECODING,
                   .vocabulary = model->config.vocab_size};
  ch_session_options options;
  ch_status status = CH_OK;
  ch_session_options_default(&model->config, &options);
  options.context = context;
  int32_t *tokens = calloc((size_t)context, sizeof *tokens);
  double *seconds = calloc((size_t)timing->most, sizeof *seconds);
  if (!tokens || !seconds) CH_TRY_GOTO(ch_no_memory(error));
  for (int64_t i = 0; i < context; i++) tokens[i] = some_token(i, d.vocabulary);
  CH_TRY_GOTO(
      ch_session_new(&model->config, &model->params, model->weights.tensors, &options, &d.session, error));
  const float *logits;
  if (prompt > 0) CH_TRY_GOTO(ch_session_feed(d.session, tokens, prompt, &logits, error));
  CH_TRY_GOTO(time_tokens(&d, timing, seconds, tokens_per_second, error));
done:
  ch_session_free(d.session);
  free(tokens);
  free(seconds);
  return status;
}

ch_status ch_measure_decoding(const char *directory, int64_t context, double effort, ch_stop_test stop,
                              void *stop_context, double *tokens_per_second, ch_error *error) {
  ch_model *model;
  *tokens_per_second = 0;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_F32, &model, error));
  ch_status status = ch_model_materialise(model, CH_MATERIALISE_SERVING, error);
  ch_timing timing = asking(&thorough, effort, stop, stop_context);
  if (status == CH_OK) status = time_decoding(model, context, &timing, tokens_per_second, error);
  ch_model_unload(model);
  return status;
}

/* --- depths -------------------------------------------------------------------------------------------------- */

enum { TOKENS_AT_DEPTH = 16, LEAST_DEPTH = 128, DEPTH_STEP = 4 };
static const double most_cache_bytes = 256.0 * 1024 * 1024;

static ch_status measure_depth(const ch_model *model, int64_t depth, const ch_timing *timing,
                               double *tokens_per_second, ch_error *error) {
  ch_session_options options;
  decode_loop d = {.start = depth, .count = TOKENS_AT_DEPTH, .vocabulary = model->config.vocab_size};
  double seconds[MOST_TOKENS];
  ch_session_options_default(&model->config, &options);
  options.context = depth + TOKENS_AT_DEPTH;
  CH_TRY(ch_session_new(&model->config, &model->params, model->weights.tensors, &options, &d.session, error));
  ch_status status = ch_session_pretend(d.session, depth, 1, NULL, 0, error);
  if (status == CH_OK) status = time_tokens(&d, timing, seconds, tokens_per_second, error);
  ch_session_free(d.session);
  return status;
}

ch_status ch_measure_depths(const char *directory, double effort, ch_stop_test stop, void *stop_context,
                            ch_curve_point *curve, int *points, ch_error *error) {
  ch_model *model;
  *points = 0;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_F32, &model, error));
  ch_status status = ch_model_materialise(model, CH_MATERIALISE_SERVING, error);
  ch_timing timing = asking(&brief, effort, stop, stop_context);
  double token_bytes = (double)ch_state_elements(&model->config) * sizeof(float);
  for (int64_t depth = LEAST_DEPTH; status == CH_OK && *points < CH_DEPTHS; depth *= DEPTH_STEP) {
    double rate = 0;
    if ((double)depth * token_bytes > most_cache_bytes) break;
    status = measure_depth(model, depth, &timing, &rate, error);
    curve[(*points)++] = (ch_curve_point){depth, rate};
  }
  ch_model_unload(model);
  return status;
}

/* --- images -------------------------------------------------------------------------------------------------- */

enum { IMAGES = 32, MOST_BATCHES = 500 };
static const ch_timing batches = {.least = 5, .most = MOST_BATCHES, .enough_seconds = 0.1, .most_seconds = 5};

typedef struct prediction {
  ch_runner *runner;
  ch_runner_call call;
} prediction;

static ch_status predict_batch(void *context, ch_error *error) {
  const prediction *p = context;
  const void *value;
  return ch_runner_run(p->runner, &p->call, &value, error);
}

static ch_status measure_prediction(const ch_model *model, const ch_timing *timing, double *images_per_second,
                                    ch_error *error) {
  const ch_config *c = &model->config;
  int64_t count = IMAGES * c->num_channels * c->image_size * c->image_size;
  ch_model_graph shape = {.sequences = IMAGES, .length = 1, .dtype = CH_F32, .head = CH_HEAD_LOGITS};
  ch_engine engine = {0};
  double seconds[MOST_BATCHES], median;
  float *pixels = malloc((size_t)count * sizeof *pixels);
  if (!pixels) return ch_no_memory(error);
  for (int64_t i = 0; i < count; i++) pixels[i] = (float)(i * 7919 % 255) / 127.5f - 1;
  prediction p = {.call = {.weights = model->weights.tensors, .pixels = pixels}};
  ch_timed_work work = {.context = &p, .once = predict_batch, .seconds = seconds};
  ch_status status;
  CH_TRY_GOTO(ch_engine_init(&engine, CH_F32, error));
  CH_TRY_GOTO(ch_runner_create(&engine, c, &model->params, &shape, false, &p.runner, error));
  CH_TRY_GOTO(ch_time(timing, 1, &work, error));
  median = ch_timed_median(&work);
  *images_per_second = median > 0 ? IMAGES / median : 0;
done:
  ch_runner_free(p.runner);
  ch_engine_free(&engine);
  free(pixels);
  return status;
}

ch_status ch_measure_prediction(const char *directory, double effort, ch_stop_test stop, void *stop_context,
                                double *images_per_second, ch_error *error) {
  ch_model *model;
  *images_per_second = 0;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_F32, &model, error));
  ch_status status = ch_model_materialise(model, CH_MATERIALISE_SERVING, error);
  ch_timing timing = asking(&batches, effort, stop, stop_context);
  if (status == CH_OK) status = measure_prediction(model, &timing, images_per_second, error);
  ch_model_unload(model);
  return status;
}
