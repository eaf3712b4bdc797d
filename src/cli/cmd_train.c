/* crosshead train: one model from a text or from images, to a directory that every other command opens. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/output.h"
#include "cli/interrupt.h"
#include "cli/parse.h"
#include "train/data.h"
#include "train/image_data.h"
#include "train/options_json.h"
#include "train/run.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *data, *images, *out, *init_from, *tokenizer, *schedule, *dtype, *separator, *augment;
  bool resume, recover, json;
  int64_t tokens, epochs, seed;
  double validation;
  ch_train_options training; /* members whose options were given; the others are taken elsewhere */
} arguments;

/* --- options ------------------------------------------------------------------------------------------------- */

static const char *const schedules[] = {"cosine", "constant", "cosine-to-zero", NULL};
static const char *const dtypes[] = {"f32", "f64", NULL};
static const char *const separators[] = {"auto", "marker", "blank-lines", "none", NULL};
static const char *const augmentations[] = {"auto", "none", "flip", "crop", "flip+crop", NULL};

#define AT(member) offsetof(arguments, member)
#define TRAINING(member) offsetof(arguments, training.member)

static const ch_option options[] = {
    {.name = "data",
     .type = CH_OPTION_PATH,
     .offset = AT(data),
     .metavar = "TEXT",
     .help =
         "The text (UTF-8; several files with commas between), or a token file; for a model of images their "
         "directory or files (CIFAR, IDX). A part is kept for validation. Required unless a run is resumed."},
    {.name = "images",
     .type = CH_OPTION_PATH,
     .offset = AT(images),
     .metavar = "DIR",
     .help = "The same as --data, for a model of images."},
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = AT(out),
     .metavar = "DIR",
     .required = true,
     .help = "Where model, tokenizer, checkpoint and log go."},
    {.name = "resume",
     .type = CH_OPTION_FLAG,
     .offset = AT(resume),
     .help = "Go on with the run in --out, with its own config, text and options; a given option that would "
             "change the "
             "result is refused."},
    {.name = "init-from",
     .type = CH_OPTION_PATH,
     .offset = AT(init_from),
     .metavar = "DIR",
     .help = "Continue training the model of DIR (ours, or a Hugging Face llama, qwen2, qwen3 or mistral), "
             "with its "
             "config and tokenizer."},
    {.name = "recover",
     .type = CH_OPTION_FLAG,
     .offset = AT(recover),
     .help = "With --init-from: the recipe that MEA gives for a compressed model. Rate 1.6e-5, warm-up of "
             "1000 steps "
             "(at most a tenth of all), cosine to zero; options that are given count more."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = AT(json),
     .help = "Print the result as one JSON object on standard output."},
    {.name = "", .help = "Length"},
    {.name = "tokens",
     .type = CH_OPTION_COUNT,
     .offset = AT(tokens),
     .metavar = "N",
     .min = 1,
     .max = 1e15,
     .help = "Tokens to train on; a short text is read again, shuffled anew (one pass over the text)."},
    {.name = "epochs",
     .type = CH_OPTION_COUNT,
     .offset = AT(epochs),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .help = "The same, counted in passes over the text or the images (1; of images 10)."},
    {.name = "steps",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(steps),
     .metavar = "N",
     .min = 1,
     .max = 1e8,
     .help = "The same, counted in optimizer steps."},
    {.name = "batch",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(batch),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .help = "Sequences or images of a batch (8; of images 64)."},
    {.name = "seq",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(sequence),
     .metavar = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "Tokens of a sequence (the model's context, at most 512)."},
    {.name = "accumulate",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(accumulate),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .default_value = "1",
     .help = "Batches whose gradients make one step."},
    {.name = "", .help = "Optimizer"},
    {.name = "lr",
     .type = CH_OPTION_NUMBER,
     .offset = TRAINING(lr),
     .metavar = "RATE",
     .min = 1e-12,
     .max = 1000,
     .help = "Peak learning rate (1e-3; with --init-from 1e-4)."},
    {.name = "schedule",
     .type = CH_OPTION_CHOICE,
     .offset = AT(schedule),
     .metavar = "NAME",
     .choices = schedules,
     .default_value = "cosine",
     .help =
         "After the warm-up: down to 10 % of the peak, staying there, or down to nothing. A constant run can "
         "be prolonged later."},
    {.name = "warmup",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(warmup),
     .metavar = "STEPS",
     .min = 0,
     .max = 1e8,
     .help = "Steps of linear warm-up (5 % of all, at most 1000)."},
    {.name = "weight-decay",
     .type = CH_OPTION_NUMBER,
     .offset = TRAINING(weight_decay),
     .metavar = "W",
     .min = 0,
     .max = 1000,
     .default_value = "0.1",
     .help = "Decay of matrices; norms and biases have none."},
    {.name = "clip",
     .type = CH_OPTION_NUMBER,
     .offset = TRAINING(clip),
     .metavar = "NORM",
     .min = 0,
     .max = 1e9,
     .default_value = "1",
     .help = "Largest norm of all gradients together; 0 for no limit."},
    {.name = "beta1",
     .type = CH_OPTION_NUMBER,
     .offset = TRAINING(beta1),
     .metavar = "B",
     .min = 0,
     .max = 0.999999,
     .default_value = "0.9",
     .help = "AdamW's decay of the first moment."},
    {.name = "beta2",
     .type = CH_OPTION_NUMBER,
     .offset = TRAINING(beta2),
     .metavar = "B",
     .min = 0,
     .max = 0.9999999,
     .default_value = "0.95",
     .help = "AdamW's decay of the second moment."},
    {.name = "eps",
     .type = CH_OPTION_NUMBER,
     .offset = TRAINING(eps),
     .metavar = "E",
     .min = 1e-30,
     .max = 1,
     .default_value = "1e-8",
     .help = "AdamW's epsilon."},
    {.name = "seed",
     .type = CH_OPTION_COUNT,
     .offset = AT(seed),
     .metavar = "N",
     .min = 0,
     .max = 9e18,
     .default_value = "0",
     .help = "Decides initial weights and the order of the text."},
    {.name = "", .help = "Text"},
    {.name = "tokenizer",
     .type = CH_OPTION_PATH,
     .offset = AT(tokenizer),
     .metavar = "FILE",
     .help = "A tokenizer.json, a llama2.c tokenizer.bin or a directory with one, instead of a tokenizer "
             "trained on the "
             "text with the config's vocab_size."},
    {.name = "documents",
     .type = CH_OPTION_FLAG,
     .offset = TRAINING(documents),
     .help = "Keep attention inside each document, and pack documents so that few are cut."},
    {.name = "separator",
     .type = CH_OPTION_CHOICE,
     .offset = AT(separator),
     .metavar = "NAME",
     .choices = separators,
     .default_value = "auto",
     .help = "What parts documents: <|endoftext|> (marker), empty lines, nothing; auto takes the marker "
             "where there is "
             "one."},
    {.name = "validation",
     .type = CH_OPTION_NUMBER,
     .offset = AT(validation),
     .metavar = "SHARE",
     .min = 1e-6,
     .max = 0.5,
     .default_value = "0.05",
     .help = "Share of the text, or of images without test files, that is kept for validation."},
    {.name = "", .help = "Images"},
    {.name = "augment",
     .type = CH_OPTION_CHOICE,
     .offset = AT(augment),
     .metavar = "NAME",
     .choices = augmentations,
     .default_value = "auto",
     .help = "What is done to images at random: mirrored left to right, cut out of a black margin; auto does "
             "both to "
             "images in colour and nothing to grey ones."},
    {.name = "crop",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(crop),
     .metavar = "PIXELS",
     .min = 1,
     .max = 4096,
     .help = "Pixels of that margin (an eighth of an image)."},
    {.name = "label-smoothing",
     .type = CH_OPTION_NUMBER,
     .offset = TRAINING(label_smoothing),
     .metavar = "S",
     .min = 0,
     .max = 0.99,
     .default_value = "0",
     .help = "Share of the target that is spread over all classes."},
    {.name = "", .help = "Evaluation, checkpoints, memory"},
    {.name = "eval-every",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(eval_every),
     .metavar = "STEPS",
     .min = 0,
     .max = 1e9,
     .help = "Steps between evaluations (a twentieth of all, or as many as make evaluating cheap); 0 for one "
             "at the "
             "end."},
    {.name = "eval-tokens",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(eval_tokens),
     .metavar = "N",
     .min = 0,
     .max = 1e12,
     .default_value = "131072",
     .help = "Validation tokens (or images) of an evaluation, at most; 0 for all there are."},
    {.name = "checkpoint-every",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(checkpoint_every),
     .metavar = "STEPS",
     .min = 0,
     .max = 1e9,
     .help = "Steps between checkpoints (every ten minutes). One is always saved at the end and on an "
             "interrupt."},
    {.name = "micro-batch",
     .type = CH_OPTION_COUNT,
     .offset = TRAINING(micro_batch),
     .metavar = "N",
     .min = 1,
     .max = 1e6,
     .help = "Sequences computed at a time, a divisor of --batch: fewer take less memory, and the result "
             "stays the same "
             "up to rounding (chosen by size)."},
    {.name = "recompute",
     .type = CH_OPTION_FLAG,
     .offset = TRAINING(recompute),
     .help = "Compute cheap activations twice instead of keeping them: less memory, the same result."},
    {.name = "dtype",
     .type = CH_OPTION_CHOICE,
     .offset = AT(dtype),
     .metavar = "TYPE",
     .choices = dtypes,
     .default_value = "f32",
     .help = "Arithmetic; f64 is the slow reference."},
    {.name = NULL},
};

