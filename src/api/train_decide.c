/* Decides the config and the options of a run, new or from a checkpoint. A resumed run keeps its options. Settings
 * that would change its result are errors. */
#include <string.h>

#include "api/train_private.h"
#include "base/file.h"
#include "base/file_names.h"
#include "config_file/config_json.h"
#include "io/model_files.h"

/* --- checks of the settings alone -------------------------------------------------------------------------------- */

static ch_status check_choices(const ch_train_settings *s, ch_error *error) {
  unsigned both = CH_TRAIN_FLIP | CH_TRAIN_CROP;
  if (s->optimizer.schedule < CH_TRAIN_USUAL || s->optimizer.schedule > CH_TRAIN_COSINE_TO_ZERO ||
      (unsigned)s->text.documents > CH_DOCUMENTS_NONE)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "schedule is %d and documents is %d; one of them is out of range",
                   (int)s->optimizer.schedule, (int)s->text.documents);
  if (s->training.type != CH_PRECISION_DEFAULT && s->training.type != CH_PRECISION_F32 &&
      s->training.type != CH_PRECISION_BF16 && s->training.type != CH_PRECISION_F64)
    return ch_fail(error, CH_ERROR_ARGUMENT, "type is %d; models are trained in F32, BF16 or F64",
                   (int)s->training.type);
  if (s->vision.augment != CH_TRAIN_AUGMENT_NONE && s->vision.augment & ~both)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "augment is %u; it is CH_TRAIN_AUGMENT_NONE, or CH_TRAIN_FLIP and CH_TRAIN_CROP",
                   s->vision.augment);
  if (s->workers.engine != CH_ENGINE_NATIVE && s->workers.engine != CH_ENGINE_PYTORCH)
    return ch_fail(error, CH_ERROR_ARGUMENT, "engine is %d; it is CH_ENGINE_NATIVE or CH_ENGINE_PYTORCH",
                   (int)s->workers.engine);
  if (s->workers.engine == CH_ENGINE_NATIVE &&
      (s->workers.device || s->workers.python || s->workers.shard || s->workers.prepare))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{%s} needs {engine} pytorch",
                   s->workers.device   ? "device"
                   : s->workers.python ? "python"
                   : s->workers.shard  ? "shard"
                                       : "prepare");
  if (s->workers.shard && !(s->workers.device && strchr(s->workers.device, ',')))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{shard} divides the model over several devices; name them with {device}, as in cuda:0,cuda:1");
  if (s->workers.engine == CH_ENGINE_PYTORCH && (ch_rank_count(s->workers.ranks) > 1 || s->report.trace))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        s->report.trace
            ? "{engine} pytorch does not support {trace}"
            : "{engine} pytorch starts its own processes, one for each {device}; leave out mpirun");
  if (s->workers.threads < 0 || s->workers.threads > 4096)
    return ch_fail(error, CH_ERROR_ARGUMENT, "threads is %d; it must be from 1 to 4096, or 0 for the default",
                   s->workers.threads);
  return CH_OK;
}

static ch_status check_lengths(const ch_train_settings *s, ch_error *error) {
  if ((s->training.tokens != 0) + (s->training.steps != 0) + (s->training.epochs != 0) > 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{%s} and {%s} both set the length of the training; give one of them",
                   s->training.tokens ? "tokens" : "steps", s->training.epochs ? "epochs" : "steps");
  if (s->training.tokens < 0 || s->training.steps < 0 || s->training.epochs < 0 || s->vision.crop < 0 ||
      s->text.validation < 0 || s->text.validation > 0.5)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "{tokens}, {steps}, {epochs} and {crop} cannot be negative, and {validation} must be a share "
        "from 0 to 0.5");
  if (s->text.validation > 0 && s->text.validation_text)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{validation} and {validation_text} exclude each other; give one of them");
  if (s->text.data && s->vision.images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{data} and {images} mean the same; give one of them");
  return CH_OK;
}

/* Fails if the directory has other files, because training could overwrite them. */
static ch_status check_out(const ch_train_job *t, ch_error *error) {
  char stranger[64];
  if (!ch_is_directory(t->out)) return CH_OK;
  if (!t->settings->model.resume && !ch_holds_nothing(t->out) && !ch_holds_prepared_text(t->out))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s is not empty; set resume to continue the run in it, or choose another directory",
                   t->out);
  if (t->settings->model.resume && ch_find_foreign_to_run(t->out, stranger, sizeof stranger))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s has no checkpoint to resume but holds %s; give the directory of a run, or leave "
                   "{resume} out",
                   t->out, stranger);
  return CH_OK;
}

/* --- config and options ------------------------------------------------------------------------------------------ */

