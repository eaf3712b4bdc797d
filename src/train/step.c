/* One optimizer step: differentiate the loss, agree with other machines, apply the gradient. */
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
  const char *weight =
      ch_first_not_finite(&trainer->set, trainer->set.weights, kernels, &trainer->engine.team);
  if (weight)
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "step %lld: the loss is %g because the weight %s holds a value that is not finite",
                   (long long)step, loss, weight);
  const char *gradient =
      ch_first_not_finite(&trainer->set, trainer->set.gradients, kernels, &trainer->engine.team);
  return ch_fail(error, CH_ERROR_NUMERIC,
                 "step %lld: the loss is %g%s%s; the weights before it are finite, a lower --lr may help",
                 (long long)step, loss, gradient ? ", and not finite is the gradient of " : "",
                 gradient ? gradient : "");
}

/* --- differentiate ------------------------------------------------------------------------------------------- */

/* Fills the batch. *counts receives the counts of all machines, because the loss is a mean over all of their
   tokens. */
static ch_status fetch(ch_trainer *trainer, ch_step_counts *counts, ch_error *error) {
  ch_batch *batch = &trainer->batch;
  int64_t sequences = batch->sequences;
  *counts = (ch_step_counts){.sequences = sequences};
  ch_status status = trainer->source.train(trainer->source.context, trainer->step * sequences, batch, error);
  if (status == CH_OK) counts->predicted = ch_count_predicted(batch->targets, sequences * batch->length);
  CH_TRY(trainer->agreement.counts(trainer->agreement.context, status, counts, error));
  if (counts->predicted > 0) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "step %lld has nothing to predict", (long long)trainer->step + 1);
}

/* Runs the micro-batches of this machine. Afterwards the set holds this machine's part of the mean gradient, and
   *sums its losses. */
static ch_status differentiate(ch_trainer *trainer, const ch_step_counts *counts, ch_stop_test stop,
                               void *stop_context, ch_step_sums *sums, ch_error *error) {
  int64_t step = trainer->step + 1;
  double seed = 1 / (double)counts->predicted;
  ch_pass_sums all = {0};
  ch_expert_balance_begin(&trainer->balance, counts->sequences);
  for (int64_t first = 0; first < trainer->batch.sequences; first += trainer->options.micro_batch) {
    if (stop && stop(stop_context)) return interrupted(error, step);
    ch_status status = ch_trainer_backward(trainer, first, seed, &all, error);
    if (status == CH_ERROR_INTERRUPTED) return interrupted(error, step);
    CH_TRY(status);
    if (!isfinite(all.loss)) return loss_not_finite(trainer, step, all.loss, error);
  }
  sums->loss = all.loss;
  return CH_OK;
}

/* --- agree --------------------------------------------------------------------------------------------------- */

/* Combines status, sums and gradients of all machines. */
static ch_status agree(ch_trainer *trainer, ch_status status, ch_step_sums *sums, ch_error *error) {
  ch_expert_balance *balance = &trainer->balance;
  sums->balance_loss = balance->routing.balance_loss;
  sums->expert_load = balance->load;
  sums->expert_loads = balance->layers * balance->experts;
  return trainer->agreement.sums(trainer->agreement.context, status, sums, &trainer->set, error);
}

/* --- apply --------------------------------------------------------------------------------------------------- */

static ch_status measure_gradient(const ch_trainer *trainer, double loss, double *norm, ch_error *error) {
  const ch_kernels *kernels = trainer->engine.kernels;
  double start = ch_clock();
  *norm = ch_gradient_norm(&trainer->set, kernels, &trainer->engine.team);
  ch_profile_note(trainer->engine.profile, "gradient_norm", start, 0, (double)trainer->set.block_bytes);
  if (isfinite(*norm)) return CH_OK;
  const char *name =
      ch_first_not_finite(&trainer->set, trainer->set.gradients, kernels, &trainer->engine.team);
  return ch_fail(
      error, CH_ERROR_NUMERIC,
      "step %lld: the gradient of %s is not finite (the loss is %g); a lower --lr or --clip may help",
      (long long)trainer->step + 1, name ? name : "all tensors together", loss);
}

/* Clips the gradient and updates the weights. */
static ch_status apply(ch_trainer *trainer, double loss, double *lr, double *norm, ch_error *error) {
  const ch_train_options *options = &trainer->options;
  int64_t step = trainer->step + 1;
  CH_TRY(measure_gradient(trainer, loss, norm, error));
  *lr = ch_schedule_lr(options, step);
  double scale = options->clip > 0 && *norm > options->clip ? options->clip / *norm : 1;
  double start = ch_clock(), parameters = (double)trainer->set.block_bytes;
  ch_adamw_step(&trainer->set, trainer->engine.kernels, &trainer->engine.team, options, step, *lr, scale);
  ch_profile_note(trainer->engine.profile, "adamw", start, 0, 7 * parameters); /* reads 4, writes 3 */
  ch_expert_balance_end(&trainer->balance, trainer->set.memory, trainer->set.weights);
  trainer->losses[trainer->step] = loss;
  trainer->step = step;
  return CH_OK;
}

/* --- the step ------------------------------------------------------------------------------------------------ */

ch_status ch_trainer_step(ch_trainer *trainer, ch_stop_test stop, void *stop_context, ch_step_report *report,
                          ch_error *error) {
  const ch_train_options *options = &trainer->options;
  double start = ch_clock(), lr = 0, norm = 0;
  ch_step_counts counts;
  ch_step_sums sums = {0};
  if (trainer->step >= options->steps)
    return ch_fail(error, CH_ERROR_ARGUMENT, "all %lld steps are done", (long long)options->steps);
  CH_TRY(fetch(trainer, &counts, error));
  ch_trainer_watch(trainer, stop, stop_context, trainer->batch.sequences / trainer->options.micro_batch);
  ch_status status = differentiate(trainer, &counts, stop, stop_context, &sums, error);
  ch_trainer_unwatch(trainer);
  CH_TRY(agree(trainer, status, &sums, error));
  double loss = sums.loss / (double)counts.predicted;
  CH_TRY(apply(trainer, loss, &lr, &norm, error));
  double seconds = ch_clock() - start;
  ch_profile_span(trainer->engine.profile, "step", start);
  trainer->seconds += seconds;
  *report = (ch_step_report){.step = trainer->step,
                             .tokens = trainer->step * counts.sequences * options->sequence,
                             .loss = loss,
                             .lr = lr,
                             .grad_norm = norm,
                             .seconds = seconds,
                             .balance_loss = sums.balance_loss,
                             .expert_layers = trainer->balance.layers,
                             .experts = trainer->balance.experts,
                             .expert_load = trainer->balance.load};
  return CH_OK;
}
