/* Creates a trainer with its plans, memory and initial weights, and gives access to its members. step.c trains,
 * evaluation.c validates, checkpoint.c saves. */
#include "train/trainer.h"

#include <stdlib.h>

#include "base/file.h"
#include "io/model_files.h"
#include "train/gather.h"
#include "train/initialise.h"
#include "train/schedule.h"
#include "train/trainer_private.h"

/* The largest size in bytes of a chosen micro-batch's activations. It is small compared with the optimizer's state of
   models that are slow to train, and large enough for matrix products at full speed. */
static const size_t preferred_activations = (size_t)640 << 20;

/* --- planning ------------------------------------------------------------------------------------------- */

/* Returns true if the ranks divide the columns of the gates' lookup tables among them. */
static bool divides_tables(const ch_trainer *trainer) {
  return trainer->rank_count > 1 && !trainer->options.whole_tables;
}

static ch_model_graph shape_of(const ch_trainer *trainer, int64_t sequences, bool trainable) {
  return (ch_model_graph){.sequences = sequences,
                          .length = trainer->options.sequence,
                          .dtype = ch_train_real(&trainer->options),
                          .compute = trainer->options.dtype,
                          .head = trainable ? CH_HEAD_LOSS : CH_HEAD_SCORES,
                          .trainable = trainable,
                          .table_shares = divides_tables(trainer) ? trainer->rank_count : 0,
                          .documents = trainer->options.documents,
                          .accumulation =
                              trainable && sequences < trainer->options.batch * trainer->options.accumulate,
                          .label_smoothing = trainer->options.label_smoothing};
}

/* Computes the bytes of the activations of `sequences`, and in *made those that depend on parameters only, such as
   weights that are sums of atoms. The plan is created, but its memory is not reserved. */
static ch_status plan_bytes(ch_trainer *trainer, int64_t sequences, bool trainable, size_t *bytes,
                            size_t *made, ch_error *error) {
  ch_model_graph shape = shape_of(trainer, sequences, trainable);
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  ch_plan *plan = NULL;
  ch_plan_options options = {.backward = trainable,
                             .recompute = trainable && trainer->options.recompute,
                             .accumulation = shape.accumulation};
  ch_model_build(&trainer->config, &trainer->params, &shape, &graph, &root);
  CH_TRY(ch_plan_create(graph, root, trainer->engine.kernels, &trainer->engine.team, &options, &plan, error));
  *bytes = ch_plan_bytes(plan);
  *made = ch_plan_parameter_only_bytes(plan);
  ch_plan_free(plan);
  return CH_OK;
}

/* Sets options.micro_batch to the largest divisor of the batch whose activations need at most preferred_activations
 * bytes, or to 1. */
static ch_status choose_micro_batch(ch_trainer *trainer, ch_error *error) {
  int64_t batch = trainer->options.batch;
  size_t one = 0, two = 0, made = 0;
  trainer->options.micro_batch = 1;
  if (batch == 1) return CH_OK;
  /* Every further sequence adds the same number of bytes (apart from the loss's chunk of logits). */
  CH_TRY(plan_bytes(trainer, 1, true, &one, &made, error));
  one -= made;
  CH_TRY(plan_bytes(trainer, 2, true, &two, &made, error));
  two -= made;
  size_t each = two > one ? two - one : 1;
  for (int64_t n = 2; n <= batch && one + (size_t)(n - 1) * each <= preferred_activations; n++)
    if (batch % n == 0) trainer->options.micro_batch = n;
  return CH_OK;
}

/* --- storage of parameters over ranks ------------------------------------------------------------------- */

/* Clears rounded[p] of each parameter p that the graph of training (`trainable`) or of evaluation reads unrounded. */
static ch_status find_rounded(ch_trainer *trainer, bool trainable, bool *rounded, ch_error *error) {
  ch_model_graph shape = shape_of(trainer, trainer->options.micro_batch, trainable);
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  ch_model_build(&trainer->config, &trainer->params, &shape, &graph, &root);
  if (!graph) return ch_no_memory(error);
  for (int p = 0; p < trainer->params.count; p++) rounded[p] = rounded[p] && ch_reads_rounded(graph, p);
  ch_graph_free(graph);
  return CH_OK;
}

