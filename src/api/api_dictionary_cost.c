/* Times a model's decoding with atoms and with materialised matrices. */
#include <crosshead/bench.h>

#include "bench/timing.h"
#include "infer/model.h"
#include "infer/session.h"

enum { PROMPT = 8, TURNS = 4, TOKENS = 6 };

static double attention_bytes(const ch_params *params, const ch_tensor *tensors) {
  double bytes = 0;
  for (int i = 0; i < params->count; i++)
    if (params->rows[i].kind == CH_PARAM_ATTENTION) bytes += (double)ch_tensor_bytes(&tensors[i]);
  return bytes;
}

/* Decodes a few tokens after the prompt, one at a time. */
static ch_status decode(void *context, ch_error *error) {
  ch_session *session = context;
  const int32_t token = 0;
  const float *logits;
  ch_session_pretend_length(session, PROMPT);
  for (int i = 0; i < TOKENS; i++) CH_TRY(ch_session_feed(session, &token, 1, &logits, error));
  return CH_OK;
}

static ch_status time_both(ch_session *const sessions[2], double shortest[2], ch_error *error) {
  static const int32_t prompt[PROMPT] = {0};
  double seconds[2][TURNS];
  ch_timed_work works[2];
  const float *logits;
  for (int k = 0; k < 2; k++) {
    CH_TRY(ch_session_feed(sessions[k], prompt, PROMPT, &logits, error));
    works[k] = (ch_timed_work){.context = sessions[k], .once = decode, .seconds = seconds[k]};
  }
  CH_TRY(ch_time(&(ch_timing){.least = TURNS, .most = TURNS}, 2, works, error));
  for (int k = 0; k < 2; k++) shortest[k] = ch_shortest_time(&works[k]);
  return CH_OK;
}

static ch_status measure_dictionary(const ch_model *model, const ch_materialised_model *written,
                                    ch_dictionary_cost *cost, ch_error *error) {
  ch_session_options options = {
      .sequences = 1, .context = PROMPT + TOKENS, .chunk = PROMPT, .cache = ch_cache_of(CH_F32)};
  ch_session *sessions[2] = {NULL, NULL};
  double shortest[2] = {0, 0};
  ch_status status =
      ch_session_new(&model->config, &model->params, model->weights.tensors, &options, &sessions[0], error);
  if (status == CH_OK)
    status =
        ch_session_new(&written->config, &written->params, written->tensors, &options, &sessions[1], error);
  if (status == CH_OK) status = time_both(sessions, shortest, error);
  if (status == CH_OK)
    *cost = (ch_dictionary_cost){
        .slowdown = shortest[1] > 0 ? shortest[0] / shortest[1] : 1,
        .bytes = attention_bytes(&model->params, model->weights.tensors),
        .written_bytes = attention_bytes(&written->params, written->tensors),
    };
  ch_session_free(sessions[0]);
  ch_session_free(sessions[1]);
  return status;
}

ch_status ch_dictionary_cost_measure(const ch_model *model, ch_dictionary_cost *cost, ch_error *error) {
  if (!model || !cost) return ch_fail(error, CH_ERROR_ARGUMENT, "the model or the cost pointer is NULL");
  if (model->config.sharing.type != CH_SHARING_MASA)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s was not opened with keep_dictionary", model->directory);
  ch_materialised_model written;
  CH_TRY(ch_materialise(&model->config, &model->params, model->weights.tensors, CH_MATERIALISE_STAND_IN,
                        &written, error));
  ch_status status = measure_dictionary(model, &written, cost, error);
  ch_materialised_model_free(&written);
  return status;
}
