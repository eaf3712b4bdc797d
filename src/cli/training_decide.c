/* What a run of crosshead train is to do: its config and options, new or from a checkpoint. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/training.h"
#include "train/options_json.h"

static size_t size_of(ch_option_type type) {
  return type == CH_OPTION_FLAG ? sizeof(bool) : type == CH_OPTION_NUMBER ? sizeof(double) : sizeof(int64_t);
}

/* Puts the training options that the user gave over `training`. */
static void overlay(const ch_training_arguments *args, ch_train_options *training) {
  const size_t first = offsetof(ch_training_arguments, training), last = first + sizeof args->training;
  for (const ch_option *o = ch_training_option_table; o->name; o++)
    if (*o->name && o->offset >= first && o->offset < last && ch_option_given(args, o->name))
      memcpy((char *)training + (o->offset - first), (const char *)args + o->offset, size_of(o->type));
  if (ch_option_given(args, "schedule")) ch_schedule_parse(args->schedule, &training->schedule);
  if (ch_option_given(args, "dtype"))
    training->dtype = strcmp(args->dtype, "f64") == 0    ? CH_F64
                      : strcmp(args->dtype, "bf16") == 0 ? CH_BF16
                                                         : CH_F32;
  if (ch_option_given(args, "seed")) training->seed = (uint64_t)args->seed;
}

/* How images are augmented: what was asked for, or at the start of a run what suits them. */
static void choose_augmentation(const ch_training_arguments *args, const ch_config *config, bool resumed,
                                ch_train_options *training) {
  bool asked = ch_option_given(args, "augment") && strcmp(args->augment, "auto") != 0;
  if (!ch_config_is_vision(config) || (resumed && !asked)) return;
  bool colour = config->num_channels > 1 && !asked;
  training->flip = colour || strncmp(args->augment, "flip", 4) == 0;
  bool crops = colour || strstr(args->augment, "crop") || args->training.crop;
  if (!crops) training->crop = 0;
  if (crops && !args->training.crop) training->crop = (config->image_size + 7) / 8;
}

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
static ch_status check_out(const ch_training *run, ch_error *error) {
  const char *out = run->args->out;
  bool prepared = has_file(out, CH_DATA_RECORD), logged = has_file(out, CH_RUN_LOG);
  char first[64] = "";
  DIR *directory = opendir(out);
  if (!directory) return CH_OK;
  for (const struct dirent *entry; !*first && (entry = readdir(directory));) {
    bool allowed =
        is_derived(entry->d_name) && (prepared || run->args->resume) && (!logged || run->args->resume);
    bool itself = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (!allowed && !itself) snprintf(first, sizeof first, "%.60s", entry->d_name);
  }
  closedir(directory);
  if (!*first) return CH_OK;
  if (run->args->resume)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--out %s has no checkpoint to resume but holds %s; choose a directory of its own for the run", out,
        first);
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "--out %s is not empty (%s); go on with a run that lies there with --resume, or choose another", out,
      first);
}

static ch_status read_stored(ch_training *run, const char *checkpoint, ch_error *error) {
  const ch_training_arguments *args = run->args;
  CH_TRY(ch_checkpoint_read_options(checkpoint, &run->options, &run->config, NULL, error));
  if (!args->positional[0]) return CH_OK;
  int64_t bos = run->config.bos_token_id, eos = run->config.eos_token_id;
  CH_TRY(ch_config_read(args->positional[0], &run->config, error));
  if (run->config.bos_token_id < 0) run->config.bos_token_id = bos;
  if (run->config.eos_token_id < 0) run->config.eos_token_id = eos;
  return CH_OK;
}

static ch_status read_fresh(ch_training *run, ch_error *error) {
  const ch_training_arguments *args = run->args;
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
  CH_TRY(ch_config_read(args->positional[0] ? args->positional[0] : args->init_from, &run->config, error));
  ch_train_options_default(&run->config, &run->options);
  if (args->init_from) run->options.lr = 1e-4;
  if (args->recover) {
    run->options.lr = 1.6e-5;
    run->options.schedule = CH_SCHEDULE_COSINE_TO_ZERO;
  }
  return CH_OK;
}

/* Options that mean nothing to the kind of model that is trained. */
static ch_status check_kind(const ch_training *run, ch_error *error) {
  static const char *const of_text[] = {"tokens", "seq", "tokenizer", "documents", "separator", NULL};
  static const char *const of_images[] = {"images", "augment", "crop", "label-smoothing", NULL};
  bool vision = ch_config_is_vision(&run->config);
  for (const char *const *name = vision ? of_text : of_images; *name; name++)
    if (ch_option_given(run->args, *name))
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s is for models of %s; a \"%s\" takes %s%s", *name,
                     vision ? "text" : "images", run->config.model_type, vision ? "images" : "text",
                     strcmp(*name, "tokens") == 0 ? ", whose length is given with --epochs or --steps" : "");
  return CH_OK;
}

/* Config and options, from the command line or from the checkpoint that lies in --out. */
ch_status ch_training_decide(ch_training *run, ch_error *error) {
  const ch_training_arguments *args = run->args;
  if ((args->tokens != 0) + (args->training.steps != 0) + (args->epochs != 0) > 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s and %s say the same; give one of them",
                   args->tokens ? "--tokens" : "--steps", args->epochs ? "--epochs" : "--steps");
  if (args->data && args->images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--data and --images say the same; give one of them");
  char *checkpoint = ch_path_join(args->out, CH_RUN_CHECKPOINT);
  if (!checkpoint) return ch_fail(error, CH_ERROR_MEMORY, "no memory to train");
  run->resumed = args->resume && ch_is_file(checkpoint);
  ch_status status = run->resumed ? CH_OK : check_out(run, error);
  if (status == CH_OK) status = run->resumed ? read_stored(run, checkpoint, error) : read_fresh(run, error);
  free(checkpoint);
  CH_TRY(status);
  CH_TRY(check_kind(run, error));
  overlay(args, &run->options);
  choose_augmentation(args, &run->config, run->resumed, &run->options);
  /* Before any work on the text; a length that is not known yet fits every warm-up. */
  ch_train_options known = run->options;
  if (known.steps == 0) known.steps = 100000000;
  return ch_train_options_check(&known, &run->config, error);
}
