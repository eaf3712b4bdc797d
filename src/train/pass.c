/* One pass of a trainer's model over a micro-batch, and what it adds to the sums. */
#include "train/trainer_private.h"

int64_t ch_count_predicted(const int32_t *targets, int64_t count) {
  int64_t predicted = 0;
  for (int64_t i = 0; i < count; i++) predicted += targets[i] >= 0;
  return predicted;
}

static double value_at(const ch_trainer *trainer, const void *values, int64_t i) {
  return trainer->options.dtype == CH_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* A row is a loss, or a loss and the rank of the label's score. Rows without a target have loss 0 and rank -1. */
static void add_rows(const ch_trainer *trainer, const ch_runner *runner, const void *values,
                     ch_pass_sums *sums) {
  int64_t rows = trainer->options.micro_batch * trainer->batch.length, columns = ch_runner_columns(runner);
  for (int64_t r = 0; r < rows; r++) {
    sums->loss += value_at(trainer, values, r * columns);
    double rank = columns > 1 ? value_at(trainer, values, r * columns + 1) : -1;
    sums->top1 += rank == 0;
    sums->top5 += rank >= 0 && rank < 5;
  }
}

static ch_runner_call call_of(const ch_trainer *trainer, int64_t first) {
  const ch_batch *batch = &trainer->batch;
  int64_t at = first * batch->length;
  return (ch_runner_call){.weights = trainer->set.weights,
                          .tokens = batch->tokens ? batch->tokens + at : NULL,
                          .pixels = batch->pixels ? batch->pixels + first * ch_trainer_image_elements(trainer)
                                                  : NULL,
                          .targets = batch->targets + at,
                          .document_start = batch->document_start ? batch->document_start + at : NULL};
}

static bool pass_stops(void *context) {
  const ch_trainer *trainer = context;
  return trainer->stop && trainer->stop(trainer->stop_context);
}

static void pass_share(void *context, double share) {
  const ch_trainer *trainer = context;
  trainer->share(trainer->share_context, ((double)trainer->passes_done + share) / (double)trainer->passes);
}

void ch_trainer_watch(ch_trainer *trainer, ch_stop_test stop, void *stop_context, int64_t passes) {
  trainer->stop = stop;
  trainer->stop_context = stop_context;
  trainer->passes = passes;
  trainer->passes_done = 0;
  ch_engine_watch(&trainer->engine, pass_stops, trainer->share ? pass_share : NULL, trainer);
}

void ch_trainer_unwatch(ch_trainer *trainer) {
  ch_engine_watch(&trainer->engine, NULL, NULL, NULL);
}

void ch_trainer_tell_share(ch_trainer *trainer, ch_share_sink sink, void *context) {
  trainer->share = sink;
  trainer->share_context = context;
}

static ch_status run(ch_trainer *trainer, ch_runner *runner, const ch_runner_call *call, ch_pass_sums *sums,
                     ch_error *error) {
  const void *values;
  CH_TRY(ch_runner_run(runner, call, &values, error));
  trainer->passes_done++;
  add_rows(trainer, runner, values, sums);
  return CH_OK;
}

ch_status ch_trainer_forward(ch_trainer *trainer, ch_pass_sums *sums, ch_error *error) {
  ch_runner_call call = call_of(trainer, 0);
  return run(trainer, trainer->forward, &call, sums, error);
}

static void gradient_final(void *context, int parameter) {
  const ch_trainer *trainer = context;
  trainer->agreement.gradient_final(trainer->agreement.context, &trainer->set, parameter);
}

ch_status ch_trainer_backward(ch_trainer *trainer, int64_t first, double seed, ch_pass_sums *sums,
                              ch_error *error) {
  const ch_gradient_listener listener = {.final = gradient_final, .context = trainer};
  ch_runner_call call = call_of(trainer, first);
  call.gradients = trainer->set.gradient_data;
  call.accumulate = call.follows_micro_batch = first > 0;
  call.more_micro_batches = first + trainer->options.micro_batch < trainer->batch.sequences;
  call.routing = ch_expert_balance_routing(&trainer->balance);
  call.seed = seed;
  call.listener = trainer->agreement.gradient_final ? &listener : NULL;
  return run(trainer, trainer->trainable, &call, sums, error);
}