static size_t size_of(ch_option_type type) {
  return type == CH_OPTION_FLAG ? sizeof(bool) : type == CH_OPTION_NUMBER ? sizeof(double) : sizeof(int64_t);
}

/* Puts the training options that the user gave over `training`. */
static void overlay(const arguments *args, ch_train_options *training) {
  const size_t first = AT(training), last = first + sizeof args->training;
  for (const ch_option *o = options; o->name; o++)
    if (*o->name && o->offset >= first && o->offset < last && ch_option_given(args, o->name))
      memcpy((char *)training + (o->offset - first), (const char *)args + o->offset, size_of(o->type));
  if (ch_option_given(args, "schedule")) ch_schedule_parse(args->schedule, &training->schedule);
  if (ch_option_given(args, "dtype")) training->dtype = strcmp(args->dtype, "f64") == 0 ? CH_F64 : CH_F32;
  if (ch_option_given(args, "seed")) training->seed = (uint64_t)args->seed;
}

/* How images are augmented: what was asked for, or at the start of a run what suits them. */
static void choose_augmentation(const arguments *args, const ch_config *config, bool resumed,
                                ch_train_options *training) {
  bool asked = ch_option_given(args, "augment") && strcmp(args->augment, "auto") != 0;
  if (!ch_config_is_vision(config) || (resumed && !asked)) return;
  bool colour = config->num_channels > 1 && !asked;
  training->flip = colour || strncmp(args->augment, "flip", 4) == 0;
  bool crops = colour || strstr(args->augment, "crop") || args->training.crop;
  if (!crops) training->crop = 0;
  if (crops && !args->training.crop) training->crop = (config->image_size + 7) / 8;
}

