/* The text or images, the plan and the training options that all models of a comparison share. */
#include "train/compare_setup.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/text.h"
#include "text/text_file.h"
#include "train/compare_settings.h"
#include "train/machine.h"
#include "train/schedule.h"

enum {
  USUAL_PARAMS = 1000000,
  LEAST_EVALUATED = 32768,  /* tokens */
  BUDGET_TO_EVALUATED = 30, /* an evaluation reads at most this part of the budget */
  LEAST_EVALUATIONS = 4,
  MOST_EVALUATIONS = 20
};

/* Evaluations may cost about a tenth of the training; a token evaluated costs a third of one trained on. */
static const double evaluation_share = 0.3;
/* Of the text; more than usual, because small texts are what is mostly compared on. */
static const double validation_share = 0.1;

void ch_compare_take_seed(ch_compare_setup *setup, uint64_t seed) {
  setup->training.seed = seed;
  if (ch_compare_on_images(setup))
    ch_image_data_reseed(&setup->images, seed);
  else
    ch_data_reseed(&setup->data, seed);
}

bool ch_compare_on_images(const ch_compare_setup *setup) {
  return setup->options->images != NULL;
}

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
static void settle_images(ch_compare_setup *setup) {
  const ch_config *config = &setup->plan.models[0].config;
  ch_train_options *training = &setup->training;
  int64_t validation = setup->images.info.count[CH_IMAGES_VALIDATION], asked = setup->options->eval_tokens;
  training->flip = config->num_channels > 1;
  training->crop = training->flip ? (config->image_size + 7) / 8 : 0;
  training->steps =
      ch_train_steps_for(training, setup->options->epochs * setup->images.info.count[CH_IMAGES_TRAIN]);
  training->eval_tokens = asked > 0 && asked < validation ? asked : validation;
}

static ch_status settle_training(ch_compare_setup *setup, ch_error *error) {
  const ch_compare_options *o = setup->options;
  ch_train_options *training = &setup->training;
  ch_train_options_default(&setup->plan.models[0].config, training);
  training->batch = o->batch;
  training->sequence = o->sequence;
  training->accumulate = 1;
  training->lr = o->lr;
  training->schedule = o->schedule;
  training->dtype = o->dtype;
  training->warmup = o->warmup;
  training->seed = o->seed;
  if (ch_compare_on_images(setup)) {
    settle_images(setup);
  } else {
    training->steps = ch_train_steps_for(training, o->tokens);
    training->eval_tokens = evaluated_tokens(o, setup->data.validation_tokens);
  }
  training->eval_every = o->sweep ? (training->steps + o->evaluations - 1) / o->evaluations
                                  : steps_between_evaluations(training, training->eval_tokens);
  for (int i = 0; i < setup->plan.count; i++)
    CH_TRY(ch_train_options_check(training, &setup->plan.models[i].config, error));
  return CH_OK;
}

static const char *now(ch_arena *arena) {
  char text[CH_UTC_SIZE];
  return ch_arena_strdup(arena, ch_format_utc(time(NULL), text));
}

static ch_compared_data describe_text(const ch_compare_setup *setup, ch_arena *arena) {
  const ch_compare_options *o = setup->options;
  return (ch_compared_data){.file = ch_valid_text(arena, o->data),
                            .tokenizer =
                                ch_valid_text(arena, o->tokenizer ? o->tokenizer : "trained on this text"),
                            .bytes = setup->data.text_bytes,
                            .train_tokens = setup->data.train_tokens,
                            .validation_tokens = setup->data.validation_tokens,
                            .vocab_size = setup->data.vocab_size};
}

static ch_compared_data describe_images(const ch_compare_setup *setup, ch_arena *arena) {
  const ch_image_info *info = &setup->images.info;
  return (ch_compared_data){.file = ch_valid_text(arena, setup->options->images),
                            .tokenizer = "",
                            .images = true,
                            .format = ch_image_format_name(info->format),
                            .bytes = info->bytes,
                            .train_tokens = info->count[CH_IMAGES_TRAIN],
                            .validation_tokens = info->count[CH_IMAGES_VALIDATION],
                            .image_size = info->size,
                            .channels = info->channels,
                            .classes = setup->plan.models[0].config.num_classes};
}

