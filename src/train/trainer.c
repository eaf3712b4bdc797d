/* The trainer: batches through the graph, gradients through the optimizer. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "io/model_files.h"
#include "train/initialise.h"
#include "train/schedule.h"
#include "train/trainer_private.h"

/* Activations of the micro-batch that is chosen when none is asked for: small beside the optimizer's state of a model
   that is slow to train, with rows enough that products run at full speed and are worth a pass over the weights'
   gradients. */
static const size_t preferred_activations = (size_t)640 << 20;

/* --- planning ------------------------------------------------------------------------------------------------ */

static ch_model_graph shape_of(const ch_trainer *trainer, int64_t sequences, bool trainable) {
  return (ch_model_graph){.sequences = sequences,
                          .length = trainer->options.sequence,
                          .dtype = ch_train_real(&trainer->options),
                          .compute = trainer->options.dtype,
                          .head = trainable ? CH_HEAD_LOSS : CH_HEAD_SCORES,
                          .trainable = trainable,
                          .documents = trainer->options.documents,
                          .series =
                              trainable && sequences < trainer->options.batch * trainer->options.accumulate,
                          .label_smoothing = trainer->options.label_smoothing};
}

/* Bytes that activations of `sequences` would take, weights made of atoms not counted. The plan is made without reserving
   its memory. */
static ch_status plan_bytes(ch_trainer *trainer, int64_t sequences, size_t *bytes, ch_error *error) {
  ch_model_graph shape = shape_of(trainer, sequences, true);
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  ch_plan *plan = NULL;
  ch_plan_options options = {
      .backward = true, .recompute = trainer->options.recompute, .series = shape.series};
  ch_model_build(&trainer->config, &trainer->params, &shape, &graph, &root);
  CH_TRY(ch_plan_create(graph, root, trainer->engine.kernels, &options, &plan, error));
  *bytes = ch_plan_bytes(plan) - ch_plan_settled_bytes(plan);
  ch_plan_free(plan);
  return CH_OK;
}

/* The largest divisor of the batch whose activations are small; 1 when none are. */
static ch_status choose_micro_batch(ch_trainer *trainer, ch_error *error) {
  int64_t batch = trainer->options.batch;
  size_t one = 0, two = 0;
  trainer->options.micro_batch = 1;
  if (batch == 1) return CH_OK;
  /* Bytes grow by the same amount with every sequence (the loss's chunk of logits aside). */
  CH_TRY(plan_bytes(trainer, 1, &one, error));
  CH_TRY(plan_bytes(trainer, 2, &two, error));
  size_t each = two > one ? two - one : 1;
  for (int64_t n = 2; n <= batch && one + (size_t)(n - 1) * each <= preferred_activations; n++)
    if (batch % n == 0) trainer->options.micro_batch = n;
  return CH_OK;
}

ch_status ch_trainer_plan(ch_trainer *trainer, ch_error *error) {
  ch_runner_free(trainer->trainable);
  ch_runner_free(trainer->forward);
  trainer->trainable = trainer->forward = NULL;
  ch_model_graph training = shape_of(trainer, trainer->options.micro_batch, true);
  ch_model_graph evaluation = shape_of(trainer, trainer->options.micro_batch, false);
  CH_TRY(ch_runner_create(&trainer->engine, &trainer->config, &trainer->params, &training,
                          trainer->options.recompute, &trainer->trainable, error));
  return ch_runner_create(&trainer->engine, &trainer->config, &trainer->params, &evaluation, false,
                          &trainer->forward, error);
}

/* --- creation ------------------------------------------------------------------------------------------------ */

static ch_status no_memory(ch_error *error) {
  return ch_fail(error, CH_ERROR_MEMORY, "no memory for a trainer");
}

ch_status ch_trainer_reserve(ch_trainer *trainer, int64_t steps, int64_t points, ch_error *error) {
  if (steps > trainer->losses_capacity) {
    double *losses = realloc(trainer->losses, (size_t)steps * sizeof *losses);
    if (!losses) return no_memory(error);
    trainer->losses = losses;
    trainer->losses_capacity = steps;
  }
  if (points > trainer->validation_capacity) {
    ch_validation_point *validation = realloc(trainer->validation, (size_t)points * sizeof *validation);
    if (!validation) return no_memory(error);
    trainer->validation = validation;
    trainer->validation_capacity = points;
  }
  return CH_OK;
}