/* --- what is to be done -------------------------------------------------------------------------------------- */

typedef struct job {
  const arguments *args;
  ch_config config;
  ch_train_options training;
  bool resumed;         /* a checkpoint is there to go on from */
  ch_data data;         /* of a model of text */
  ch_image_data images; /* or of images */
  ch_trainer *trainer;
  ch_progress_line line;
  int64_t began_step;
  double smooth_loss, smooth_seconds; /* running means over about the last twenty steps */
} job;

/* What preparation and an aborted start leave behind. */
static bool is_derived(const char *name) {
  static const char *const ours[] = {".",
                                     "..",
                                     CH_DATA_TOKENS,
                                     CH_DATA_RECORD,
                                     CH_RUN_LOG,
                                     "tokenizer.json",
                                     "tokenizer_config.json",
                                     "tokenizer.bin"};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (strcmp(name, ours[i]) == 0) return true;
  return strstr(name, ".tmp.") != NULL;
}

static bool has_file(const char *directory, const char *name) {
  char *path = ch_path_join(directory, name);
  bool has = path && ch_is_file(path);
  free(path);
  return has;
}

/* Training into a directory with other things in it could overwrite them. Without a checkpoint there may be text that
   an earlier call prepared, and with --resume the log of a run that never came to its first checkpoint. */
