/* Prepares what all runs of an experiment share: the text or images, the plan and the training options. It checks that
 * a directory holds the same experiment. */
#include "experiment/trial/setup.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/utf8.h"
#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "base/text.h"
#include "bench/machine.h"
#include "experiment/trial/text_estimate.h"
#include "experiment/lineup/learning_rates.h"
#include "experiment/trial/settings.h"
#include "ranks/program.h"
#include "tensor/kernels.h"
#include "tensor/team.h"
#include "text/hash.h"
#include "text/text_file.h"
#include "train/schedule.h"

enum {
  LEAST_EVALUATED = 32768,  /* smallest limit of the number of tokens of an evaluation */
  BUDGET_TO_EVALUATED = 30, /* ratio of the trained tokens to the maximum number of tokens of an evaluation */
  MOST_RESULT_BYTES = 1 << 26,
  LEAST_EVALUATIONS = 4,
  MOST_EVALUATIONS = 20
};

/* The number of evaluated tokens of a run, as a share of its trained tokens, unless the limits on the number of
   evaluations change it. Evaluations take about a tenth of the training time, because evaluating a token takes a third
   of the time of training on it. */
static const double evaluation_share = 0.3;
/* The share of the text for validation. It is larger than in `train`, because most comparisons run on small texts. */
static const double validation_share = 0.1;

void ch_compare_take_seed(ch_compare_setup *setup, uint64_t seed) {
  setup->training.seed = seed;
  if (ch_compare_on_images(setup))
    ch_image_data_reseed(&setup->images, seed);
  else
    ch_data_reseed(&setup->data, seed);
}

const ch_batch_source *ch_compare_source(const ch_compare_setup *setup) {
  return ch_compare_on_images(setup) ? &setup->images.source : &setup->data.source;
}

bool ch_compare_on_images(const ch_compare_setup *setup) {
  return setup->settings.vision.images != NULL;
}

bool ch_compare_stopped(void *context) {
  const ch_compare_setup *setup = context;
  return setup->stopped || (setup->settings.stop && setup->settings.stop(setup->settings.user));
}

void ch_compare_tell(ch_compare_setup *setup, ch_compare_event event) {
  const ch_compare_settings *s = &setup->settings;
  if (s->event && !s->event(&event, s->user)) setup->stopped = true;
}

static int64_t evaluated_tokens(const ch_compare_setup *setup, int64_t validation_tokens) {
  const ch_compare_settings *settings = &setup->settings;
  int64_t trained = setup->grown_from ? setup->grown_from : settings->training.tokens;
  int64_t most =
      trained / BUDGET_TO_EVALUATED > LEAST_EVALUATED ? trained / BUDGET_TO_EVALUATED : LEAST_EVALUATED;
  if (settings->training.eval_tokens > 0) most = settings->training.eval_tokens;
  return most < validation_tokens ? most : validation_tokens;
}

static int64_t steps_between_evaluations(const ch_train_options *training, int64_t eval_tokens) {
  double tokens = (double)training->steps * (double)ch_train_step_tokens(training);
  double count =
      fmin(fmax(evaluation_share * tokens / (double)eval_tokens, LEAST_EVALUATIONS), MOST_EVALUATIONS);
  return (int64_t)ceil((double)training->steps / count); /* rounded up: no evaluation just before the last */
}

static int64_t steps_for(const ch_compare_setup *setup, int64_t length) {
  int64_t unit = ch_compare_on_images(setup) ? setup->images.info.count[CH_IMAGES_TRAIN] : 1;
  return ch_train_steps_for(&setup->training, length * unit);
}

/* Completes the options of training on images. Images in colour are mirrored and shifted, as by `train`. */
static void settle_images(ch_compare_setup *setup) {
  const ch_config *config = &setup->plan.models[0].config;
  ch_train_options *training = &setup->training;
  int64_t validation = setup->images.info.count[CH_IMAGES_VALIDATION],
          asked = setup->settings.training.eval_tokens;
  training->flip = config->num_channels > 1;
  training->crop = training->flip ? (config->image_size + 7) / 8 : 0;
  training->steps = steps_for(setup, setup->settings.vision.epochs);
  training->eval_tokens = asked > 0 && asked < validation ? asked : validation;
}

