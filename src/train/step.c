/* One optimizer step: differentiate the loss, agree with other ranks, apply the gradient. */
#include <math.h>

#include "base/progress.h"
#include "train/schedule.h"
#include "train/trainer_private.h"

static ch_status interrupted(ch_error *error, int64_t step) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted in step %lld, which was not applied",
                 (long long)step);
}

static ch_status loss_not_finite(const ch_trainer *trainer, int64_t step, double loss, ch_error *error) {
  const ch_kernels *kernels = trainer->engine.kernels;
  const char *weight = ch_first_weight_not_finite(&trainer->set, kernels, &trainer->engine.team);
  if (weight)
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "step %lld: the loss is %g because the weight %s holds a value that is not finite",
                   (long long)step, loss, weight);
  const char *gradient =
      ch_first_not_finite(&trainer->set, trainer->set.gradients, kernels, &trainer->engine.team);
  return ch_fail(error, CH_ERROR_NUMERIC,
                 "step %lld: the loss is %g%s%s; the weights before it are finite; a lower {lr} may help",
                 (long long)step, loss, gradient ? ", with a gradient that is not finite for " : "",
                 gradient ? gradient : "");
}

/* --- differentiate -------------------------------------------------------------------------------------- */

/* Counts of a step's tokens, or images. */
typedef struct contents {
  int64_t predicted; /* tokens with a target */
  int64_t tokens;    /* tokens without padding */
} contents;

/* Adds the counts of `part`, whose first sequence has number `first` in the batch. */
static void count(ch_trainer *trainer, const ch_batch *part, int64_t first, contents *found) {
  for (int64_t s = 0, at = 0; s < part->sequences; s++, at += part->length) {
    int64_t *text = &trainer->text[first + s];
    *text = ch_count_text(part->targets + at, part->document_start ? part->document_start + at : NULL,
                          part->length);
    found->tokens += *text;
  }
  found->predicted += ch_count_predicted(part->targets, part->sequences * part->length);
}

/* Fills the micro-batches of this rank, and counts their contents. */
static ch_status fetch_own(ch_trainer *trainer, contents *found, ch_error *error) {
  const ch_relay *relay = &trainer->relay;
  int64_t begin = trainer->step * trainer->batch.sequences, all = ch_trainer_micro_batches(trainer);
  if (!trainer->ranks) {
    ch_batch *batch = &trainer->batch;
    CH_TRY(trainer->source.train(trainer->source.context, begin, batch, error));
    count(trainer, batch, 0, found);
    return CH_OK;
  }
  /* A rank looks up rows of divided tables for all ranks, so it needs all batches. */
  bool whole = relay->shards.count > 0;
  for (int64_t i = whole ? 0 : ch_relay_first(relay); i < all; i += whole ? 1 : ch_relay_stride(relay)) {
    ch_batch part = ch_trainer_part(trainer, i);
    CH_TRY(trainer->source.train(trainer->source.context, begin + i * part.sequences, &part, error));
    if (i % ch_relay_stride(relay) == ch_relay_first(relay)) count(trainer, &part, i * part.sequences, found);
  }
  return CH_OK;
}

/* Fetches a batch. *found counts over all ranks, because the loss is a mean over all targets. */
static ch_status fetch(ch_trainer *trainer, ch_stop_test stop, void *stop_context, contents *found,
                       ch_error *error) {
  int64_t step = trainer->step + 1;
  ch_status status = CH_OK;
  *found = (contents){0};
  if (trainer->ranks && stop && stop(stop_context)) status = interrupted(error, step);
  if (status == CH_OK) status = fetch_own(trainer, found, error);
  CH_TRY(ch_agree(trainer->ranks, status, error));
  int64_t sums[] = {found->predicted, found->tokens};
  ch_ranks_sum(trainer->ranks, sums, 2, trainer->relay.load_room);
  *found = (contents){sums[0], sums[1]};
  if (found->predicted > 0) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "step %lld has nothing to predict", (long long)step);
}

