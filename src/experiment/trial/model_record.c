/* Fills in a trained model's results. */
#include "experiment/trial/model_record.h"

#include <math.h>

#include "base/utf8.h"
#include "attention/registry.h"
#include "experiment/lineup/match_size.h"
#include "experiment/speed/median_speed.h"
#include "laws/loss_spikes.h"
#include "model/accounting.h"

enum { MOST_CURVE_POINTS = 400 };

/* If there are more steps than points, each point is the mean loss of a stretch of steps. */
ch_status ch_model_result_fill_curves(const ch_compare_setup *setup, const ch_progress_record *record,
                                      ch_model_result *model, ch_error *error) {
  ch_arena *arena = &setup->comparison->arena;
  int64_t step_tokens = ch_train_step_tokens(&setup->training);
  int points = (int)(record->step < MOST_CURVE_POINTS ? record->step : MOST_CURVE_POINTS);
  ch_curve_point *curve = ch_arena_alloc(arena, (size_t)(points + 1) * sizeof *curve);
  ch_curve_point *validation =
      ch_arena_alloc(arena, (size_t)(record->validation_points + 1) * sizeof *validation);
  if (!curve || !validation) return ch_no_memory(error);
  for (int p = 0; p < points; p++) {
    int64_t from = record->step * p / points, to = record->step * (p + 1) / points;
    double sum = 0;
    for (int64_t s = from; s < to; s++) sum += record->losses[s];
    curve[p] = (ch_curve_point){to * step_tokens, sum / (double)(to - from)};
  }
  for (int64_t p = 0; p < record->validation_points; p++)
    validation[p] = (ch_curve_point){record->validation[p].step * step_tokens, record->validation[p].loss};
  const ch_stability stability = ch_judge_stability(record->losses, record->step);
  model->loss_spikes = stability.spikes;
  model->curve = curve;
  model->validation_curve = validation;
  model->curve_points = points;
  model->validation_points = (int)record->validation_points;
  return CH_OK;
}

/* Counts parameters, cache and FLOPs by parts of the model. The FLOPs of the parts are at the longest context of
 * training; model->flops is without context. */
static ch_status fill_account(const ch_compare_setup *setup, const ch_config *config, ch_model_result *model,
                              ch_error *error) {
  ch_params params = {0};
  ch_account shallow, deep;
  ch_status status = ch_model_declare(config, &params, error);
  model->cache_depth = ch_compare_on_images(setup)       ? 0
                       : setup->settings.verdict.context ? setup->settings.verdict.context
                                                         : setup->settings.lineup.sequence;
  model->cache_elements_at_depth = ch_state_elements_at(config, model->cache_depth);
  model->state_elements_per_sequence = ch_compare_on_images(setup) ? 0 : ch_fixed_state_elements(config);
  model->flops_depth = ch_compare_on_images(setup) ? 0 : setup->settings.lineup.sequence;
  if (status == CH_OK) status = ch_account_model(config, &params, 0, ch_cache_of(CH_F16), &shallow, error);
  if (status == CH_OK)
    status = ch_account_model(config, &params, model->flops_depth, ch_cache_of(CH_F16), &deep, error);
  if (status == CH_OK) {
    model->parameters_active = deep.parameters_active;
    model->parameters_embedding = deep.parameters_embedding;
    model->parameters_feed_forward = deep.parameters_feed_forward;
    model->parameters_gate_embedding = deep.parameters_gate_embedding;
    model->flops = shallow.flops.total;
    model->flops_projections = deep.flops.attention_projections;
    model->flops_context = deep.flops.attention_context;
    model->flops_feed_forward = deep.flops.feed_forward;
    model->flops_head = deep.flops.lm_head + deep.flops.patches;
  }
  ch_params_free(&params);
  return status;
}

ch_status ch_model_result_fill_shape(const ch_compare_setup *setup, const ch_planned_model *planned,
                                     ch_model_result *model, ch_error *error) {
  const ch_config *config = &planned->config;
  int64_t elements = ch_compare_on_images(setup) ? 0 : ch_state_elements(config), attention;
  CH_TRY(ch_count_parameters(config, CH_COUNT_ATTENTION, &attention, error));
  bool own_sizes = ch_mechanism_of(config)->modules & CH_MODULE_OWN_SIZES;
  *model = (ch_model_result){
      .name = ch_valid_text(&setup->comparison->arena, planned->name),
      .directory = planned->directory,
      .mechanism = ch_arena_strdup(&setup->comparison->arena, config->attention.type),
      .layers = config->num_hidden_layers,
      .hidden_size = config->hidden_size,
      .heads = config->num_attention_heads,
      .key_value_heads = own_sizes || ch_heads_differ(config) ? 0 : config->num_key_value_heads,
      .head_dim = own_sizes ? config->attention.qk_nope_head_dim + config->attention.qk_rope_head_dim
                            : config->head_dim,
      .intermediate_size = ch_matched_width(config),
      .parameters = planned->parameters,
      .cache_elements_per_token = elements,
      .cache_bytes_per_token = elements * CH_CACHE_ELEMENT_BYTES,
      .images = ch_compare_on_images(setup),
      .parameters_attention = attention,
      .seed = setup->training.seed,
      .lr = planned->lr};
  bool fine = model->name && model->mechanism;
  if (!fine) return ch_no_memory(error);
  return fill_account(setup, config, model, error);
}

ch_status ch_model_result_fill_training(const ch_compare_setup *setup, const ch_trainer *trainer,
                                        ch_step_times *times, bool diverged, ch_model_result *model,
                                        ch_error *error) {
  ch_progress_record record;
  ch_trainer_progress(trainer, &record);
  double tokens = (double)ch_train_step_tokens(&setup->training);
  if (!record.validation_points && !diverged)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "no data is left for validation; give a longer text, or more images");
  model->tokens_trained = record.tokens;
  model->train_seconds = record.seconds;
  model->validation_loss = INFINITY;
  if (!diverged) {
    const ch_validation_point *last = &record.validation[record.validation_points - 1];
    model->validation_loss = last->loss;
    model->top1 = last->top1;
    model->top5 = last->top5;
  }
  /* If an earlier, interrupted process did the last step, only the mean speed is known. */
  for (int64_t i = 0; i < times->taken; i++)
    times->seconds[i] = times->seconds[i] > 0 ? tokens / times->seconds[i] : 0;
  ch_median_speed rate = ch_median_speed_of(times->seconds, times->taken, times->disturbed);
  if (rate.median > 0) {
    model->train_tokens_per_second = rate.median;
    model->train_spread = rate.spread;
    model->train_unsteady = rate.unsteady;
  } else if (record.seconds > 0) {
    model->train_tokens_per_second = (double)record.tokens / record.seconds;
  }
  return ch_model_result_fill_curves(setup, &record, model, error);
}