static ch_status read_stored(ch_train_job *t, ch_error *error) {
  CH_TRY(ch_checkpoint_read_options(t->checkpoint, &t->options, &t->config, NULL, error));
  if (!t->settings->model.config) return CH_OK;
  int64_t bos = t->config.bos_token_id, eos = t->config.eos_token_id;
  CH_TRY(ch_config_read(t->settings->model.config, &t->config, error));
  if (t->config.bos_token_id < 0) t->config.bos_token_id = bos;
  if (t->config.eos_token_id < 0) t->config.eos_token_id = eos;
  return CH_OK;
}

static ch_status read_fresh(ch_train_job *t, ch_error *error) {
  const ch_train_settings *s = t->settings;
  if (s->model.config && s->model.init_from)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{init_from} brings its own config; leave out %s",
                   s->model.config);
  if (!s->model.config && !s->model.init_from)
    return ch_fail(error, CH_ERROR_ARGUMENT, "no model is named; give a config or {init_from}");
  if (s->model.recover && !s->model.init_from)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{recover} needs {init_from}, the model to recover");
  if (!s->text.data && !s->vision.images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{data} is missing: the text to train on, or the images");
  CH_TRY(ch_config_read_stored(s->model.config ? s->model.config : s->model.init_from, &t->config, error));
  ch_train_options_default(&t->config, &t->options);
  t->options.seed = 1;
  if (s->model.init_from) t->options.lr = 1e-4;
  if (s->model.recover) {
    t->options.lr = 1.6e-5;
    t->options.schedule = CH_TRAIN_COSINE_TO_ZERO;
  }
  return CH_OK;
}

/* Fails for settings that do not apply to the kind of model. */
static ch_status check_kind(const ch_train_job *t, ch_error *error) {
  const ch_train_settings *s = t->settings;
  const struct {
    const char *setting;
    bool given, images; /* given: true if the setting is set; images: true if it is for models of images */
  } settings[] = {{"tokens", s->training.tokens, false},
                  {"sequence", s->training.sequence, false},
                  {"tokenizer", s->text.tokenizer, false},
                  {"documents_apart", s->text.documents_apart, false},
                  {"documents", s->text.documents != CH_DOCUMENTS_AUTO, false},
                  {"validation_text", s->text.validation_text, false},
                  {"images", s->vision.images, true},
                  {"augment", s->vision.augment != CH_TRAIN_AUGMENT_USUAL, true},
                  {"crop", s->vision.crop, true},
                  {"label_smoothing", s->vision.label_smoothing != -1, true}};
  bool vision = ch_config_is_vision(&t->config);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    if (settings[i].given && settings[i].images != vision)
      return i == 0
                 ? ch_fail(
                       error, CH_ERROR_ARGUMENT,
                       "{tokens} is for models of text, but a \"%s\" is for images; give {epochs} or {steps}",
                       t->config.model_type)
                 : ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is for models of %s, but a \"%s\" is for %s",
                           settings[i].setting, vision ? "text" : "images", t->config.model_type,
                           vision ? "images" : "text");
  return CH_OK;
}

/* Sets the augmentation of images: the requested one or, in a new run, the default for these images. */
static void choose_augmentation(ch_train_job *t) {
  const ch_train_settings *s = t->settings;
  ch_train_options *o = &t->options;
  bool asked = s->vision.augment != CH_TRAIN_AUGMENT_USUAL;
  if (s->vision.crop) o->crop = s->vision.crop;
  if (!ch_config_is_vision(&t->config) || (t->resumed && !asked)) return;
  bool colour = t->config.num_channels > 1 && !asked;
  bool crops = colour || s->vision.augment & CH_TRAIN_CROP || s->vision.crop;
  o->flip = colour || s->vision.augment & CH_TRAIN_FLIP;
  if (!crops) o->crop = 0;
  if (crops && !s->vision.crop) o->crop = (t->config.image_size + 7) / 8;
}

ch_status ch_training_decide(ch_train_job *t, ch_error *error) {
  CH_TRY(check_choices(t->settings, error));
  CH_TRY(check_lengths(t->settings, error));
  t->checkpoint = ch_path_join(t->out, CH_TRAIN_CHECKPOINT);
  if (!t->checkpoint) return ch_no_memory(error);
  t->resumed = t->settings->model.resume && ch_is_file(t->checkpoint);
  if (!t->resumed) CH_TRY(check_out(t, error));
  CH_TRY(t->resumed ? read_stored(t, error) : read_fresh(t, error));
  CH_TRY(check_kind(t, error));
  ch_train_options_put(t->settings, &t->options);
  choose_augmentation(t);
  /* Options are checked before any work on the data. For a length that is not known yet, one that fits every warm-up
     is used. */
  ch_train_options known = t->options;
  if (known.steps == 0) known.steps = 100000000;
  return ch_train_options_check(&known, &t->config, error);
}
