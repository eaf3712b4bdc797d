/* Decoding speed, as a real session sees it. */
#include "train/compare_measure.h"

#include <stdlib.h>

#include "attention/registry.h"
#include "base/progress.h"
#include "infer/model.h"
#include "infer/timeline.h"
#include "model/runner.h"

enum { LONGEST_PROMPT = 512, LONGEST_DECODING = 256, MOST_TOKENS = 8192 };
/* Of one measurement; the models of a comparison are measured several times, in turns. */
static const double enough_seconds = 0.1, most_seconds = 5;

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double ch_median(double *values, int64_t n) {
  if (n <= 0) return 0;
  qsort(values, (size_t)n, sizeof *values, ascending);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Ids spread over the vocabulary, so that embedding rows are not all in a near cache. */
static int32_t some_token(int64_t i, int64_t vocabulary) {
  return (int32_t)((i * 7919 + 13) % vocabulary);
}

/* When there are times enough. */
typedef struct effort {
  double enough_seconds, most_seconds;
  int64_t least_tokens;
} effort;

static const effort thorough = {0.1, 5, 32}, brief = {0.03, 1, 12};

/* Decodes up to `count` tokens after the prompt, over and over, until there are times enough. */
static ch_status take_times(ch_timeline *timeline, int64_t prompt, int64_t count, int64_t vocabulary,
                            const effort *e, ch_stop_test stop, void *stop_context, double *seconds,
                            int64_t *taken, ch_error *error) {
  double began = ch_clock();
  const float *logits;
  *taken = 0;
  while (*taken < MOST_TOKENS) {
    double spent = ch_clock() - began;
    if (spent > e->most_seconds || (spent > e->enough_seconds && *taken >= e->least_tokens)) break;
    ch_timeline_rewind(timeline, prompt);
    for (int64_t i = 0; i < count && *taken < MOST_TOKENS; i++) {
      int32_t token = some_token(i, vocabulary);
      double start = ch_clock();
      CH_TRY(ch_timeline_feed(timeline, &token, 1, &logits, error));
      /* The first token of a round may plan the pass or find cold caches. */
      if (i > 0 || count == 1) seconds[(*taken)++] = ch_clock() - start;
      if (stop && stop(stop_context))
        return ch_fail(error, CH_ERROR_INTERRUPTED, "stopped while decoding was timed");
    }
  }
  return CH_OK;
}

static ch_status measure(const ch_model *model, int64_t context, ch_stop_test stop, void *stop_context,
                         double *tokens_per_second, ch_error *error) {
  int64_t prompt = context / 2 < LONGEST_PROMPT ? context / 2 : LONGEST_PROMPT, taken = 0;
  int64_t count = context - prompt < LONGEST_DECODING ? context - prompt : LONGEST_DECODING;
  ch_timeline_options options;
  ch_timeline *timeline = NULL;
  ch_status status = CH_OK;
  ch_timeline_options_default(&model->config, &options);
  options.context = context;
  int32_t *tokens = calloc((size_t)context, sizeof *tokens);
  double *seconds = calloc(MOST_TOKENS, sizeof *seconds);
  if (!tokens || !seconds) CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to measure decoding"));
  for (int64_t i = 0; i < context; i++) tokens[i] = some_token(i, model->config.vocab_size);
  CH_TRY_GOTO(
      ch_timeline_create(&model->config, &model->params, model->weights.tensors, &options, &timeline, error));
  const float *logits;
  if (prompt > 0) CH_TRY_GOTO(ch_timeline_feed(timeline, tokens, prompt, &logits, error));
  CH_TRY_GOTO(take_times(timeline, prompt, count, model->config.vocab_size, &thorough, stop, stop_context,
                         seconds, &taken, error));
  double median = ch_median(seconds, taken);
  *tokens_per_second = median > 0 ? 1 / median : 0;
done:
  ch_timeline_free(timeline);
  free(tokens);
  free(seconds);
  return status;
}

ch_status ch_measure_decoding(const char *directory, int64_t context, ch_stop_test stop, void *stop_context,
                              double *tokens_per_second, ch_error *error) {
  ch_model *model;
  *tokens_per_second = 0;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_F32, &model, error));
  ch_status status = ch_model_restate(model, CH_FORM_SERVING, error);
  if (status == CH_OK) status = measure(model, context, stop, stop_context, tokens_per_second, error);
  ch_model_unload(model);
  return status;
}

/* --- depths -------------------------------------------------------------------------------------------------- */

enum { TOKENS_AT_DEPTH = 16, LEAST_DEPTH = 128, DEPTH_STEP = 4 };
static const double most_cache_bytes = 256.0 * 1024 * 1024;