/* Elements of an image; 0 where the model takes text. */
static int64_t image_elements(const ch_trainer *trainer) {
  const ch_config *c = &trainer->config;
  return ch_config_is_vision(c) ? c->num_channels * c->image_size * c->image_size : 0;
}

static ch_status reserve_batch(ch_trainer *trainer, ch_error *error) {
  const ch_train_options *options = &trainer->options;
  int64_t elements = image_elements(trainer);
  ch_batch *batch = &trainer->batch;
  batch->sequences = options->batch * options->accumulate;
  batch->length = options->sequence;
  size_t bytes = (size_t)ch_train_step_tokens(options) * sizeof(int32_t);
  batch->targets = malloc(bytes);
  if (elements)
    batch->pixels = malloc((size_t)(batch->sequences * elements) * sizeof *batch->pixels);
  else
    batch->tokens = malloc(bytes);
  if (options->documents) batch->document_start = malloc(bytes);
  bool enough =
      (batch->tokens || batch->pixels) && batch->targets && (batch->document_start || !options->documents);
  return enough ? CH_OK : no_memory(error);
}

static ch_status declare(const char *stored, const ch_config *config, ch_params *params, ch_error *error) {
  if (!stored) return ch_model_declare(config, params, error);
  if (ch_is_directory(stored)) return ch_model_declare_stored(stored, config, params, error);
  return ch_model_declare_saved(stored, "weight.", config, params, error);
}

static ch_status set_up(ch_trainer *trainer, const char *stored, ch_error *error) {
  ch_train_options *options = &trainer->options;
  trainer->chosen_micro_batch = options->micro_batch == 0;
  trainer->chosen_warmup = options->warmup < 0;
  options->warmup = ch_schedule_warmup(options);
  CH_TRY(declare(stored, &trainer->config, &trainer->params, error));
  CH_TRY(ch_engine_init(&trainer->engine, ch_train_real(options), error));
  trainer->engine.compute = options->dtype;
  CH_TRY(ch_parameter_set_create(&trainer->set, &trainer->params, ch_train_real(options), error));
  CH_TRY(ch_expert_balance_create(&trainer->config, &trainer->params, &trainer->balance, error));
  if (trainer->chosen_micro_batch) CH_TRY(choose_micro_batch(trainer, error));
  CH_TRY(ch_trainer_plan(trainer, error));
  CH_TRY(reserve_batch(trainer, error));
  int64_t points = options->eval_every > 0 ? options->steps / options->eval_every : 0;
  CH_TRY(ch_trainer_reserve(trainer, options->steps, points + 2, error));
  ch_initialise(&trainer->params, options->seed, trainer->set.weights);
  return CH_OK;
}

ch_status ch_trainer_create_like(const char *stored, const ch_config *config, const ch_train_options *options,
                                 const ch_source *source, ch_trainer **result, ch_error *error) {
  *result = NULL;
  CH_TRY(ch_train_options_check(options, config, error));
  ch_trainer *trainer = calloc(1, sizeof *trainer);
  if (!trainer) return no_memory(error);
  trainer->config = *config;
  trainer->options = *options;
  trainer->source = *source;
  ch_status status = set_up(trainer, stored, error);
  if (status != CH_OK) {
    ch_trainer_free(trainer);
    return status;
  }
  *result = trainer;
  return CH_OK;
}

ch_status ch_trainer_create(const ch_config *config, const ch_train_options *options, const ch_source *source,
                            ch_trainer **trainer, ch_error *error) {
  return ch_trainer_create_like(NULL, config, options, source, trainer, error);
}