/* Sets the number of steps between evaluations of a run, and checks its options. */
static ch_status settle_run(const ch_compare_setup *setup, ch_train_options *training,
                            const ch_config *config, ch_error *error) {
  int64_t evaluations = setup->settings.training.evaluations;
  training->eval_every = evaluations > 0 ? (training->steps + evaluations - 1) / evaluations
                                         : steps_between_evaluations(training, training->eval_tokens);
  return ch_train_options_check(training, config, error);
}

ch_status ch_compare_training_of(const ch_compare_setup *setup, const ch_planned_model *planned,
                                 ch_train_options *training, ch_error *error) {
  *training = setup->training;
  if (planned->steps) training->steps = planned->steps;
  return settle_run(setup, training, &planned->config, error);
}

static ch_status settle_training(ch_compare_setup *setup, ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  ch_train_options *training = &setup->training;
  ch_train_options_default(&setup->plan.models[0].config, training);
  training->batch = s->training.batch;
  training->sequence = s->lineup.sequence;
  training->accumulate = 1;
  training->micro_batch = s->training.micro_batch;
  training->lr = s->rates.lr;
  training->schedule = s->training.schedule;
  training->dtype = s->training.type == CH_PRECISION_BF16 ? CH_BF16 : CH_F32;
  training->warmup = s->training.warmup;
  training->seed = s->training.seed;
  if (ch_compare_on_images(setup)) {
    settle_images(setup);
  } else {
    training->steps = steps_for(setup, s->training.tokens);
    training->eval_tokens = evaluated_tokens(setup, setup->data.validation_tokens);
  }
  if (setup->grown_from && s->training.warmup < 0) { /* the warm-up stays that of the shorter runs */
    ch_train_options first = *training;
    first.steps = steps_for(setup, setup->grown_from);
    training->warmup = ch_schedule_warmup(&first);
  }
  for (int i = 0; i < setup->plan.count; i++)
    CH_TRY(settle_run(setup, training, &setup->plan.models[i].config, error));
  return CH_OK;
}

static ch_comparison_data describe_text(const ch_compare_setup *setup, ch_arena *arena) {
  const ch_compare_settings *s = &setup->settings;
  return (ch_comparison_data){
      .file = ch_valid_text(arena, s->text.data),
      .tokenizer = ch_valid_text(arena, s->lineup.tokenizer ? s->lineup.tokenizer : "trained on this text"),
      .bytes = setup->data.text_bytes,
      .train_tokens = setup->data.train_tokens,
      .validation_tokens = setup->data.validation_tokens,
      .vocab_size = setup->data.vocab_size,
      .token_entropy = ch_data_token_entropy(&setup->data)};
}

static ch_comparison_data describe_images(const ch_compare_setup *setup, ch_arena *arena) {
  const ch_image_info *info = &setup->images.info;
  return (ch_comparison_data){.file = ch_valid_text(arena, setup->settings.vision.images),
                              .tokenizer = "",
                              .images = true,
                              .format = ch_image_format_name(info->format),
                              .bytes = info->bytes,
                              .train_tokens = info->count[CH_IMAGES_TRAIN],
                              .validation_tokens = info->count[CH_IMAGES_VALIDATION],
                              .image_size = setup->plan.models[0].config.image_size,
                              .channels = info->channels,
                              .classes = setup->plan.models[0].config.num_classes,
                              .token_entropy = log((double)setup->plan.models[0].config.num_classes)};
}

