/* One comparison from its options to its results: plan, text or images, then model after model. */
#include "train/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "attention/registry.h"
#include "base/file.h"
#include "base/json.h"
#include "text/text_file.h"
#include "train/compare_measure.h"
#include "train/compare_plan.h"
#include "train/compare_settings.h"
#include "train/data.h"
#include "train/image_data.h"
#include "train/machine.h"
#include "train/schedule.h"
#include "train/match.h"

enum {
  USUAL_PARAMS = 1000000,
  MOST_CURVE_POINTS = 400,
  CACHE_ELEMENT_BYTES = 2,  /* 16 bits, as `info` counts */
  LEAST_EVALUATED = 32768,  /* tokens */
  BUDGET_TO_EVALUATED = 30, /* an evaluation reads at most this part of the budget */
  LEAST_EVALUATIONS = 4,
  MOST_EVALUATIONS = 20,
  MOST_RESULT_BYTES = 1 << 26
};

/* Evaluations may cost about a tenth of the training; a token evaluated costs a third of one trained on. */
static const double evaluation_share = 0.3;
/* Of the text; more than usual, because small texts are what is mostly compared on. */
static const double validation_share = 0.1;

void ch_compare_options_default(ch_compare_options *options) {
  *options = (ch_compare_options){.mechanisms = "mha,gqa,mqa",
                                  .tokens = 2000000,
                                  .batch = 16,
                                  .sequence = 256,
                                  .lr = 2e-3,
                                  .schedule = CH_SCHEDULE_COSINE,
                                  .warmup = -1,
                                  .seed = 1,
                                  .tolerance = 0.01,
                                  .command = "",
                                  .version = ""};
}

typedef struct run {
  const ch_compare_options *options;
  const ch_compare_events *events;
  ch_comparison *comparison;
  ch_compare_plan plan;
  ch_data data;              /* of a comparison on text, */
  ch_image_data images;      /* or on images */
  ch_train_options training; /* of every model */
} run;

static bool on_images(const run *r) {
  return r->options->images != NULL;
}

/* --- what all models share ----------------------------------------------------------------------------------------- */

static int64_t evaluated_tokens(const ch_compare_options *options, int64_t validation_tokens) {
  int64_t most = options->tokens / BUDGET_TO_EVALUATED > LEAST_EVALUATED
                     ? options->tokens / BUDGET_TO_EVALUATED
                     : LEAST_EVALUATED;
  if (options->eval_tokens > 0) most = options->eval_tokens;
  return most < validation_tokens ? most : validation_tokens;
}

static int64_t steps_between_evaluations(const ch_train_options *training, int64_t eval_tokens) {
  double tokens = (double)training->steps * (double)ch_train_step_tokens(training);
  double count =
      fmin(fmax(evaluation_share * tokens / (double)eval_tokens, LEAST_EVALUATIONS), MOST_EVALUATIONS);
  return (int64_t)ceil((double)training->steps / count); /* rounded up: no evaluation just before the last */
}

/* Images in colour are mirrored and shifted, as `train` does by itself. */
static void settle_images(run *r) {
  const ch_config *config = &r->plan.models[0].config;
  ch_train_options *training = &r->training;
  int64_t validation = r->images.info.count[CH_IMAGES_VALIDATION], asked = r->options->eval_tokens;
  training->flip = config->num_channels > 1;
  training->crop = training->flip ? (config->image_size + 7) / 8 : 0;
  training->steps = ch_train_steps_for(training, r->options->epochs * r->images.info.count[CH_IMAGES_TRAIN]);
  training->eval_tokens = asked > 0 && asked < validation ? asked : validation;
}

static ch_status settle_training(run *r, ch_error *error) {
  const ch_compare_options *o = r->options;
  ch_train_options *training = &r->training;
  ch_train_options_default(&r->plan.models[0].config, training);
  training->batch = o->batch;
  training->sequence = o->sequence;
  training->accumulate = 1;
  training->lr = o->lr;
  training->schedule = o->schedule;
  training->warmup = o->warmup;
  training->seed = o->seed;
  if (on_images(r)) {
    settle_images(r);
  } else {
    training->steps = ch_train_steps_for(training, o->tokens);
    training->eval_tokens = evaluated_tokens(o, r->data.validation_tokens);
  }
  training->eval_every = steps_between_evaluations(training, training->eval_tokens);
  for (int i = 0; i < r->plan.count; i++)
    CH_TRY(ch_train_options_check(training, &r->plan.models[i].config, error));
  return CH_OK;
}