void ch_trainer_free(ch_trainer *trainer) {
  if (!trainer) return;
  ch_runner_free(trainer->trainable);
  ch_runner_free(trainer->forward);
  ch_engine_free(&trainer->engine);
  ch_parameter_set_free(&trainer->set);
  ch_expert_balance_free(&trainer->balance);
  ch_params_free(&trainer->params);
  free(trainer->batch.tokens);
  free(trainer->batch.targets);
  free(trainer->batch.document_start);
  free(trainer->batch.pixels);
  free(trainer->losses);
  free(trainer->validation);
  free(trainer);
}

ch_status ch_trainer_load_weights(ch_trainer *trainer, const char *directory, ch_error *error) {
  if (trainer->step > 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "weights can only be loaded before the first step");
  ch_weights weights = {0};
  bool wide = trainer->options.dtype == CH_F64;
  CH_TRY(ch_weights_open(directory, &trainer->config, &trainer->params,
                         wide ? CH_WEIGHTS_F64 : CH_WEIGHTS_F32, &weights, error));
  for (int p = 0; p < trainer->params.count; p++)
    memcpy(trainer->set.weights[p].data, weights.tensors[p].data, ch_tensor_bytes(&trainer->set.weights[p]));
  ch_weights_close(&weights);
  return CH_OK;
}

/* --- a step -------------------------------------------------------------------------------------------------- */

static int64_t count_predicted(const int32_t *targets, int64_t count) {
  int64_t predicted = 0;
  for (int64_t i = 0; i < count; i++) predicted += targets[i] >= 0;
  return predicted;
}

static double value_at(const ch_trainer *trainer, const void *values, int64_t i) {
  return trainer->options.dtype == CH_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* What passes add up to. */
typedef struct sums {
  double loss;
  int64_t first, first_five; /* images whose label is the first choice, or among the first five */
} sums;

/* A row is a loss, or a loss and the place of the label. Rows without a target have no loss, and the place -1. */
static void add_rows(const ch_trainer *trainer, const ch_runner *runner, const void *values, sums *all) {
  int64_t rows = trainer->options.micro_batch * trainer->batch.length, columns = ch_runner_columns(runner);
  for (int64_t r = 0; r < rows; r++) {
    all->loss += value_at(trainer, values, r * columns);
    double place = columns > 1 ? value_at(trainer, values, r * columns + 1) : -1;
    all->first += place == 0;
    all->first_five += place >= 0 && place < 5;
  }
}

/* Runs the sequences from `first` on of the trainer's batch and adds up what they say. */
static ch_status pass(ch_trainer *trainer, ch_runner *runner, int64_t first, double seed, sums *all,
                      ch_error *error) {
  const ch_batch *batch = &trainer->batch;
  int64_t at = first * batch->length;
  bool training = runner == trainer->trainable;
  ch_runner_call call = {.weights = trainer->set.weights,
                         .tokens = batch->tokens ? batch->tokens + at : NULL,
                         .pixels = batch->pixels ? batch->pixels + first * image_elements(trainer) : NULL,
                         .targets = batch->targets + at,
                         .document_start = batch->document_start ? batch->document_start + at : NULL,
                         .gradients = training ? trainer->set.gradient_data : NULL,
                         .accumulate = first > 0,
                         .continues = training && first > 0,
                         .more = training && first + trainer->options.micro_batch < batch->sequences,
                         .routing = training ? ch_expert_balance_routing(&trainer->balance) : NULL,
                         .seed = seed};
  const void *values;
  CH_TRY(ch_runner_run(runner, &call, &values, error));
  add_rows(trainer, runner, values, all);
  return CH_OK;
}

static ch_status stopped(ch_error *error, int64_t step) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted in step %lld, which was not applied",
                 (long long)step);
}

static ch_status loss_not_finite(const ch_trainer *trainer, int64_t step, double loss, ch_error *error) {
  const ch_kernels *kernels = trainer->engine.kernels;
  const char *weight = ch_first_not_finite(&trainer->set, trainer->set.weights, kernels);
  if (weight)
    return ch_fail(error, CH_ERROR_NUMERIC,
                   "step %lld: the loss is %g because the weight %s holds a value that is not finite",
                   (long long)step, loss, weight);
  const char *gradient = ch_first_not_finite(&trainer->set, trainer->set.gradients, kernels);
  return ch_fail(error, CH_ERROR_NUMERIC,
                 "step %lld: the loss is %g%s%s; the weights before it are finite, a lower --lr may help",
                 (long long)step, loss, gradient ? ", and not finite is the gradient of " : "",
                 gradient ? gradient : "");
}

