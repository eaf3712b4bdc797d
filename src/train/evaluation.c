/* Measures the validation loss of a trainer's weights, and the accuracy on images. It changes no weight. */
#include <math.h>

#include "train/trainer_private.h"

bool ch_trainer_can_evaluate(const ch_trainer *trainer) {
  return trainer->source.validation_sequences > 0;
}

static int64_t evaluation_sequences(const ch_trainer *trainer) {
  const ch_train_options *options = &trainer->options;
  int64_t all = trainer->source.validation_sequences;
  if (options->eval_tokens == 0) return all;
  int64_t asked = (options->eval_tokens + options->sequence - 1) / options->sequence;
  return asked < all ? asked : all;
}

static ch_status record_validation(ch_trainer *trainer, ch_validation_point point, ch_error *error) {
  int64_t n = trainer->validation_points;
  bool again = n > 0 && trainer->validation[n - 1].step == point.step;
  if (again) n--;
  if (n == trainer->validation_capacity) CH_TRY(ch_trainer_reserve(trainer, 0, 2 * n + 2, error));
  trainer->validation[n] = point;
  trainer->validation_points = n + 1;
  return CH_OK;
}

/* Returns the mean loss, and for images the accuracies, over the `predicted` rows with a target. */
static ch_validation_point point_of(const ch_trainer *trainer, const ch_pass_sums *all, int64_t predicted) {
  ch_validation_point point = {
      .step = trainer->step, .loss = all->loss / (double)predicted, .top1 = -1, .top5 = -1};
  if (!trainer->batch.pixels) return point;
  point.top1 = (double)all->top1 / (double)predicted;
  point.top5 = (double)all->top5 / (double)predicted;
  return point;
}

static ch_status interrupted(const ch_trainer *trainer, ch_error *error) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted in the evaluation after step %lld",
                 (long long)trainer->step);
}

/* Fills this rank's micro-batch of a round, a part of trainer->batch. If tables are divided, it fills those of all
   ranks, because ranks look up rows for each other. */
static ch_status fetch_round(ch_trainer *trainer, int64_t round, int64_t total, ch_error *error) {
  const ch_relay *relay = &trainer->relay;
  int64_t micro = trainer->options.micro_batch, stride = ch_relay_stride(relay);
  for (int64_t r = 0; r < stride; r++) {
    int64_t first = (round * stride + r) * micro;
    if (first >= total || (r != ch_relay_first(relay) && relay->shards.count == 0)) continue;
    ch_batch part = ch_trainer_part(trainer, r);
    CH_TRY(trainer->source.validate(trainer->source.context, first, &part, error));
    /* The plan's shape is fixed: sequences after the last one are computed, without targets. */
    for (int64_t i = (total - first) * part.length; i < part.sequences * part.length; i++)
      part.targets[i] = -1;
  }
  return CH_OK;
}

/* Adds up the first `total` sequences up to this rank's last micro-batch, and counts the predicted tokens of this
   rank's micro-batches. */
static ch_status add_up(ch_trainer *trainer, int64_t total, ch_stop_test stop, void *stop_context,
                        ch_pass_sums *all, int64_t *predicted, ch_error *error) {
  ch_relay *relay = &trainer->relay;
  int64_t micro = trainer->options.micro_batch;
  int64_t own = ch_relay_first(relay), stride = ch_relay_stride(relay);
  for (int64_t round = 0; round * stride * micro < total; round++) {
    int64_t i = round * stride + own;
    if (stop && stop(stop_context)) return interrupted(trainer, error);
    CH_TRY(fetch_round(trainer, round, total, error));
    ch_status status = ch_shards_enter(&relay->shards, round, error);
    if (status == CH_OK && i * micro < total) {
      ch_batch part = ch_trainer_part(trainer, own);
      *predicted += ch_count_predicted(part.targets, micro * part.length);
      status = ch_trainer_forward(trainer, i, all, error);
    }
    if (status == CH_ERROR_INTERRUPTED) return interrupted(trainer, error);
    CH_TRY(status);
  }
  return CH_OK;
}

ch_status ch_trainer_evaluate(ch_trainer *trainer, ch_stop_test stop, void *stop_context, double *loss,
                              ch_error *error) {
  int64_t total = evaluation_sequences(trainer), predicted = 0, micro = trainer->options.micro_batch;
  if (total == 0) return ch_fail(error, CH_ERROR_ARGUMENT, "the source has no validation data");
  ch_pass_sums all = {0};
  int64_t passes = (total + micro - 1) / micro, stride = ch_relay_stride(&trainer->relay);
  ch_relay_begin(&trainer->relay, passes, stop, stop_context);
  ch_shards_begin(&trainer->relay.shards, passes, trainer->batch.tokens, false);
  ch_trainer_watch(trainer, (passes + stride - 1) / stride);
  ch_status status = add_up(trainer, total, stop, stop_context, &all, &predicted, error);
  ch_trainer_unwatch(trainer);
  status = ch_relay_end_evaluation(&trainer->relay, status, error);
  CH_TRY(ch_relay_agree(&trainer->relay, status, error));
  ch_relay_spread(&trainer->relay, &all, sizeof all);
  ch_ranks_sum(trainer->ranks, &predicted, 1, trainer->relay.load_room);
  if (predicted == 0) return ch_fail(error, CH_ERROR_ARGUMENT, "the validation data has no token to predict");
  ch_validation_point point = point_of(trainer, &all, predicted);
  *loss = point.loss;
  if (!isfinite(*loss))
    return ch_fail(error, CH_ERROR_NUMERIC, "the validation loss after step %lld is %g",
                   (long long)trainer->step, *loss);
  return record_validation(trainer, point, error);
}