static ch_status choose_keeping(ch_trainer *trainer, ch_keeping *keeping, bool *rounded, ch_error *error) {
  bool several = trainer->rank_count > 1 && trainer->options.dtype == CH_BF16;
  for (int p = 0; p < trainer->params.count; p++)
    rounded[p] = several && !trainer->params.rows[p].decay_to_identity;
  if (several) CH_TRY(find_rounded(trainer, true, rounded, error));
  if (several) CH_TRY(find_rounded(trainer, false, rounded, error));
  for (int p = 0; p < trainer->params.count; p++) {
    bool table = ch_parameter_is_table(&trainer->params.rows[p]) && divides_tables(trainer);
    keeping[p] = table ? CH_KEPT_COLUMNS : rounded[p] ? CH_KEPT_ROUNDED : CH_KEPT_WHOLE;
  }
  return CH_OK;
}

/* Allocates keeping [params], and chooses how each parameter is stored. Release *keeping with free, also after a
 * failure. */
static ch_status find_keeping(ch_trainer *trainer, ch_keeping **keeping, ch_error *error) {
  size_t count = (size_t)trainer->params.count;
  bool *rounded = calloc(count + 1, sizeof *rounded);
  *keeping = calloc(count + 1, sizeof **keeping);
  ch_status status =
      *keeping && rounded ? choose_keeping(trainer, *keeping, rounded, error) : ch_no_memory(error);
  free(rounded);
  return status;
}

/* Creates the set of weights, gradients and moments for options.micro_batch. */
static ch_status create_set(ch_trainer *trainer, ch_error *error) {
  ch_keeping *keeping;
  ch_status status = find_keeping(trainer, &keeping, error);
  if (status == CH_OK)
    status = ch_parameter_set_create_part(&trainer->set, &trainer->params, trainer->engine.kernels,
                                          ch_own_rank(trainer->ranks), ch_rank_count(trainer->ranks), keeping,
                                          error);
  if (status == CH_OK && trainer->rank_count > 1) ch_gemm_by_panels(trainer->engine.gemm);
  free(keeping);
  return status;
}

/* Fails unless every rank has the same number of micro-batches of a step. */
static ch_status check_shares(const ch_trainer *trainer, ch_error *error) {
  const ch_train_options *o = &trainer->options;
  int ranks = ch_rank_count(trainer->ranks);
  int64_t each = o->micro_batch, all = o->batch * o->accumulate / each;
  if (all % ranks == 0) return CH_OK;
  for (int64_t m = each; m >= 1; m--)
    if (o->batch % m == 0 && o->batch / m * o->accumulate % ranks == 0)
      return ch_fail(
          error, CH_ERROR_ARGUMENT,
          "%d ranks cannot share the %lld %s of a step ({batch} %lld, {micro_batch} %lld, {accumulate} "
          "%lld); {micro_batch} %lld makes %lld of them",
          ranks, (long long)all, all == 1 ? "micro-batch" : "micro-batches", (long long)o->batch,
          (long long)each, (long long)o->accumulate, (long long)m, (long long)(o->batch / m * o->accumulate));
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "%d ranks cannot share the %lld sequences of a step evenly; choose {batch} and {accumulate} so that "
      "their product is a multiple of %d",
      ranks, (long long)(o->batch * o->accumulate), ranks);
}

/* Plans the runners of training and of evaluation for options.micro_batch. Earlier runners are freed. */
static ch_status plan_runners(ch_trainer *trainer, ch_error *error) {
  CH_TRY(check_shares(trainer, error));
  ch_relay_free(&trainer->relay);
  ch_runner_free(trainer->trainable);
  ch_runner_free(trainer->forward);
  trainer->trainable = trainer->forward = NULL;
  ch_model_graph training = shape_of(trainer, trainer->options.micro_batch, true);
  ch_model_graph evaluation = shape_of(trainer, trainer->options.micro_batch, false);
  CH_TRY(ch_runner_create(&trainer->engine, &trainer->config, &trainer->params, &training,
                          trainer->options.recompute, &trainer->trainable, error));
  CH_TRY(ch_runner_create(&trainer->engine, &trainer->config, &trainer->params, &evaluation, false,
                          &trainer->forward, error));
  const ch_expert_balance *balance = &trainer->balance;
  CH_TRY(ch_relay_create(&trainer->relay, trainer->ranks, &trainer->engine, trainer->trainable, &trainer->set,
                         balance->layers * balance->experts,
                         trainer->options.micro_batch * trainer->batch.length, error));
  trainer->listener = ch_relay_listener(&trainer->relay);
  return CH_OK;
}

