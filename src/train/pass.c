/* One pass of a trainer's model over a micro-batch, and its additions to the sums. */
#include "train/trainer_private.h"

int64_t ch_count_predicted(const int32_t *targets, int64_t count) {
  int64_t predicted = 0;
  for (int64_t i = 0; i < count; i++) predicted += targets[i] >= 0;
  return predicted;
}

int64_t ch_count_text(const int32_t *targets, const int32_t *document_start, int64_t length) {
  while (document_start && length > 0 && targets[length - 1] < 0 && document_start[length - 1] == length - 1)
    length--;
  return length;
}

static double value_at(const ch_trainer *trainer, const void *values, int64_t i) {
  return trainer->options.dtype == CH_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* Adds up rows. A row is a loss, or a loss and the rank of the label's score. Rows without a target have loss
 * 0 and rank -1. */
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

int64_t ch_trainer_micro_batches(const ch_trainer *trainer) {
  return trainer->batch.sequences / trainer->options.micro_batch;
}

ch_batch ch_trainer_part(const ch_trainer *trainer, int64_t index) {
  ch_batch part = trainer->batch;
  int64_t first = index * trainer->options.micro_batch, at = first * part.length;
  part.sequences = trainer->options.micro_batch;
  part.targets += at;
  if (part.tokens) part.tokens += at;
  if (part.pixels) part.pixels += first * ch_trainer_image_elements(trainer);
  if (part.document_start) part.document_start += at;
  return part;
}

static ch_runner_call call_of(const ch_trainer *trainer, int64_t index) {
  const ch_batch part = ch_trainer_part(trainer, index);
  const ch_shards *shards = &trainer->relay.shards;
  return (ch_runner_call){.weights = shards->count ? shards->weights : trainer->set.weights,
                          .tokens = part.tokens,
                          .pixels = part.pixels,
                          .targets = part.targets,
                          .document_start = part.document_start};
}

/* Returns the number of tokens without padding in each sequence of a micro-batch, or NULL if none has padding. */
static const int64_t *text_of(const ch_trainer *trainer, int64_t index) {
  int64_t sequences = trainer->options.micro_batch;
  const int64_t *text = trainer->text + index * sequences;
  for (int64_t s = 0; s < sequences; s++)
    if (text[s] < trainer->batch.length) return text;
  return NULL;
}

static bool pass_stops(void *context) {
  ch_trainer *trainer = context;
  return ch_relay_stops(&trainer->relay);
}

static void pass_share(void *context, double share) {
  const ch_trainer *trainer = context;
  trainer->share(trainer->share_context, ((double)trainer->passes_done + share) / (double)trainer->passes);
}

void ch_trainer_watch(ch_trainer *trainer, int64_t passes) {
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

/* Runs a pass and adds to *sums in the order of micro-batches over all ranks. */
static ch_status run(ch_trainer *trainer, ch_runner *runner, const ch_runner_call *call, int64_t index,
                     ch_pass_sums *sums, ch_error *error) {
  const void *values;
  CH_TRY(ch_runner_run(runner, call, &values, error));
  trainer->passes_done++;
  CH_TRY(ch_relay_take(&trainer->relay, index, sums, error));
  add_rows(trainer, runner, values, sums);
  for (int64_t i = 0; call->routing && i < call->routing->term_count; i++)
    sums->balance_loss += call->routing->terms[i];
  ch_relay_give(&trainer->relay, index, sums);
  return CH_OK;
}

ch_status ch_trainer_forward(ch_trainer *trainer, int64_t index, ch_pass_sums *sums, ch_error *error) {
  ch_runner_call call = call_of(trainer, ch_relay_first(&trainer->relay));
  return run(trainer, trainer->forward, &call, index, sums, error);
}

ch_status ch_trainer_backward(ch_trainer *trainer, int64_t index, double seed, ch_pass_sums *sums,
                              ch_error *error) {
  ch_runner_call call = call_of(trainer, index);
  call.gradients =
      trainer->relay.shards.count ? trainer->relay.shards.gradient_data : trainer->set.gradient_data;
  call.accumulate = call.follows_micro_batch = index > 0;
  /* The sums before this rank's first micro-batch are those of other ranks. */
  call.elsewhere = index > 0 && index == ch_relay_first(&trainer->relay);
  call.more_micro_batches = index + 1 < trainer->relay.micro_batches;
  call.routing = ch_expert_balance_routing(&trainer->balance);
  if (call.routing) {
    call.routing->term_count = 0;
    call.routing->text = text_of(trainer, index);
  }
  call.seed = seed;
  call.listener = trainer->listener;
  return run(trainer, trainer->trainable, &call, index, sums, error);
}