/* Forward and backward of the whole step: the mean gradient in the set, the mean loss in *loss. */
static ch_status differentiate(ch_trainer *trainer, ch_stop_test stop, void *stop_context, double *loss,
                               ch_error *error) {
  ch_batch *batch = &trainer->batch;
  int64_t step = trainer->step + 1, sequences = batch->sequences;
  CH_TRY(trainer->source.train(trainer->source.context, trainer->step * sequences, batch, error));
  int64_t predicted = count_predicted(batch->targets, sequences * batch->length);
  if (predicted == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "step %lld has nothing to predict", (long long)step);
  sums all = {0};
  ch_expert_balance_begin(&trainer->balance, sequences);
  for (int64_t first = 0; first < sequences; first += trainer->options.micro_batch) {
    if (stop && stop(stop_context)) return stopped(error, step);
    CH_TRY(pass(trainer, trainer->trainable, first, 1 / (double)predicted, &all, error));
    if (!isfinite(all.loss)) return loss_not_finite(trainer, step, all.loss, error);
  }
  *loss = all.loss / (double)predicted;
  return CH_OK;
}

ch_status ch_trainer_step(ch_trainer *trainer, ch_stop_test stop, void *stop_context, ch_step_report *report,
                          ch_error *error) {
  const ch_train_options *options = &trainer->options;
  const ch_kernels *kernels = trainer->engine.kernels;
  double start = ch_clock(), loss = 0;
  int64_t step = trainer->step + 1;
  if (step > options->steps)
    return ch_fail(error, CH_ERROR_ARGUMENT, "all %lld steps are done", (long long)options->steps);
  CH_TRY(differentiate(trainer, stop, stop_context, &loss, error));
  double differentiated = ch_clock();
  double norm = ch_gradient_norm(&trainer->set, kernels);
  ch_profile_note(trainer->engine.profile, "gradient_norm", differentiated, 0,
                  (double)trainer->set.block_bytes);
  if (!isfinite(norm)) {
    const char *name = ch_first_not_finite(&trainer->set, trainer->set.gradients, kernels);
    return ch_fail(
        error, CH_ERROR_NUMERIC,
        "step %lld: the gradient of %s is not finite (the loss is %g); a lower --lr or --clip may help",
        (long long)step, name ? name : "all tensors together", loss);
  }
  double lr = ch_schedule_lr(options, step);
  double scale = options->clip > 0 && norm > options->clip ? options->clip / norm : 1;
  double before = ch_clock(), parameters = (double)trainer->set.block_bytes;
  ch_adamw_step(&trainer->set, kernels, options, step, lr, scale);
  ch_profile_note(trainer->engine.profile, "adamw", before, 0, 7 * parameters); /* reads 4, writes 3 */
  ch_expert_balance_end(&trainer->balance, trainer->set.weights);
  trainer->losses[trainer->step] = loss;
  trainer->step = step;
  double seconds = ch_clock() - start;
  ch_profile_span(trainer->engine.profile, "step", start);
  trainer->seconds += seconds;
  *report = (ch_step_report){.step = step,
                             .tokens = step * ch_train_step_tokens(options),
                             .loss = loss,
                             .lr = lr,
                             .grad_norm = norm,
                             .seconds = seconds,
                             .balance_loss = trainer->balance.routing.balance_loss,
                             .expert_layers = trainer->balance.layers,
                             .experts = trainer->balance.experts,
                             .expert_load = trainer->balance.load};
  return CH_OK;
}

/* --- evaluation ---------------------------------------------------------------------------------------------- */

bool ch_trainer_can_evaluate(const ch_trainer *trainer) {
  return trainer->source.validation_sequences > 0;
}