/* Runs the micro-batches of this rank. *sums receives the sums over all micro-batches up to this rank's last one. */
static ch_status differentiate(ch_trainer *trainer, int64_t predicted, ch_stop_test stop, void *stop_context,
                               ch_pass_sums *sums, ch_error *error) {
  ch_relay *relay = &trainer->relay;
  int64_t step = trainer->step + 1, all = ch_trainer_micro_batches(trainer);
  double seed = 1 / (double)predicted;
  ch_expert_balance_begin(&trainer->balance, trainer->batch.sequences);
  for (int64_t i = ch_relay_first(relay); i < all; i += ch_relay_stride(relay)) {
    ch_relay_enter(relay, i);
    if (stop && stop(stop_context)) return interrupted(error, step);
    int64_t round = i / ch_relay_stride(relay);
    ch_status status = ch_shards_enter(&relay->shards, round, error);
    if (status == CH_OK) status = ch_trainer_backward(trainer, i, seed, sums, error);
    if (status == CH_OK) ch_shards_leave(&relay->shards, round);
    if (status == CH_ERROR_INTERRUPTED) return interrupted(error, step);
    CH_TRY(status);
    if (!isfinite(sums->loss)) return loss_not_finite(trainer, step, sums->loss, error);
  }
  return CH_OK;
}

static ch_status measure_gradient(const ch_trainer *trainer, double loss, double *norm, ch_error *error) {
  const ch_kernels *kernels = trainer->engine.kernels;
  double start = ch_clock(), gradients = (double)ch_parameter_set_bytes(&trainer->set).gradients;
  *norm = ch_gradient_norm(&trainer->set, kernels, &trainer->engine.team);
  ch_profile_note(trainer->engine.profile, "gradient_norm", start, 0, gradients);
  if (isfinite(*norm)) return CH_OK;
  const char *name = ch_first_gradient_not_finite(&trainer->set, kernels, &trainer->engine.team);
  return ch_fail(
      error, CH_ERROR_NUMERIC,
      "step %lld: the gradient of %s is not finite (the loss is %g); a lower {lr} or {clip} may help",
      (long long)trainer->step + 1, name ? name : "all tensors together", loss);
}

/* --- agree ---------------------------------------------------------------------------------------------- */

/* The results of a step, which the rank of the last micro-batch sends to all. */
typedef struct outcome {
  ch_pass_sums sums;
  double norm; /* norm of the gradient, before clipping */
} outcome;

/* Gathers the squares of the gradients of tables divided by columns on all ranks. */
static void gather_squares(const ch_trainer *trainer) {
  const ch_parameter_set *set = &trainer->set;
  if (set->squares_each == 0) return;
  ch_square_own_columns(set, trainer->engine.kernels, &trainer->engine.team);
  ch_ranks_gather(trainer->ranks, set->table_squares, (size_t)set->squares_each * sizeof *set->table_squares);
}

/* Agrees on the status and shares the sums of the last rank, which has all gradients and measures their norm. */
static ch_status agree(ch_trainer *trainer, ch_status status, int64_t predicted, outcome *step,
                       ch_error *error) {
  ch_relay *relay = &trainer->relay;
  ch_expert_balance *balance = &trainer->balance;
  bool whole = ch_own_rank(trainer->ranks) + 1 == ch_rank_count(trainer->ranks);
  status = ch_relay_end_step(relay, status, error);
  gather_squares(trainer);
  if (status == CH_OK && whole)
    status = measure_gradient(trainer, step->sums.loss / (double)predicted, &step->norm, error);
  CH_TRY(ch_relay_agree(relay, status, error));
  ch_relay_spread(relay, step, sizeof *step);
  ch_ranks_sum(trainer->ranks, balance->load, balance->layers * balance->experts, relay->load_room);
  return CH_OK;
}

/* --- apply ---------------------------------------------------------------------------------------------- */