ch_status ch_compare_setup_describe(ch_compare_setup *setup, ch_error *error) {
  char created[CH_UTC_SIZE];
  const ch_compare_settings *s = &setup->settings;
  const ch_train_options *t = &setup->training;
  ch_comparison *c = setup->comparison;
  ch_arena *arena = &c->arena;
  c->data = ch_compare_on_images(setup) ? describe_images(setup, arena) : describe_text(setup, arena);
  c->command = ch_valid_text(arena, s->report.command);
  c->out = ch_arena_strdup(arena, s->report.out);
  c->version = CH_VERSION_STRING;
  c->created = ch_arena_strdup(arena, ch_format_utc(time(NULL), created));
  c->tolerance = s->verdict.tolerance;
  c->cache_budget = s->verdict.cache_budget /
                    (s->verdict.users > 0 ? (double)s->verdict.users * (double)s->verdict.context : 1);
  c->match = s->lineup.match;
  c->cache_per_token = s->lineup.cache_per_token;
  c->budget_seconds = setup->plan.budget_seconds;
  c->planned = setup->plan.count * (int)s->training.seeds;
  c->until_decided = s->schedule.until_decided;
  int64_t most = s->schedule.until_decided ? CH_COMPARE_MOST_SEEDS : s->training.seeds;
  c->models = ch_arena_alloc(arena, (size_t)setup->plan.count * (size_t)most * sizeof *c->models);
  c->training = (ch_comparison_training){.tokens = t->steps * ch_train_step_tokens(t),
                                         .steps = t->steps,
                                         .batch = t->batch,
                                         .sequence = t->sequence,
                                         .warmup = ch_schedule_warmup(t),
                                         .eval_tokens = t->eval_tokens,
                                         .lr = t->lr,
                                         .weight_decay = t->weight_decay,
                                         .schedule = t->schedule == CH_TRAIN_COSINE ? "cosine" : "constant",
                                         .seed = t->seed,
                                         .seeds = s->training.seeds,
                                         .flip = t->flip,
                                         .crop = t->crop};
  c->engine = s->workers.engine;
  c->device = s->workers.engine == CH_ENGINE_PYTORCH && s->workers.device
                  ? ch_arena_strdup(arena, s->workers.device)
                  : NULL;
  c->machine = ch_machine_here();
  bool fine = !isnan(c->data.token_entropy) && c->data.file && c->data.tokenizer && c->command && c->out &&
              c->created && c->models;
  return fine ? CH_OK : ch_no_memory(error);
}

/* Returns the total bytes of the text files that exist. Missing files are reported when the text is opened. */
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
  ch_compare_tell(context, (ch_compare_event){.kind = CH_COMPARE_EVENT_PREPARATION,
                                              .as.preparation = {stage, total > 0 ? done / total : 0}});
  return !ch_compare_stopped(context);
}

/* Chooses the vocabulary of a tokenizer that is trained on the text. */
static ch_status choose_vocabulary(const ch_compare_setup *setup, int64_t *vocab, ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  ch_shape_wishes shape = ch_compare_wishes(&s->lineup);
  int64_t params;
  CH_TRY(ch_compare_plan_size(&setup->plan, &shape, CH_COMPARE_USUAL_PARAMS, &params, error));
  *vocab = s->lineup.vocab ? s->lineup.vocab : ch_base_vocabulary(params, text_bytes(s->text.data));
  return CH_OK;
}

static ch_status open_images(ch_compare_setup *setup, bool continued, bool dry, ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  CH_TRY(ch_image_data_open(s->vision.images, validation_share, s->report.out, &setup->images, error));
  if (dry && !continued) return CH_OK;
  return continued ? ch_image_data_check(&setup->images, s->report.out, error)
                   : ch_image_data_record(&setup->images, s->report.out, error);
}

static ch_status open_comparison_text(ch_compare_setup *setup, bool continued, bool dry, ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  ch_data_options options = {.data = s->text.data,
                             .tokenizer = s->lineup.tokenizer,
                             .directory = s->report.out,
                             .fixed = continued,
                             .waits = s->schedule.parts > 0,
                             .sequence = s->lineup.sequence,
                             .seed = s->training.seed,
                             .validation = validation_share,
                             .validation_text = s->text.validation_text,
                             .report = on_prepare,
                             .context = setup};
  if (!s->lineup.tokenizer) CH_TRY(choose_vocabulary(setup, &options.vocab_size, error));
  if (dry && !continued) return ch_estimate_prepared_text(&options, &setup->data, error);
  return ch_data_open(&options, &setup->data, error);
}