static const char *now(ch_arena *arena) {
  char text[32] = "";
  time_t seconds = time(NULL);
  struct tm parts;
  if (gmtime_r(&seconds, &parts)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return ch_arena_strdup(arena, text);
}

static ch_compared_data describe_text(const run *r, ch_arena *arena) {
  const ch_compare_options *o = r->options;
  return (ch_compared_data){.file = ch_valid_text(arena, o->data),
                            .tokenizer =
                                ch_valid_text(arena, o->tokenizer ? o->tokenizer : "trained on this text"),
                            .bytes = r->data.text_bytes,
                            .train_tokens = r->data.train_tokens,
                            .validation_tokens = r->data.validation_tokens,
                            .vocab_size = r->data.vocab_size};
}

static ch_compared_data describe_images(const run *r, ch_arena *arena) {
  const ch_image_info *info = &r->images.info;
  return (ch_compared_data){.file = ch_valid_text(arena, r->options->images),
                            .tokenizer = "",
                            .images = true,
                            .format = ch_image_format_name(info->format),
                            .bytes = info->bytes,
                            .train_tokens = info->count[CH_IMAGES_TRAIN],
                            .validation_tokens = info->count[CH_IMAGES_VALIDATION],
                            .image_size = info->size,
                            .channels = info->channels,
                            .classes = r->plan.models[0].config.num_classes};
}

static ch_status describe(run *r, ch_error *error) {
  const ch_compare_options *o = r->options;
  const ch_train_options *t = &r->training;
  ch_comparison *c = r->comparison;
  ch_arena *arena = &c->arena;
  c->data = on_images(r) ? describe_images(r, arena) : describe_text(r, arena);
  c->command = ch_valid_text(arena, o->command);
  c->version = ch_valid_text(arena, o->version);
  c->created = now(arena);
  c->tolerance = o->tolerance;
  c->planned = r->plan.count;
  c->models = ch_arena_alloc(arena, (size_t)r->plan.count * sizeof *c->models);
  c->training = (ch_compared_training){.tokens = t->steps * ch_train_step_tokens(t),
                                       .steps = t->steps,
                                       .batch = t->batch,
                                       .sequence = t->sequence,
                                       .warmup = ch_schedule_warmup(t),
                                       .eval_tokens = t->eval_tokens,
                                       .lr = t->lr,
                                       .weight_decay = t->weight_decay,
                                       .schedule = t->schedule == CH_SCHEDULE_COSINE ? "cosine" : "constant",
                                       .seed = t->seed,
                                       .flip = t->flip,
                                       .crop = t->crop};
  ch_machine_describe(&c->machine);
  bool fine = c->data.file && c->data.tokenizer && c->command && c->version && c->created && c->models;
  return fine ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory for the results");
}

/* Bytes of the text files; 0 for what cannot be looked at, which opening the text will say. */
static int64_t text_bytes(const char *names) {
  char **paths;
  size_t count;
  int64_t bytes = 0;
  if (ch_text_paths(names, &paths, &count, NULL) != CH_OK) return 0;
  for (size_t i = 0; i < count; i++) {
    struct stat info;
    if (stat(paths[i], &info) == 0) bytes += info.st_size;
  }
  free(paths);
  return bytes;
}

static bool on_prepare(void *context, const char *stage, double done, double total) {
  const run *r = context;
  if (r->events->preparing) r->events->preparing(r->events->context, stage, done, total);
  return !r->events->interrupted || !r->events->interrupted(r->events->context);
}

/* The vocabulary that a tokenizer trained on the text gets. */
static ch_status choose_vocabulary(const run *r, int64_t *vocab, ch_error *error) {
  const ch_compare_options *o = r->options;
  int64_t params;
  CH_TRY(ch_compare_plan_size(&r->plan, &o->shape, USUAL_PARAMS, &params, error));
  *vocab = o->shape.vocab ? o->shape.vocab : ch_base_vocabulary(params, text_bytes(o->data));
  return CH_OK;
}

static ch_status open_images(run *r, bool continued, ch_error *error) {
  const ch_compare_options *o = r->options;
  CH_TRY(ch_image_data_open(o->images, validation_share, o->out, &r->images, error));
  return continued ? ch_image_data_check(&r->images, o->out, error)
                   : ch_image_data_record(&r->images, o->out, error);
}

static ch_status open_text(run *r, bool continued, ch_error *error) {
  const ch_compare_options *o = r->options;
  ch_data_options options = {.data = o->data,
                             .tokenizer = o->tokenizer,
                             .directory = o->out,
                             .fixed = continued,
                             .sequence = o->sequence,
                             .seed = o->seed,
                             .validation = validation_share,
                             .report = on_prepare,
                             .context = r};
  if (!o->tokenizer) CH_TRY(choose_vocabulary(r, &options.vocab_size, error));
  return ch_data_open(&options, &r->data, error);
}

static ch_status plan_models(run *r, ch_error *error) {
  ch_shape_wishes shape = r->options->shape;
  shape.vocab = r->data.vocab_size;
  shape.context = r->options->sequence;
  if (on_images(r)) {
    shape.image.size = r->images.info.size;
    shape.image.channels = r->images.info.channels;
    shape.image.classes = r->images.info.classes;
  }
  CH_TRY(ch_compare_plan_shapes(&r->plan, &shape, USUAL_PARAMS, error));
  for (int i = 0; !on_images(r) && i < r->plan.count; i++) {
    r->plan.models[i].config.bos_token_id = r->data.bos;
    r->plan.models[i].config.eos_token_id = r->data.eos;
  }
  return CH_OK;
}

/* Everything up to the first step. The settings are written when the text is ready: a directory that has them has all
   that was derived from the text. */
static ch_status prepare(run *r, ch_error *error) {
  bool continued;
  CH_TRY(ch_compare_plan_names(r->options->mechanisms, &r->plan, error));
  CH_TRY(ch_make_directory(r->options->out, error));
  CH_TRY(ch_compare_settings_check(r->options, &r->plan, &continued, error));
  CH_TRY(on_images(r) ? open_images(r, continued, error) : open_text(r, continued, error));
  CH_TRY(plan_models(r, error));
  CH_TRY(settle_training(r, error));
  for (int i = 0; on_images(r) && i < r->plan.count; i++)
    CH_TRY(ch_image_data_prepare(&r->images, &r->plan.models[i].config, &r->training, error));
  CH_TRY(describe(r, error));
  if (!continued) CH_TRY(ch_compare_settings_write(r->options, &r->plan, error));
  if (r->events->prepared) r->events->prepared(r->events->context, &r->comparison->data);
  return CH_OK;
}

/* --- one model ----------------------------------------------------------------------------------------------------- */

typedef struct timing {
  const ch_compare_events *events;
  double *seconds; /* of the steps of this process */
  int64_t taken, room;
} timing;

static void on_step(void *context, const ch_step_report *report) {
  timing *t = context;
  if (t->taken < t->room) t->seconds[t->taken++] = report->seconds;
  if (t->events->step) t->events->step(t->events->context, report);
}

static void on_evaluated(void *context, const ch_validation_point *point) {
  const timing *t = context;
  if (t->events->evaluated) t->events->evaluated(t->events->context, point);
}

static bool on_interrupted(void *context) {
  const timing *t = context;
  return t->events->interrupted && t->events->interrupted(t->events->context);
}

/* Training losses, averaged over equal stretches when there are more steps than points. */
static ch_status fill_curves(const run *r, const ch_progress_record *record, ch_compared *model,
                             ch_error *error) {
  ch_arena *arena = &r->comparison->arena;
  int64_t step_tokens = ch_train_step_tokens(&r->training);
  int points = (int)(record->step < MOST_CURVE_POINTS ? record->step : MOST_CURVE_POINTS);
  model->curve = ch_arena_alloc(arena, (size_t)(points + 1) * sizeof *model->curve);
  model->validation_curve =
      ch_arena_alloc(arena, (size_t)(record->validation_points + 1) * sizeof *model->validation_curve);
  if (!model->curve || !model->validation_curve)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for the loss curves");
  for (int p = 0; p < points; p++) {
    int64_t from = record->step * p / points, to = record->step * (p + 1) / points;
    double sum = 0;
    for (int64_t s = from; s < to; s++) sum += record->losses[s];
    model->curve[p] = (ch_curve_point){to * step_tokens, sum / (double)(to - from)};
  }
  for (int64_t p = 0; p < record->validation_points; p++)
    model->validation_curve[p] =
        (ch_curve_point){record->validation[p].step * step_tokens, record->validation[p].loss};
  model->curve_points = points;
  model->validation_points = (int)record->validation_points;
  return CH_OK;
}

static ch_status fill_shape(const run *r, const ch_planned_model *planned, ch_compared *model,
                            ch_error *error) {
  const ch_config *config = &planned->config;
  int64_t elements = on_images(r) ? 0 : ch_state_elements(config), attention;
  CH_TRY(ch_count_attention(config, &attention, error));
  bool own_sizes = ch_mechanism_of(config)->modules & CH_MODULE_OWN_SIZES;
  *model = (ch_compared){.name = ch_valid_text(&r->comparison->arena, planned->name),
                         .directory = ch_arena_strdup(&r->comparison->arena, planned->directory),
                         .mechanism = ch_arena_strdup(&r->comparison->arena, config->attention.type),
                         .layers = config->num_hidden_layers,
                         .hidden_size = config->hidden_size,
                         .heads = config->num_attention_heads,
                         .key_value_heads = own_sizes ? 0 : config->num_key_value_heads,
                         .head_dim = own_sizes ? config->attention.qk_nope_head_dim +
                                                     config->attention.qk_rope_head_dim
                                               : config->head_dim,
                         .intermediate_size = ch_matched_width(config),
                         .parameters = planned->parameters,
                         .cache_elements_per_token = elements,
                         .cache_bytes_per_token = elements * CACHE_ELEMENT_BYTES,
                         .images = on_images(r),
                         .parameters_attention = attention,
                         .seed = r->options->seed};
  bool fine = model->name && model->directory && model->mechanism;
  return fine ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory for the results");
}

static ch_status fill_training(const run *r, const ch_trainer *trainer, timing *times, ch_compared *model,
                               ch_error *error) {
  ch_progress_record record;
  ch_trainer_progress(trainer, &record);
  double tokens = (double)ch_train_step_tokens(&r->training),
         median = ch_median(times->seconds, times->taken);
  if (!record.validation_points)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "there is nothing to validate on and compare models by; give a longer text, or more images");
  model->tokens_trained = record.tokens;
  const ch_validation_point *last = &record.validation[record.validation_points - 1];
  model->validation_loss = last->loss;
  model->top1 = last->top1;
  model->top5 = last->top5;
  /* A model whose last step was done by an interrupted run is left with the mean. */
  if (median > 0)
    model->train_tokens_per_second = tokens / median;
  else if (record.seconds > 0)
    model->train_tokens_per_second = (double)record.tokens / record.seconds;
  return fill_curves(r, &record, model, error);
}