static ch_status measure_depth(const ch_model *model, int64_t depth, ch_stop_test stop, void *stop_context,
                               double *tokens_per_second, ch_error *error) {
  ch_timeline_options options;
  ch_timeline *timeline = NULL;
  double seconds[MOST_TOKENS];
  int64_t taken = 0;
  ch_timeline_options_default(&model->config, &options);
  options.context = depth + TOKENS_AT_DEPTH;
  ch_status status =
      ch_timeline_create(&model->config, &model->params, model->weights.tensors, &options, &timeline, error);
  if (status == CH_OK) status = ch_timeline_pretend(timeline, depth, 1, NULL, 0, error);
  if (status == CH_OK)
    status = take_times(timeline, depth, TOKENS_AT_DEPTH, model->config.vocab_size, &brief, stop,
                        stop_context, seconds, &taken, error);
  ch_timeline_free(timeline);
  double median = ch_median(seconds, taken);
  *tokens_per_second = median > 0 ? 1 / median : 0;
  return status;
}

ch_status ch_measure_depths(const char *directory, ch_stop_test stop, void *stop_context,
                            ch_curve_point *curve, int *points, ch_error *error) {
  ch_model *model;
  *points = 0;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_F32, &model, error));
  ch_status status = ch_model_restate(model, CH_FORM_SERVING, error);
  double token_bytes = (double)ch_state_elements(&model->config) * sizeof(float);
  for (int64_t depth = LEAST_DEPTH; status == CH_OK && *points < CH_DEPTHS; depth *= DEPTH_STEP) {
    double rate;
    if ((double)depth * token_bytes > most_cache_bytes) break;
    status = measure_depth(model, depth, stop, stop_context, &rate, error);
    curve[(*points)++] = (ch_curve_point){depth, rate};
  }
  ch_model_unload(model);
  return status;
}

/* --- images -------------------------------------------------------------------------------------------------- */

enum { IMAGES = 32, LEAST_BATCHES = 5, MOST_BATCHES = 500 };

static ch_status time_batches(ch_runner *runner, const ch_runner_call *call, ch_stop_test stop,
                              void *stop_context, double *seconds, int64_t *taken, ch_error *error) {
  double began = ch_clock();
  const void *value;
  CH_TRY(ch_runner_run(runner, call, &value, error)); /* memory is touched */
  for (*taken = 0; *taken < MOST_BATCHES; (*taken)++) {
    double start = ch_clock();
    if (start - began > most_seconds || (start - began > enough_seconds && *taken >= LEAST_BATCHES)) break;
    CH_TRY(ch_runner_run(runner, call, &value, error));
    seconds[*taken] = ch_clock() - start;
    if (stop && stop(stop_context))
      return ch_fail(error, CH_ERROR_INTERRUPTED, "stopped while images were timed");
  }
  return CH_OK;
}

static ch_status measure_seeing(const ch_model *model, ch_stop_test stop, void *stop_context,
                                double *images_per_second, ch_error *error) {
  const ch_config *c = &model->config;
  int64_t count = IMAGES * c->num_channels * c->image_size * c->image_size, taken = 0;
  ch_model_graph shape = {.sequences = IMAGES, .length = 1, .dtype = CH_F32, .head = CH_HEAD_LOGITS};
  ch_engine engine = {0};
  ch_runner *runner = NULL;
  double seconds[MOST_BATCHES], median;
  float *pixels = malloc((size_t)count * sizeof *pixels);
  if (!pixels) return ch_fail(error, CH_ERROR_MEMORY, "no memory to measure how fast images are told apart");
  for (int64_t i = 0; i < count; i++) pixels[i] = (float)(i * 7919 % 255) / 127.5f - 1;
  ch_runner_call call = {.weights = model->weights.tensors, .pixels = pixels};
  ch_status status;
  CH_TRY_GOTO(ch_engine_init(&engine, CH_F32, error));
  CH_TRY_GOTO(ch_runner_create(&engine, c, &model->params, &shape, false, &runner, error));
  status = time_batches(runner, &call, stop, stop_context, seconds, &taken, error);
  median = ch_median(seconds, taken);
  *images_per_second = median > 0 ? IMAGES / median : 0;
done:
  ch_runner_free(runner);
  ch_engine_free(&engine);
  free(pixels);
  return status;
}

ch_status ch_measure_seeing(const char *directory, ch_stop_test stop, void *stop_context,
                            double *images_per_second, ch_error *error) {
  ch_model *model;
  *images_per_second = 0;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_F32, &model, error));
  ch_status status = ch_model_restate(model, CH_FORM_SERVING, error);
  if (status == CH_OK) status = measure_seeing(model, stop, stop_context, images_per_second, error);
  ch_model_unload(model);
  return status;
}