ch_status ch_trainer_plan_again(ch_trainer *trainer, ch_error *error) {
  ch_relay_free(&trainer->relay);
  ch_parameter_set_free(&trainer->set);
  CH_TRY(create_set(trainer, error));
  return plan_runners(trainer, error);
}

/* --- creation ------------------------------------------------------------------------------------------- */

ch_status ch_trainer_reserve(ch_trainer *trainer, int64_t steps, int64_t points, ch_error *error) {
  if (steps > trainer->losses_capacity) {
    double *losses = realloc(trainer->losses, (size_t)steps * sizeof *losses);
    if (!losses) return ch_no_memory(error);
    trainer->losses = losses;
    trainer->losses_capacity = steps;
  }
  if (points > trainer->validation_capacity) {
    ch_validation_point *validation = realloc(trainer->validation, (size_t)points * sizeof *validation);
    if (!validation) return ch_no_memory(error);
    trainer->validation = validation;
    trainer->validation_capacity = points;
  }
  return CH_OK;
}

int64_t ch_trainer_image_elements(const ch_trainer *trainer) {
  const ch_config *c = &trainer->config;
  return ch_config_is_vision(c) ? c->num_channels * c->image_size * c->image_size : 0;
}

static ch_status reserve_batch(ch_trainer *trainer, ch_error *error) {
  const ch_train_options *options = &trainer->options;
  int64_t elements = ch_trainer_image_elements(trainer);
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
  trainer->text = calloc((size_t)batch->sequences, sizeof *trainer->text);
  bool enough = trainer->text && (batch->tokens || batch->pixels) && batch->targets &&
                (batch->document_start || !options->documents);
  return enough ? CH_OK : ch_no_memory(error);
}

static ch_status declare(const char *stored, const ch_config *config, ch_params *params, ch_error *error) {
  if (!stored) return ch_model_declare(config, params, error);
  if (ch_is_directory(stored)) return ch_model_declare_stored(stored, config, params, error);
  return ch_model_declare_saved(stored, "weight.", config, params, error);
}

static ch_status initialise(ch_trainer *trainer, const ch_trainer_start *start, ch_error *error) {
  const ch_parameter_set *set = &trainer->set;
  ch_tensor whole = {.dtype = set->dtype, .data = malloc(ch_trainer_largest(trainer))};
  if (!whole.data) return ch_no_memory(error);
  for (int p = 0; p < trainer->params.count; p++) {
    if (!ch_initialise_one(&trainer->params.rows[p], trainer->options.seed, &whole, start->stop,
                           start->stop_context)) {
      free(whole.data);
      return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted before the first step; nothing was trained");
    }
    ch_parameter_set_put(set, trainer->engine.kernels, &trainer->engine.team, CH_WEIGHTS, p, whole.data);
  }
  free(whole.data);
  return CH_OK;
}

static ch_status set_up(ch_trainer *trainer, const ch_trainer_start *start, ch_error *error) {
  ch_train_options *options = &trainer->options;
  trainer->chosen_micro_batch = options->micro_batch == 0;
  trainer->chosen_warmup = options->warmup < 0;
  options->warmup = ch_schedule_warmup(options);
  CH_TRY(declare(start->stored, &trainer->config, &trainer->params, error));
  CH_TRY(ch_engine_init(&trainer->engine, ch_train_real(options), error));
  trainer->engine.compute = options->dtype;
  if (trainer->chosen_micro_batch) CH_TRY(choose_micro_batch(trainer, error));
  CH_TRY(create_set(trainer, error));
  CH_TRY(ch_expert_balance_create(&trainer->config, &trainer->params, &trainer->balance, error));
  CH_TRY(reserve_batch(trainer, error));
  CH_TRY(plan_runners(trainer, error));
  int64_t points = options->eval_every > 0 ? options->steps / options->eval_every : 0;
  CH_TRY(ch_trainer_reserve(trainer, options->steps, points + 2, error));
  return initialise(trainer, start, error);
}