static ch_status plan_models(ch_compare_setup *setup, ch_error *error) {
  ch_shape_wishes shape = ch_compare_wishes(&setup->settings.lineup);
  shape.vocab = setup->data.vocab_size;
  if (ch_compare_on_images(setup)) {
    shape.image.patch = setup->settings.vision.patch;
    shape.image.size =
        setup->settings.vision.image_size ? setup->settings.vision.image_size : setup->images.info.size;
    shape.image.channels = setup->images.info.channels;
    shape.image.classes = setup->images.info.classes;
  }
  CH_TRY(ch_compare_plan_shapes(&setup->plan, &shape, CH_COMPARE_USUAL_PARAMS, error));
  for (int i = 0; !ch_compare_on_images(setup) && i < setup->plan.count; i++) {
    setup->plan.models[i].config.bos_token_id = setup->data.bos;
    setup->plan.models[i].config.eos_token_id = setup->data.eos;
  }
  return CH_OK;
}

const char *ch_compare_run_directory(const ch_compare_setup *setup, const ch_planned_model *planned,
                                     uint64_t seed) {
  ch_arena *arena = &setup->comparison->arena;
  if (seed == setup->settings.training.seed) return ch_arena_strdup(arena, planned->directory);
  return ch_arena_printf(arena, "seed-%llu/%s", (unsigned long long)seed, planned->directory);
}

/* Checks a finished run. It must have the size and rate that it would get now; an added mechanism can change the size
   of all models. To be trained further it also needs its checkpoint. */
static ch_status check_result(const ch_compare_setup *setup, const ch_planned_model *model,
                              const char *directory, const json_t *result, ch_error *error) {
  int64_t trained = json_integer_value(json_object_get(result, "parameters"));
  if (trained != model->parameters)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s was trained with %lld parameters, but with these mechanisms it would have %lld; give "
                   "another {out}",
                   model->name, (long long)trained, (long long)model->parameters);
  double lr = json_number_value(json_object_get(result, "lr"));
  if (lr > 0 && lr != model->lr && !setup->settings.rates.tune)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "%s was trained at the rate %g, but this command gives it %g; repeat {lr}, or give another {out}",
        model->name, lr, model->lr);
  bool images = ch_compare_on_images(setup);
  const char *key = images ? "images_trained" : "tokens_trained";
  int64_t steps = model->steps ? model->steps : setup->training.steps;
  bool diverged = json_is_null(json_object_get(result, "validation_loss"));
  if (diverged ||
      json_integer_value(json_object_get(result, key)) >= steps * ch_train_step_tokens(&setup->training))
    return CH_OK;
  if (ch_directory_has(directory, CH_TRAIN_CHECKPOINT)) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s cannot be given more %s: %s has no " CH_TRAIN_CHECKPOINT
                 " any more; put it back, or remove that directory to train it from the beginning",
                 model->name, images ? "epochs" : "tokens", directory);
}

static ch_status check_run(const ch_compare_setup *setup, const ch_planned_model *model, uint64_t seed,
                           ch_error *error) {
  const char *name = ch_compare_run_directory(setup, model, seed);
  char *directory = name ? ch_path_join(setup->settings.report.out, name) : NULL;
  char *path = directory ? ch_path_join(directory, CH_COMPARE_RESULT) : NULL;
  json_t *result = NULL;
  ch_status status = path ? CH_OK : ch_no_memory(error);
  if (status == CH_OK && ch_is_file(path)) status = ch_json_read(path, MOST_RESULT_BYTES, &result, error);
  if (status == CH_OK && result) status = check_result(setup, model, directory, result, error);
  json_decref(result);
  free(path);
  free(directory);
  return status;
}