static ch_status train(run *r, const ch_planned_model *planned, const char *directory, ch_compared *model,
                       ch_error *error) {
  timing times = {.events = r->events, .room = r->training.steps};
  ch_run_events events = {
      .context = &times, .step = on_step, .evaluated = on_evaluated, .interrupted = on_interrupted};
  ch_trainer *trainer = NULL;
  ch_status status = CH_OK;
  const ch_source *source = on_images(r) ? &r->images.source : &r->data.source;
  times.seconds = calloc((size_t)r->training.steps, sizeof *times.seconds);
  if (!times.seconds) CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to time %s", planned->name));
  CH_TRY_GOTO(ch_trainer_create(&planned->config, &r->training, source, &trainer, error));
  CH_TRY_GOTO(ch_train_run(trainer, directory, true, &events, error));
  CH_TRY_GOTO(fill_training(r, trainer, &times, model, error));
  /* The trainer's memory is better free while decoding is timed. */
  ch_trainer_free(trainer);
  trainer = NULL;
  if (on_images(r)) {
    CH_TRY_GOTO(
        ch_measure_seeing(directory, on_interrupted, &times, &model->decode_tokens_per_second, error));
  } else {
    CH_TRY_GOTO(ch_data_give_tokenizer(&r->data, directory, error));
    CH_TRY_GOTO(ch_measure_decoding(directory, r->options->sequence, on_interrupted, &times,
                                    &model->decode_tokens_per_second, error));
  }
done:
  ch_trainer_free(trainer);
  free(times.seconds);
  return status;
}