static ch_status check_out(const job *j, ch_error *error) {
  const char *out = j->args->out;
  bool prepared = has_file(out, CH_DATA_RECORD), logged = has_file(out, CH_RUN_LOG);
  char first[64] = "";
  DIR *directory = opendir(out);
  if (!directory) return CH_OK;
  for (const struct dirent *entry; !*first && (entry = readdir(directory));) {
    bool allowed = is_derived(entry->d_name) && (prepared || j->args->resume) && (!logged || j->args->resume);
    bool itself = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (!allowed && !itself) snprintf(first, sizeof first, "%.60s", entry->d_name);
  }
  closedir(directory);
  if (!*first) return CH_OK;
  if (j->args->resume)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--out %s has no checkpoint to resume but holds %s; choose a directory of its own for the run", out,
        first);
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "--out %s is not empty (%s); go on with a run that lies there with --resume, or choose another", out,
      first);
}

static ch_status read_stored(job *j, const char *checkpoint, ch_error *error) {
  const arguments *args = j->args;
  CH_TRY(ch_checkpoint_read_options(checkpoint, &j->training, &j->config, NULL, error));
  if (!args->positional[0]) return CH_OK;
  int64_t bos = j->config.bos_token_id, eos = j->config.eos_token_id;
  CH_TRY(ch_config_read(args->positional[0], &j->config, error));
  if (j->config.bos_token_id < 0) j->config.bos_token_id = bos;
  if (j->config.eos_token_id < 0) j->config.eos_token_id = eos;
  return CH_OK;
}

static ch_status read_fresh(job *j, ch_error *error) {
  const arguments *args = j->args;
  if (args->positional[0] && args->init_from)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--init-from brings its own config; leave out %s",
                   args->positional[0]);
  if (!args->positional[0] && !args->init_from)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a config is missing: write `crosshead train CONFIG --data %s --out %s`",
                   args->data ? args->data : "TEXT", args->out);
  if (args->recover && !args->init_from)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--recover is for a model that exists: give it with --init-from");
  if (!args->data && !args->images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--data is missing: the text to train on, or the images");
  CH_TRY(ch_config_read(args->positional[0] ? args->positional[0] : args->init_from, &j->config, error));
  ch_train_options_default(&j->config, &j->training);
  if (args->init_from) j->training.lr = 1e-4;
  if (args->recover) {
    j->training.lr = 1.6e-5;
    j->training.schedule = CH_SCHEDULE_COSINE_TO_ZERO;
  }
  return CH_OK;
}

/* Options that mean nothing to the kind of model that is trained. */
static ch_status check_kind(const job *j, ch_error *error) {
  static const char *const of_text[] = {"tokens", "seq", "tokenizer", "documents", "separator", NULL};
  static const char *const of_images[] = {"images", "augment", "crop", "label-smoothing", NULL};
  bool vision = ch_config_is_vision(&j->config);
  for (const char *const *name = vision ? of_text : of_images; *name; name++)
    if (ch_option_given(j->args, *name))
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s is for models of %s; a \"%s\" takes %s%s", *name,
                     vision ? "text" : "images", j->config.model_type, vision ? "images" : "text",
                     strcmp(*name, "tokens") == 0 ? ", whose length is given with --epochs or --steps" : "");
  return CH_OK;
}