static ch_status check_trained(const ch_compare_setup *setup, ch_error *error) {
  int64_t seeds =
      setup->settings.schedule.until_decided ? CH_COMPARE_MOST_SEEDS : setup->settings.training.seeds;
  for (int i = 0; i < setup->plan.count; i++)
    for (int64_t s = 0; s < seeds; s++)
      CH_TRY(check_run(setup, &setup->plan.models[i], setup->settings.training.seed + (uint64_t)s, error));
  return CH_OK;
}

static ch_status open_source(ch_compare_setup *setup, bool continued, bool dry, ch_error *error) {
  return ch_compare_on_images(setup) ? open_images(setup, continued, dry, error)
                                     : open_comparison_text(setup, continued, dry, error);
}

static ch_status plan_training(ch_compare_setup *setup, ch_error *error) {
  bool images = ch_compare_on_images(setup);
  CH_TRY(plan_models(setup, error));
  CH_TRY(ch_rates_settle(setup->settings.rates.rates, setup->lr_given, images, &setup->plan, error));
  CH_TRY(settle_training(setup, error));
  for (int i = 0; images && i < setup->plan.count; i++)
    CH_TRY(ch_image_data_prepare(&setup->images, &setup->plan.models[i].config, &setup->training, error));
  return CH_OK;
}

static ch_status read_settings(const ch_compare_settings *settings, ch_compare_setup *setup,
                               ch_error *error) {
  CH_TRY(ch_compare_settings_complete(settings, setup->experiment, &setup->settings, error));
  CH_TRY(ch_rates_common(settings->rates.rates, &setup->lr_given, error));
  if (settings->rates.lr > 0) setup->lr_given = settings->rates.lr;
  return ch_compare_plan_names(setup->settings.lineup.mechanisms, &setup->plan, error);
}

static uint64_t hash_names(const ch_compare_settings *s) {
  const char *const names[] = {s->report.out, s->text.data, s->vision.images, s->lineup.tokenizer,
                               s->rates.rates};
  return ch_hash_texts(names, sizeof names / sizeof *names);
}

/* Checks that all ranks have the same program and settings. */
static ch_status compare_settings(const ch_compare_setup *setup, ch_error *error) {
  ch_rank_group *all = setup->settings.workers.ranks;
  if (!all) return CH_OK;
  uint64_t options = 0;
  ch_status status =
      ch_compare_settings_hash(&setup->settings, setup->experiment, &setup->plan, &options, error);
  CH_TRY(ch_agree(all, status, error));
  CH_TRY(ch_ranks_compare_programs(all, ch_kernels_best(CH_F32)->name, ch_team_of(0).threads, error));
  const ch_rank_fact facts[] = {{"other options", options},
                                {"other names of files", hash_names(&setup->settings)}};
  return ch_ranks_compare(all, facts, sizeof facts / sizeof *facts, error);
}

/* Prepares all that needs no text: the settings, the names, the ranks and the directory. */
static ch_status begin_setup(const ch_compare_settings *settings, bool dry, ch_compare_setup *setup,
                             ch_error *error) {
  ch_rank_group *all = dry ? NULL : settings->workers.ranks;
  setup->settings = *settings;
  CH_TRY(ch_agree(all, read_settings(settings, setup, error), error));
  if (dry) return CH_OK;
  CH_TRY(compare_settings(setup, error));
  /* PyTorch's worker starts all processes of a run. */
  int64_t each = settings->workers.engine == CH_ENGINE_PYTORCH ? 1 : settings->workers.ranks_per_run;
  CH_TRY(ch_scheduler_open(all, each, ch_compare_stopped, setup, &setup->scheduler, error));
  if (!ch_scheduler_leads(&setup->scheduler)) return ch_agree(all, CH_OK, error);
  ch_preparation_begin(&setup->attempt, setup->settings.report.out);
  return ch_agree(all, ch_make_directory(setup->settings.report.out, error), error);
}