/* The result of a model that was finished before. */
static ch_status read_result(run *r, const char *path, ch_compared *model, ch_error *error) {
  char *text = NULL;
  size_t size = 0;
  json_t *object = NULL;
  CH_TRY(ch_read_file(path, MOST_RESULT_BYTES, &text, &size, error));
  ch_status status = ch_json_parse(text, size, path, &object, error);
  free(text);
  if (status == CH_OK) status = ch_compared_from_json(object, path, &r->comparison->arena, model, error);
  json_decref(object);
  return status;
}

static ch_status write_results(run *r, ch_error *error) {
  char *path = ch_path_join(r->options->out, CH_COMPARE_RESULTS);
  if (!path) return ch_fail(error, CH_ERROR_MEMORY, "no memory to write the results");
  ch_status status = ch_write_json(path, ch_comparison_to_json(r->comparison), CH_DIGITS_SHOWN, error);
  free(path);
  if (status == CH_OK && r->events->written)
    status = r->events->written(r->events->context, r->comparison, error);
  return status;
}

static ch_status compare_one(run *r, int index, ch_error *error) {
  const ch_planned_model *planned = &r->plan.models[index];
  const ch_compare_events *events = r->events;
  ch_compared *model = &r->comparison->models[r->comparison->count];
  char *directory = ch_path_join(r->options->out, planned->directory);
  char *result = directory ? ch_path_join(directory, CH_COMPARE_RESULT) : NULL;
  ch_status status = CH_OK;
  if (!result) CH_TRY_GOTO(ch_fail(error, CH_ERROR_MEMORY, "no memory to train %s", planned->name));
  bool earlier = ch_is_file(result);
  if (earlier) {
    CH_TRY_GOTO(read_result(r, result, model, error));
  } else {
    if (events->begins)
      events->begins(events->context, index, r->plan.count, planned->name, &planned->config,
                     planned->parameters, r->training.steps);
    CH_TRY_GOTO(fill_shape(r, planned, model, error));
    CH_TRY_GOTO(train(r, planned, directory, model, error));
    CH_TRY_GOTO(ch_write_json(result, ch_compared_to_json(model), CH_DIGITS_EXACT, error));
  }
  r->comparison->count++;
  if (events->finished) events->finished(events->context, model, earlier);
  /* Results of finished models can be looked at while the others are trained. */
  if (!earlier || r->comparison->count == r->plan.count) CH_TRY_GOTO(write_results(r, error));
done:
  free(result);
  free(directory);
  return status;
}

static ch_status interrupted(const run *r, ch_error *error) {
  return ch_fail(
      error, CH_ERROR_INTERRUPTED,
      "interrupted with %d of %d models finished; all work is saved in %s, and the same command continues it",
      r->comparison->count, r->plan.count, r->options->out);
}

ch_status ch_compare(const ch_compare_options *options, const ch_compare_events *events,
                     ch_comparison *comparison, ch_error *error) {
  static const ch_compare_events none = {0};
  run r = {.options = options, .events = events ? events : &none, .comparison = comparison};
  *comparison = (ch_comparison){0};
  ch_status status = prepare(&r, error);
  for (int i = 0; status == CH_OK && i < r.plan.count; i++) {
    status = compare_one(&r, i, error);
    if (status != CH_OK && status != CH_ERROR_INTERRUPTED) ch_fail_in(error, r.plan.models[i].name);
  }
  if (status == CH_ERROR_INTERRUPTED) status = interrupted(&r, error);
  ch_data_close(&r.data);
  ch_image_data_close(&r.images);
  ch_compare_plan_free(&r.plan);
  return status;
}