static ch_status describe(ch_compare_setup *setup, ch_error *error) {
  const ch_compare_options *o = setup->options;
  const ch_train_options *t = &setup->training;
  ch_comparison *c = setup->comparison;
  ch_arena *arena = &c->arena;
  c->data = ch_compare_on_images(setup) ? describe_images(setup, arena) : describe_text(setup, arena);
  c->command = ch_valid_text(arena, o->command);
  c->out = ch_arena_strdup(arena, o->out);
  c->version = ch_valid_text(arena, o->version);
  c->created = now(arena);
  c->tolerance = o->tolerance;
  c->planned = setup->plan.count * (int)o->seeds;
  c->models = ch_arena_alloc(arena, (size_t)c->planned * sizeof *c->models);
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
                                       .seeds = o->seeds,
                                       .flip = t->flip,
                                       .crop = t->crop};
  ch_machine_describe(&c->machine);
  bool fine =
      c->data.file && c->data.tokenizer && c->command && c->out && c->version && c->created && c->models;
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
  const ch_compare_setup *setup = context;
  if (setup->events->preparing) setup->events->preparing(setup->events->context, stage, done, total);
  return !setup->events->interrupted || !setup->events->interrupted(setup->events->context);
}

/* The vocabulary that a tokenizer trained on the text gets. */
static ch_status choose_vocabulary(const ch_compare_setup *setup, int64_t *vocab, ch_error *error) {
  const ch_compare_options *o = setup->options;
  int64_t params;
  CH_TRY(ch_compare_plan_size(&setup->plan, &o->shape, USUAL_PARAMS, &params, error));
  *vocab = o->shape.vocab ? o->shape.vocab : ch_base_vocabulary(params, text_bytes(o->data));
  return CH_OK;
}

static ch_status open_images(ch_compare_setup *setup, bool continued, ch_error *error) {
  const ch_compare_options *o = setup->options;
  CH_TRY(ch_image_data_open(o->images, validation_share, o->out, &setup->images, error));
  return continued ? ch_image_data_check(&setup->images, o->out, error)
                   : ch_image_data_record(&setup->images, o->out, error);
}

static ch_status open_text(ch_compare_setup *setup, bool continued, ch_error *error) {
  const ch_compare_options *o = setup->options;
  ch_data_options options = {.data = o->data,
                             .tokenizer = o->tokenizer,
                             .directory = o->out,
                             .fixed = continued,
                             .sequence = o->sequence,
                             .seed = o->seed,
                             .validation = validation_share,
                             .report = on_prepare,
                             .context = setup};
  if (!o->tokenizer) CH_TRY(choose_vocabulary(setup, &options.vocab_size, error));
  return ch_data_open(&options, &setup->data, error);
}

static ch_status plan_models(ch_compare_setup *setup, ch_error *error) {
  ch_shape_wishes shape = setup->options->shape;
  shape.vocab = setup->data.vocab_size;
  shape.context = setup->options->sequence;
  if (ch_compare_on_images(setup)) {
    shape.image.size = setup->images.info.size;
    shape.image.channels = setup->images.info.channels;
    shape.image.classes = setup->images.info.classes;
  }
  CH_TRY(ch_compare_plan_shapes(&setup->plan, &shape, USUAL_PARAMS, error));
  for (int i = 0; !ch_compare_on_images(setup) && i < setup->plan.count; i++) {
    setup->plan.models[i].config.bos_token_id = setup->data.bos;
    setup->plan.models[i].config.eos_token_id = setup->data.eos;
  }
  return CH_OK;
}

/* The settings are written when the text is ready: a directory that has them has all that was derived from the text. */
ch_status ch_compare_setup_open(const ch_compare_options *options, const ch_compare_events *events,
                                ch_comparison *comparison, ch_compare_setup *setup, ch_error *error) {
  bool continued;
  *setup = (ch_compare_setup){.options = options, .events = events, .comparison = comparison};
  CH_TRY(ch_compare_plan_names(setup->options->mechanisms, &setup->plan, error));
  CH_TRY(ch_make_directory(setup->options->out, error));
  CH_TRY(ch_compare_settings_check(setup->options, &setup->plan, &continued, error));
  CH_TRY(ch_compare_on_images(setup) ? open_images(setup, continued, error)
                                     : open_text(setup, continued, error));
  CH_TRY(plan_models(setup, error));
  CH_TRY(settle_training(setup, error));
  for (int i = 0; ch_compare_on_images(setup) && i < setup->plan.count; i++)
    CH_TRY(ch_image_data_prepare(&setup->images, &setup->plan.models[i].config, &setup->training, error));
  CH_TRY(describe(setup, error));
  if (!continued) CH_TRY(ch_compare_settings_write(setup->options, &setup->plan, error));
  if (setup->events->prepared) setup->events->prepared(setup->events->context, &setup->comparison->data);
  return CH_OK;
}

void ch_compare_setup_close(ch_compare_setup *setup) {
  ch_data_close(&setup->data);
  ch_image_data_close(&setup->images);
  ch_compare_plan_free(&setup->plan);
}