/* Config and options, from the command line or from the checkpoint that lies in --out. */
static ch_status decide(job *j, ch_error *error) {
  const arguments *args = j->args;
  if ((args->tokens != 0) + (args->training.steps != 0) + (args->epochs != 0) > 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s and %s say the same; give one of them",
                   args->tokens ? "--tokens" : "--steps", args->epochs ? "--epochs" : "--steps");
  if (args->data && args->images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--data and --images say the same; give one of them");
  char *checkpoint = ch_path_join(args->out, CH_RUN_CHECKPOINT);
  if (!checkpoint) return ch_fail(error, CH_ERROR_MEMORY, "no memory to train");
  j->resumed = args->resume && ch_is_file(checkpoint);
  ch_status status = j->resumed ? CH_OK : check_out(j, error);
  if (status == CH_OK) status = j->resumed ? read_stored(j, checkpoint, error) : read_fresh(j, error);
  free(checkpoint);
  CH_TRY(status);
  CH_TRY(check_kind(j, error));
  overlay(args, &j->training);
  choose_augmentation(args, &j->config, j->resumed, &j->training);
  /* Before any work on the text; a length that is not known yet fits every warm-up. */
  ch_train_options known = j->training;
  if (known.steps == 0) known.steps = 100000000;
  return ch_train_options_check(&known, &j->config, error);
}

/* --- progress ------------------------------------------------------------------------------------------------ */

static bool interrupted(void *context) {
  (void)context;
  return ch_interrupted();
}

static bool show_preparation(void *context, const char *stage, double done, double total) {
  job *j = context;
  ch_progress_show(&j->line, false, "%s  %.0f %%", stage, total > 0 ? 100 * done / total : 0);
  return !ch_interrupted();
}

static void show_step(void *context, const ch_step_report *report) {
  job *j = context;
  int64_t steps = ch_trainer_options(j->trainer)->steps, taken = report->step - j->began_step;
  double weight = taken < 20 ? 1 / (double)taken : 0.05;
  j->smooth_loss += weight * (report->loss - j->smooth_loss);
  j->smooth_seconds += weight * (report->seconds - j->smooth_seconds);
  bool last = report->step == steps;
  if (!last && !ch_progress_due(&j->line)) return;
  char tokens[32], left[32];
  double rate = (double)ch_train_step_tokens(ch_trainer_options(j->trainer)) / fmax(j->smooth_seconds, 1e-9);
  /* The time left counts evaluations and checkpoints too. */
  double a_step = ch_progress_seconds(&j->line) / (double)taken;
  ch_progress_show(&j->line, last, "step %lld/%lld  loss %.4f  %s %s/s  lr %.2e  %s left",
                   (long long)report->step, (long long)steps, j->smooth_loss,
                   ch_format_count(rate, tokens, sizeof tokens), ch_trainer_unit(j->trainer), report->lr,
                   ch_format_duration((double)(steps - report->step) * a_step, left, sizeof left));
}

/* What a loss is as people read it: "perplexity 3.21", or "top-1 61.2 %, top-5 95.0 %". */
static const char *quality(const ch_validation_point *point, char *buffer, size_t size) {
  if (point->top1 >= 0)
    snprintf(buffer, size, "top-1 %.2f %%, top-5 %.2f %%", 100 * point->top1, 100 * point->top5);
  else
    snprintf(buffer, size, "perplexity %.2f", exp(point->loss));
  return buffer;
}

static void show_evaluation(void *context, const ch_validation_point *point) {
  job *j = context;
  char experts[64] = "", shown[64];
  double least, most;
  if (ch_trainer_expert_shares(j->trainer, &least, &most))
    snprintf(experts, sizeof experts, ", expert shares %.1f to %.1f %%", 100 * least, 100 * most);
  ch_progress_print(&j->line, "step %lld: validation loss %.4f, %s%s", (long long)point->step, point->loss,
                    quality(point, shown, sizeof shown), experts);
}

/* --- the run ------------------------------------------------------------------------------------------------- */

static ch_status open_images(job *j, ch_error *error) {
  const arguments *args = j->args;
  const char *names = args->images ? args->images : args->data;
  CH_TRY(ch_image_data_open(names, args->validation, args->out, &j->images, error));
  CH_TRY(ch_image_data_prepare(&j->images, &j->config, &j->training, error));
  return j->resumed ? CH_OK : ch_image_data_record(&j->images, args->out, error);
}

static ch_status open_text(job *j, ch_error *error) {
  const arguments *args = j->args;
  ch_data_options o = {.data = args->data,
                       .tokenizer = args->tokenizer,
                       .vocab_size = j->config.vocab_size,
                       .directory = args->out,
                       .fixed = j->resumed,
                       .sequence = j->training.sequence,
                       .seed = j->training.seed,
                       .documents = j->training.documents,
                       .validation = args->validation,
                       .report = show_preparation,
                       .context = j};
  for (int i = 0; separators[i]; i++)
    if (strcmp(args->separator, separators[i]) == 0) o.separator = (ch_separator)i;
  if (!o.tokenizer && args->init_from && !j->resumed) o.tokenizer = args->init_from;
  CH_TRY(ch_data_open(&o, &j->data, error));
  if (j->config.bos_token_id < 0) j->config.bos_token_id = j->data.bos;
  if (j->config.eos_token_id < 0) j->config.eos_token_id = j->data.eos;
  return CH_OK;
}

/* A twentieth of the run, unless evaluations would then take more than about a tenth of the training's time: a token
   costs a third of what it costs in training. */
static int64_t usual_eval_every(const ch_train_options *t, const ch_source *source) {
  int64_t tokens = source->validation_sequences * t->sequence;
  if (t->eval_tokens > 0 && t->eval_tokens < tokens) tokens = t->eval_tokens;
  int64_t share = (t->steps + 19) / 20, affordable = (tokens * 10 / 3) / ch_train_step_tokens(t) + 1;
  return share > affordable ? share : affordable;
}

static const ch_source *source_of(const job *j) {
  return ch_config_is_vision(&j->config) ? &j->images.source : &j->data.source;
}

/* Tokens or images of one pass over them all. */
static int64_t epoch_of(const job *j) {
  return ch_config_is_vision(&j->config) ? j->images.info.count[CH_IMAGES_TRAIN]
                                         : j->data.train_sequences * j->training.sequence;
}

/* What depends on the length of the text, or the number of images. */
static ch_status complete_options(job *j, ch_error *error) {
  enum { USUAL_EPOCHS_OF_IMAGES = 10 };
  const arguments *args = j->args;
  ch_train_options *t = &j->training;
  int64_t usual = ch_config_is_vision(&j->config) ? USUAL_EPOCHS_OF_IMAGES : 1;
  int64_t epochs = args->epochs ? args->epochs : t->steps == 0 ? usual : 0, tokens = args->tokens;
  if (epochs > INT64_MAX / 2 / epoch_of(j))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--epochs %lld are too many", (long long)epochs);
  if (!tokens) tokens = epochs * epoch_of(j);
  if (tokens) t->steps = ch_train_steps_for(t, tokens);
  if (args->recover && !j->resumed && !ch_option_given(args, "warmup"))
    t->warmup = t->steps < 10000 ? t->steps / 10 : 1000;
  if (!j->resumed && !ch_option_given(args, "eval-every")) t->eval_every = usual_eval_every(t, source_of(j));
  return CH_OK;
}

static int64_t parameter_count(const ch_trainer *trainer) {
  const ch_params *params = ch_trainer_params(trainer);
  int64_t count = 0;
  for (int p = 0; p < params->count; p++) count += ch_param_figure(&params->rows[p]);
  return count;
}

static void announce(void *context, int64_t step) {
  job *j = context;
  j->began_step = step;
  char parameters[32], tokens[32], memory[32], batch[64] = "", length[40] = "";
  const ch_train_options *t = ch_trainer_options(j->trainer);
  const char *unit = ch_trainer_unit(j->trainer);
  bool vision = ch_config_is_vision(&j->config);
  if (t->accumulate > 1) snprintf(batch, sizeof batch, " x %lld", (long long)t->accumulate);
  if (!vision) snprintf(length, sizeof length, " x %lld", (long long)t->sequence);
  double trains = (double)(vision ? j->images.info.count[CH_IMAGES_TRAIN] : j->data.train_tokens);
  ch_progress_print(&j->line, "%s parameters, %s training %s, %sB of memory; %lld steps of %lld%s%s %s",
                    ch_format_count((double)parameter_count(j->trainer), parameters, sizeof parameters),
                    ch_format_count(trains, tokens, sizeof tokens), unit,
                    ch_format_count((double)ch_trainer_bytes(j->trainer), memory, sizeof memory),
                    (long long)t->steps, (long long)t->batch, batch, length, unit);
  ch_progress_begin(&j->line, stderr); /* rates count from here */
  if (j->args->resume && !j->resumed)
    ch_progress_print(&j->line, "%s has no checkpoint yet: training begins at step 1", j->args->out);
  if (j->resumed && j->began_step < t->steps)
    ch_progress_print(&j->line, "going on after step %lld", (long long)j->began_step);
  if (j->resumed && j->began_step == t->steps) ch_progress_print(&j->line, "all steps are done already");
}

static ch_status make_trainer(job *j, ch_error *error) {
  const char *from = j->args->init_from;
  char *checkpoint = j->resumed ? ch_path_join(j->args->out, CH_RUN_CHECKPOINT) : NULL;
  if (j->resumed && !checkpoint) return ch_fail(error, CH_ERROR_MEMORY, "no memory to train");
  ch_status status = ch_trainer_create_like(j->resumed ? checkpoint : from, &j->config, &j->training,
                                            source_of(j), &j->trainer, error);
  free(checkpoint);
  if (status != CH_OK || j->resumed || !from) return status;
  return ch_trainer_load_weights(j->trainer, j->args->init_from, error);
}

static ch_status print_result(const job *j, ch_error *error) {
  ch_progress_record record;
  ch_trainer_progress(j->trainer, &record);
  double rate = record.seconds > 0 ? (double)record.tokens / record.seconds : 0;
  const ch_validation_point *last =
      record.validation_points ? &record.validation[record.validation_points - 1] : NULL;
  double loss = record.step ? record.losses[record.step - 1] : 0;
  const char *unit = ch_trainer_unit(j->trainer);
  char per_second[64];
  if (!j->args->json) {
    char tokens[32], speed[32], shown[64];
    printf("%s: %lld steps, %s %s, training loss %.4f", j->args->out, (long long)record.step,
           ch_format_count((double)record.tokens, tokens, sizeof tokens), unit, loss);
    if (last) printf(", validation loss %.4f, %s", last->loss, quality(last, shown, sizeof shown));
    printf(", %s %s/s\n", ch_format_count(rate, speed, sizeof speed), unit);
    return CH_OK;
  }
  snprintf(per_second, sizeof per_second, "train_%s_per_second", unit);
  json_t *object =
      json_pack("{ss sI sI sI sf sf sf}", "model", j->args->out, "parameters",
                (json_int_t)parameter_count(j->trainer), "steps", (json_int_t)record.step, unit,
                (json_int_t)record.tokens, "loss", loss, "seconds", record.seconds, per_second, rate);
  if (object && last) {
    json_object_set_new(object, "validation_loss", json_real(last->loss));
    if (last->top1 >= 0)
      json_object_update_new(object, json_pack("{sf sf}", "top1", last->top1, "top5", last->top5));
    else
      json_object_set_new(object, "perplexity", json_real(exp(last->loss)));
  }
  double least, most;
  if (object && ch_trainer_expert_shares(j->trainer, &least, &most))
    json_object_set_new(object, "expert_shares", json_pack("[ff]", least, most));
  return ch_print_json(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9), error);
}

