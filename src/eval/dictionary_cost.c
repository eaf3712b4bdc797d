/* Times the two forms of a model's attention against each other. */
#include "eval/dictionary_cost.h"

#include <stdlib.h>

#include "base/progress.h"
#include "infer/timeline.h"

enum { PROMPT = 8, WARM = 3, TURNS = 4, TOKENS = 6 };

static double attention_bytes(const ch_params *params, const ch_tensor *tensors) {
  double bytes = 0;
  for (int i = 0; i < params->count; i++)
    if (params->rows[i].kind == CH_PARAM_ATTENTION) bytes += (double)ch_tensor_bytes(&tensors[i]);
  return bytes;
}

/* Seconds of `count` tokens, one at a time. */
static ch_status decode(ch_timeline *timeline, int count, double *seconds, ch_error *error) {
  const int32_t token = 0;
  const float *logits;
  ch_timeline_rewind(timeline, PROMPT);
  double start = ch_clock();
  for (int i = 0; i < count; i++) CH_TRY(ch_timeline_feed(timeline, &token, 1, &logits, error));
  *seconds = ch_clock() - start;
  return CH_OK;
}

/* The fastest turn of each: what disturbs a turn only makes it longer. */
static ch_status take_turns(ch_timeline *const timelines[2], double best[2], ch_error *error) {
  static const int32_t prompt[PROMPT] = {0};
  const float *logits;
  double seconds;
  for (int k = 0; k < 2; k++) {
    CH_TRY(ch_timeline_feed(timelines[k], prompt, PROMPT, &logits, error));
    CH_TRY(decode(timelines[k], WARM, &seconds, error));
  }
  for (int turn = 0; turn < TURNS; turn++)
    for (int k = 0; k < 2; k++) {
      CH_TRY(decode(timelines[k], TOKENS, &seconds, error));
      if (turn == 0 || seconds < best[k]) best[k] = seconds;
    }
  return CH_OK;
}

static ch_status measure(const ch_model *model, const ch_restated *written, ch_dictionary_cost *cost,
                         ch_error *error) {
  ch_timeline_options options = {
      .sequences = 1, .context = PROMPT + TOKENS, .chunk = PROMPT, .cache = ch_cache_of(CH_F32)};
  ch_timeline *timelines[2] = {NULL, NULL};
  double best[2] = {0, 0};
  ch_status status = ch_timeline_create(&model->config, &model->params, model->weights.tensors, &options,
                                        &timelines[0], error);
  if (status == CH_OK)
    status = ch_timeline_create(&written->config, &written->params, written->tensors, &options, &timelines[1],
                                error);
  if (status == CH_OK) status = take_turns(timelines, best, error);
  if (status == CH_OK)
    *cost = (ch_dictionary_cost){
        .slowdown = best[1] > 0 ? best[0] / best[1] : 1,
        .bytes = attention_bytes(&model->params, model->weights.tensors),
        .written_bytes = attention_bytes(&written->params, written->tensors),
    };
  ch_timeline_free(timelines[0]);
  ch_timeline_free(timelines[1]);
  return status;
}

ch_status ch_dictionary_cost_measure(const ch_model *model, ch_dictionary_cost *cost, ch_error *error) {
  ch_restated written;
  CH_TRY(
      ch_restate(&model->config, &model->params, model->weights.tensors, CH_FORM_STAND_IN, &written, error));
  ch_status status = measure(model, &written, cost, error);
  ch_restated_free(&written);
  return status;
}