static ch_status create(const ch_trainer_start *start, const ch_config *config,
                        const ch_train_options *options, const ch_batch_source *source, ch_trainer **result,
                        ch_error *error) {
  CH_TRY(ch_train_options_check(options, config, error));
  ch_trainer *trainer = calloc(1, sizeof *trainer);
  if (!trainer) return ch_no_memory(error);
  *result = trainer;
  trainer->config = *config;
  trainer->options = *options;
  trainer->source = *source;
  trainer->ranks = start->ranks;
  trainer->rank_count = ch_rank_count(start->ranks);
  return set_up(trainer, start, error);
}

ch_status ch_trainer_create_over(const ch_trainer_start *start, const ch_config *config,
                                 const ch_train_options *options, const ch_batch_source *source,
                                 ch_trainer **result, ch_error *error) {
  *result = NULL;
  ch_status status = create(start, config, options, source, result, error);
  status = ch_agree(start->ranks, status, error);
  if (status == CH_OK) return CH_OK;
  ch_trainer_free(*result);
  *result = NULL;
  return status;
}

ch_status ch_trainer_create_like(const char *stored, const ch_config *config, const ch_train_options *options,
                                 const ch_batch_source *source, ch_trainer **trainer, ch_error *error) {
  const ch_trainer_start start = {.stored = stored};
  return ch_trainer_create_over(&start, config, options, source, trainer, error);
}

ch_status ch_trainer_create(const ch_config *config, const ch_train_options *options,
                            const ch_batch_source *source, ch_trainer **trainer, ch_error *error) {
  return ch_trainer_create_like(NULL, config, options, source, trainer, error);
}

/* Computes the memory of the rank that needs the most. Ranks differ if columns of tables are not divided evenly. */
static ch_status add_up(ch_trainer *trainer, ch_train_memory *memory, ch_error *error) {
  const ch_train_options *o = &trainer->options;
  ch_dtype real = ch_train_real(o);
  int ranks = trainer->rank_count;
  ch_keeping *keeping;
  size_t activations = 0, evaluation = 0, made;
  ch_status status = find_keeping(trainer, &keeping, error);
  if (status == CH_OK) status = plan_bytes(trainer, o->micro_batch, true, &activations, &made, error);
  if (status == CH_OK) status = plan_bytes(trainer, o->micro_batch, false, &evaluation, &made, error);
  if (evaluation > activations) activations = evaluation; /* training and evaluation share the memory */
  for (int r = 0; r < ranks && status == CH_OK; r++) {
    ch_parameter_bytes set = ch_parameter_bytes_of(&trainer->params, real, r, ranks, keeping);
    ch_train_memory here = {.weights = (int64_t)set.weights,
                            .gradients = (int64_t)set.gradients,
                            .masters = (int64_t)set.masters,
                            .moments = (int64_t)set.moments,
                            .activations = (int64_t)activations};
    if (divides_tables(trainer))
      here.exchange =
          (int64_t)ch_shards_bytes_of(&trainer->params, real, o->micro_batch * o->sequence, r, ranks);
    here.total =
        here.weights + here.gradients + here.masters + here.moments + here.exchange + here.activations;
    if (here.total > memory->total) *memory = here;
  }
  free(keeping);
  return status;
}