const char *ch_trainer_unit(const ch_trainer *trainer) {
  return ch_config_is_vision(&trainer->config) ? "images" : "tokens";
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

/* What sums over `predicted` rows say of the weights as they are. */
static ch_validation_point point_of(const ch_trainer *trainer, const sums *all, int64_t predicted) {
  ch_validation_point point = {
      .step = trainer->step, .loss = all->loss / (double)predicted, .top1 = -1, .top5 = -1};
  if (!trainer->batch.pixels) return point;
  point.top1 = (double)all->first / (double)predicted;
  point.top5 = (double)all->first_five / (double)predicted;
  return point;
}

/* Rows past the last sequence asked for are computed, as the plan's shape is fixed, but predict nothing. */
static void silence(ch_batch *batch, int64_t sequences) {
  for (int64_t i = sequences * batch->length; i < batch->sequences * batch->length; i++)
    batch->targets[i] = -1;
}

ch_status ch_trainer_evaluate(ch_trainer *trainer, ch_stop_test stop, void *stop_context, double *loss,
                              ch_error *error) {
  int64_t total = evaluation_sequences(trainer), predicted = 0, micro = trainer->options.micro_batch;
  if (total == 0) return ch_fail(error, CH_ERROR_ARGUMENT, "there is nothing to validate on");
  sums all = {0};
  for (int64_t first = 0; first < total; first += micro) {
    if (stop && stop(stop_context))
      return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted in the evaluation after step %lld",
                     (long long)trainer->step);
    ch_batch part = trainer->batch;
    part.sequences = micro;
    CH_TRY(trainer->source.validate(trainer->source.context, first, &part, error));
    if (total - first < micro) silence(&part, total - first);
    predicted += count_predicted(part.targets, micro * part.length);
    CH_TRY(pass(trainer, trainer->forward, 0, 0, &all, error));
  }
  if (predicted == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "there is nothing to predict in what validates");
  ch_validation_point point = point_of(trainer, &all, predicted);
  *loss = point.loss;
  if (!isfinite(*loss))
    return ch_fail(error, CH_ERROR_NUMERIC, "the validation loss after step %lld is %g",
                   (long long)trainer->step, *loss);
  return record_validation(trainer, point, error);
}

/* --- what others may see ------------------------------------------------------------------------------------- */

void ch_trainer_progress(const ch_trainer *trainer, ch_progress_record *record) {
  *record = (ch_progress_record){.step = trainer->step,
                                 .steps = trainer->options.steps,
                                 .tokens = trainer->step * ch_train_step_tokens(&trainer->options),
                                 .seconds = trainer->seconds,
                                 .losses = trainer->losses,
                                 .validation = trainer->validation,
                                 .validation_points = trainer->validation_points};
}

ch_status ch_trainer_export(const ch_trainer *trainer, const char *directory, ch_error *error) {
  return ch_model_write(directory, &trainer->config, &trainer->params, trainer->set.weights,
                        ch_train_real(&trainer->options), error);
}

const ch_params *ch_trainer_params(const ch_trainer *trainer) {
  return &trainer->params;
}

const ch_tensor *ch_trainer_weights(const ch_trainer *trainer) {
  return trainer->set.weights;
}

const ch_train_options *ch_trainer_options(const ch_trainer *trainer) {
  return &trainer->options;
}

const ch_config *ch_trainer_config(const ch_trainer *trainer) {
  return &trainer->config;
}

ch_engine *ch_trainer_engine(ch_trainer *trainer) {
  return &trainer->engine;
}

bool ch_trainer_expert_shares(const ch_trainer *trainer, double *least, double *most) {
  ch_expert_balance_shares(&trainer->balance, least, most);
  return *least <= *most;
}

size_t ch_trainer_bytes(const ch_trainer *trainer) {
  return 4 * trainer->set.block_bytes + trainer->engine.workspace.bytes;
}

double ch_trainer_step_flops(const ch_trainer *trainer) {
  double passes = (double)trainer->batch.sequences / (double)trainer->options.micro_batch;
  return 3 * passes * ch_runner_flops(trainer->trainable);
}