/* Gathers on all ranks the weights that each rank has updated. */
static void gather_weights(ch_trainer *trainer) {
  const ch_parameter_region *real = &trainer->set.regions[CH_KEPT_WHOLE],
                            *rounded = &trainer->set.regions[CH_KEPT_ROUNDED];
  if (!trainer->ranks) return;
  double start = ch_clock(), others = (double)(ch_rank_count(trainer->ranks) - 1);
  size_t bytes = (size_t)real->part * ch_dtype_size(trainer->set.dtype),
         rounded_bytes = (size_t)rounded->part * ch_dtype_size(CH_BF16);
  ch_round_own_weights(&trainer->set, trainer->engine.kernels, &trainer->engine.team);
  if (bytes > 0) ch_ranks_gather(trainer->ranks, real->weights, bytes);
  if (rounded_bytes > 0) ch_ranks_gather(trainer->ranks, rounded->weights, rounded_bytes);
  ch_profile_note(trainer->engine.profile, "gather_weights", start, 0,
                  others * (double)(bytes + rounded_bytes));
}

/* Clips the gradient and updates the weights. */
static void apply(ch_trainer *trainer, double loss, double norm, double *lr) {
  const ch_train_options *options = &trainer->options;
  int64_t step = trainer->step + 1;
  *lr = ch_schedule_lr(options, step);
  double scale = options->clip > 0 && norm > options->clip ? options->clip / norm : 1;
  double start = ch_clock(), parameters = (double)ch_parameter_set_bytes(&trainer->set).moments / 2;
  ch_adamw_step(&trainer->set, trainer->engine.kernels, &trainer->engine.team, options, step, *lr, scale);
  ch_profile_note(trainer->engine.profile, "adamw", start, 0, 7 * parameters); /* reads 4, writes 3 */
  gather_weights(trainer);
  ch_expert_balance_end(&trainer->balance, trainer->set.memory, trainer->set.weights);
  trainer->losses[trainer->step] = loss;
  trainer->step = step;
}

/* --- the step ------------------------------------------------------------------------------------------- */

ch_status ch_trainer_step(ch_trainer *trainer, ch_stop_test stop, void *stop_context, ch_step_report *report,
                          ch_error *error) {
  const ch_train_options *options = &trainer->options;
  double start = ch_clock(), lr;
  contents found;
  outcome step = {0};
  if (trainer->step >= options->steps)
    return ch_fail(error, CH_ERROR_ARGUMENT, "all %lld steps are done", (long long)options->steps);
  CH_TRY(fetch(trainer, stop, stop_context, &found, error));
  int64_t predicted = found.predicted;
  ch_relay_begin(&trainer->relay, ch_trainer_micro_batches(trainer), stop, stop_context);
  ch_shards_begin(&trainer->relay.shards, ch_trainer_micro_batches(trainer), trainer->batch.tokens, true);
  ch_trainer_watch(trainer, ch_trainer_micro_batches(trainer) / ch_rank_count(trainer->ranks));
  ch_status status = differentiate(trainer, predicted, stop, stop_context, &step.sums, error);
  ch_trainer_unwatch(trainer);
  CH_TRY(agree(trainer, status, predicted, &step, error));
  double loss = step.sums.loss / (double)predicted;
  apply(trainer, loss, step.norm, &lr);
  double seconds = ch_clock() - start;
  ch_profile_span(trainer->engine.profile, "step", start);
  trainer->seconds += seconds;
  trainer->tokens += found.tokens;
  *report = (ch_step_report){.step = trainer->step,
                             .tokens = trainer->tokens,
                             .step_tokens = found.tokens,
                             .loss = loss,
                             .lr = lr,
                             .grad_norm = step.norm,
                             .seconds = seconds,
                             .balance_loss = step.sums.balance_loss,
                             .expert_layers = trainer->balance.layers,
                             .experts = trainer->balance.experts,
                             .expert_load = trainer->balance.load};
  return CH_OK;
}