static ch_status train(job *j, ch_error *error) {
  CH_TRY(decide(j, error));
  ch_interrupt_watch();
  bool vision = ch_config_is_vision(&j->config);
  CH_TRY(vision ? open_images(j, error) : open_text(j, error));
  CH_TRY(complete_options(j, error));
  CH_TRY(make_trainer(j, error));
  ch_run_events events = {.context = j,
                          .started = announce,
                          .step = show_step,
                          .evaluated = show_evaluation,
                          .interrupted = interrupted};
  CH_TRY(ch_train_run(j->trainer, j->args->out, j->args->resume, &events, error));
  return vision ? CH_OK : ch_data_give_tokenizer(&j->data, j->args->out, error);
}

static ch_status run(const void *given, ch_error *error) {
  job j = {.args = given};
  ch_progress_begin(&j.line, stderr);
  ch_status status = train(&j, error);
  ch_progress_end(&j.line);
  ch_interrupt_release();
  if (status == CH_OK) status = print_result(&j, error);
  ch_trainer_free(j.trainer);
  ch_data_close(&j.data);
  ch_image_data_close(&j.images);
  return status;
}

const ch_command ch_cmd_train = {
    .name = "train",
    .positional = "[CONFIG]",
    .summary = "Train one model on a text, or on images.",
    .description = "CONFIG is a config.json (configs/ has some). The tokenizer is trained on the text unless "
                   "one is given; the "
                   "result in --out is a model directory for every other command.\n\n"
                   "A checkpoint is saved as training goes, and when it is interrupted (Ctrl-C); killing the "
                   "program loses nothing "
                   "saved. `crosshead train --out DIR --resume` goes on and ends with the same bits as an "
                   "unbroken run. log.jsonl in "
                   "--out has a line for every step.",
    .examples =
        "crosshead train configs/tiny-gqa.json --data story.txt --out model\n"
        "crosshead train configs/small-mqa.json --data a.txt,b.txt --out model --tokens 50M --lr 6e-4\n"
        "crosshead train configs/tiny-vit.json --images cifar-10-batches-bin --out vit --epochs 20\n"
        "crosshead train --out model --resume\n"
        "crosshead train --init-from Qwen3-0.6B --data notes.txt --out tuned --schedule constant",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