ch_status ch_trainer_memory(const char *stored, const ch_config *config, const ch_train_options *options,
                            int ranks, ch_train_memory *memory, ch_error *error) {
  ch_trainer *trainer = calloc(1, sizeof *trainer);
  if (!trainer) return ch_no_memory(error);
  *memory = (ch_train_memory){0};
  trainer->config = *config;
  trainer->options = *options;
  trainer->rank_count = ranks;
  ch_status status = declare(stored, &trainer->config, &trainer->params, error);
  if (status == CH_OK) status = ch_engine_init(&trainer->engine, ch_train_real(options), error);
  trainer->engine.compute = options->dtype;
  if (status == CH_OK) status = add_up(trainer, memory, error);
  ch_trainer_free(trainer);
  return status;
}

void ch_trainer_free(ch_trainer *trainer) {
  if (!trainer) return;
  ch_relay_free(&trainer->relay);
  ch_runner_free(trainer->trainable);
  ch_runner_free(trainer->forward);
  ch_engine_free(&trainer->engine);
  ch_parameter_set_free(&trainer->set);
  ch_expert_balance_free(&trainer->balance);
  ch_params_free(&trainer->params);
  free(trainer->batch.tokens);
  free(trainer->batch.targets);
  free(trainer->batch.document_start);
  free(trainer->text);
  free(trainer->batch.pixels);
  free(trainer->losses);
  free(trainer->validation);
  free(trainer);
}

static ch_status load_weights(ch_trainer *trainer, const char *directory, ch_error *error) {
  if (trainer->step > 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "weights can only be loaded before the first step");
  ch_weights weights = {0};
  bool wide = trainer->options.dtype == CH_F64;
  CH_TRY(ch_weights_open(directory, &trainer->config, &trainer->params,
                         wide ? CH_WEIGHTS_F64 : CH_WEIGHTS_F32, &weights, error));
  for (int p = 0; p < trainer->params.count; p++)
    ch_parameter_set_put(&trainer->set, trainer->engine.kernels, &trainer->engine.team, CH_WEIGHTS, p,
                         weights.tensors[p].data);
  ch_weights_close(&weights);
  return CH_OK;
}

ch_status ch_trainer_load_weights(ch_trainer *trainer, const char *directory, ch_error *error) {
  return ch_agree(trainer->ranks, load_weights(trainer, directory, error), error);
}

/* --- access to members ---------------------------------------------------------------------------------- */

const char *ch_trainer_unit(const ch_trainer *trainer) {
  return ch_config_is_vision(&trainer->config) ? "images" : "tokens";
}

void ch_trainer_progress(const ch_trainer *trainer, ch_progress_record *record) {
  *record = (ch_progress_record){.step = trainer->step,
                                 .steps = trainer->options.steps,
                                 .tokens = trainer->tokens,
                                 .seconds = trainer->seconds,
                                 .losses = trainer->losses,
                                 .validation = trainer->validation,
                                 .validation_points = trainer->validation_points};
}

ch_status ch_trainer_export(const ch_trainer *trainer, const char *directory, ch_error *error) {
  ch_gathered_weights whole;
  CH_TRY(ch_gather_weights(trainer, &whole, error));
  ch_status status = CH_OK;
  if (ch_ranks_leads(trainer->ranks))
    status = ch_model_write(directory, &trainer->config, &trainer->params, whole.tensors,
                            ch_train_real(&trainer->options), error);
  ch_gathered_weights_free(&whole);
  return ch_agree(trainer->ranks, status, error);
}

ch_status ch_trainer_read_weights(const ch_trainer *trainer, ch_host_tensors *host, ch_error *error) {
  return ch_host_tensors_read(trainer->engine.kernels->memory, trainer->params.count, trainer->set.weights,
                              host, error);
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

ch_rank_group *ch_trainer_ranks(const ch_trainer *trainer) {
  return trainer->ranks;
}

size_t ch_trainer_bytes(const ch_trainer *trainer) {
  ch_parameter_bytes set = ch_parameter_set_bytes(&trainer->set);
  return set.weights + set.gradients + set.masters + set.moments + ch_shards_bytes(&trainer->relay.shards) +
         trainer->engine.workspace.bytes;
}

double ch_trainer_step_flops(const ch_trainer *trainer) {
  double passes = (double)trainer->batch.sequences / (double)trainer->options.micro_batch;
  return 3 * passes * ch_runner_flops(trainer->trainable);
}