static ch_status check_kept(ch_compare_setup *setup, ch_stored_settings *kept, ch_error *error) {
  const ch_compare_settings *s = &setup->settings;
  CH_TRY(ch_compare_settings_check(s, setup->experiment, &setup->plan, kept, error));
  setup->grown_from = kept->grown_from;
  if (kept->there || !s->schedule.collect) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s holds no comparison to collect; train its shares with {part} 1/N, ..., N/N first",
                 s->report.out);
}

ch_status ch_compare_setup_plan(const ch_compare_settings *settings, ch_experiment experiment, bool dry,
                                ch_comparison *comparison, ch_compare_setup *setup, ch_error *error) {
  ch_compare_settings own = *settings;
  ch_stored_settings kept;
  if (!dry && !ch_ranks_leads(settings->workers.ranks)) own.event = NULL; /* only rank 0 reports progress */
  *setup = (ch_compare_setup){
      .experiment = experiment, .scheduler.groups = 1, .comparison = comparison, .dry = dry};
  CH_TRY(begin_setup(&own, dry, setup, error));
  CH_TRY(ch_agree(setup->scheduler.all, check_kept(setup, &kept, error), error));
  setup->continued = kept.there;
  /* Rank 0 prepares the text or images. The other ranks then open them. */
  ch_rank_group *all = setup->scheduler.all;
  bool leads = ch_scheduler_leads(&setup->scheduler);
  CH_TRY(ch_agree(all, leads ? open_source(setup, kept.there, dry, error) : CH_OK, error));
  CH_TRY(ch_agree(all, leads ? CH_OK : open_source(setup, true, false, error), error));
  const ch_rank_fact facts[] = {
      {"another text, tokenizer or images", ch_hash_text(ch_compare_source(setup)->fingerprint)}};
  CH_TRY(ch_ranks_compare(setup->scheduler.all, facts, 1, error));
  return ch_agree(setup->scheduler.all, plan_training(setup, error), error);
}

/* Saves the settings after the text is prepared, so that a directory with settings has all that was derived from the
 * text. */
ch_status ch_compare_setup_settle(ch_compare_setup *setup, ch_error *error) {
  ch_rank_group *all = setup->scheduler.all;
  CH_TRY(ch_agree(all, ch_compare_setup_describe(setup, error), error));
  CH_TRY(ch_agree(all, setup->continued ? check_trained(setup, error) : CH_OK, error));
  if (setup->dry) return CH_OK;
  bool writes = ch_scheduler_leads(&setup->scheduler) && !setup->continued;
  CH_TRY(ch_agree(all, writes ? ch_compare_setup_keep(setup, error) : CH_OK, error));
  ch_compare_tell(setup, (ch_compare_event){.kind = CH_COMPARE_EVENT_PREPARED,
                                            .as.prepared = {&setup->comparison->data}});
  return CH_OK;
}

ch_status ch_compare_setup_text(const ch_compare_settings *settings, ch_comparison *comparison,
                                ch_compare_setup *setup, ch_error *error) {
  *setup = (ch_compare_setup){
      .experiment = CH_EXPERIMENT_COMPARISON, .scheduler.groups = 1, .comparison = comparison};
  CH_TRY(begin_setup(settings, false, setup, error));
  return open_comparison_text(setup, false, false, error);
}

ch_status ch_compare_setup_keep(ch_compare_setup *setup, ch_error *error) {
  if (setup->kept) return CH_OK;
  CH_TRY(
      ch_compare_settings_write(&setup->settings, setup->experiment, &setup->plan, setup->grown_from, error));
  setup->kept = true;
  return CH_OK;
}

void ch_compare_setup_close(ch_compare_setup *setup, ch_status status) {
  /* Other parts of the comparison may already use the files that this part prepared. */
  bool shared = setup->settings.schedule.parts > 0 && setup->kept;
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED && !setup->began && !shared)
    ch_preparation_undo(&setup->attempt);
  ch_preparation_end(&setup->attempt);
  ch_scheduler_close(&setup->scheduler);
  ch_data_close(&setup->data);
  ch_image_data_close(&setup->images);
  ch_compare_plan_free(&setup->plan);
}
