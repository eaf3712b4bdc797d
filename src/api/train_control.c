/* The control of a run: another model that is trained on the same sequences, with the same steps and rates. It shows
 * the effect of further training alone. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "api/train_private.h"
#include "base/file.h"
#include "base/file_names.h"
#include "base/json.h"
#include "io/model_files.h"
#include "infer/model.h"

enum { MOST_RECORD_BYTES = 1 << 16 };

void ch_training_control_free(ch_training_control *control) {
  ch_trainer_free(control->run.trainer);
  free(control->run.checkpoint);
  free(control->model);
  free(control->directory);
  *control = (ch_training_control){0};
}

/* --- finding the control ----------------------------------------------------------------------------------------- */

/* Sets *model to the model that the record at `path` names. *model does not change if there is no record. */
static ch_status read_record(const char *path, char **model, ch_error *error) {
  char *text;
  size_t size;
  json_t *root;
  if (!ch_is_file(path)) return CH_OK;
  CH_TRY(ch_read_file(path, MOST_RECORD_BYTES, &text, &size, error));
  ch_status status = ch_json_parse(text, size, path, &root, error);
  free(text);
  if (status != CH_OK) return status;
  const char *named = json_string_value(json_object_get(root, "model"));
  *model = named ? strdup(named) : NULL;
  json_decref(root);
  if (*model) return CH_OK;
  return ch_fail(error, CH_ERROR_FORMAT, "%s does not say which \"model\" is the control", path);
}

/* Sets control->model to the requested model, or else to `recorded`, which is passed on or freed. If a control was
   started, naming another one is an error. */
static ch_status settle_model(const ch_train_job *t, ch_training_control *control, char *recorded,
                              ch_error *error) {
  char whole[PATH_MAX];
  const char *asked = t->settings->model.control;
  if (!asked) {
    control->model = recorded;
    return CH_OK;
  }
  if (!realpath(asked, whole)) snprintf(whole, sizeof whole, "%s", asked); /* opening it reports the error */
  bool other = recorded && strcmp(recorded, whole) != 0 && ch_is_file(control->run.checkpoint);
  if (other)
    ch_fail(error, CH_ERROR_ARGUMENT, "{control}: the control of the run in %s is %s; leave it out", t->out,
            recorded);
  free(recorded);
  if (other) return CH_ERROR_ARGUMENT;
  control->model = strdup(whole);
  return control->model ? CH_OK : ch_no_memory(error);
}

/* --- checking the control ---------------------------------------------------------------------------------------- */

static ch_status check_shapes(const ch_train_job *t, const ch_training_control *control, ch_error *error) {
  const ch_config *a = &control->run.config, *b = &t->config;
  if (ch_config_is_vision(a) != ch_config_is_vision(b))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{control}: %s is for %s, but the trained model is for %s",
                   control->model, ch_config_is_vision(a) ? "images" : "text",
                   ch_config_is_vision(b) ? "images" : "text");
  const struct {
    const char *key;
    int64_t its, wanted;
  } sizes[] = {{"vocab_size", a->vocab_size, b->vocab_size},
               {"image_size", a->image_size, b->image_size},
               {"num_channels", a->num_channels, b->num_channels},
               {"num_classes", a->num_classes, b->num_classes}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].its != sizes[i].wanted)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "{control}: %s has a \"%s\" of %lld, but the trained model has %lld; they must be equal",
                     control->model, sizes[i].key, (long long)sizes[i].its, (long long)sizes[i].wanted);
  ch_train_options known = t->options;
  /* the number of steps is not known yet; 100 million fit every warm-up */
  if (known.steps == 0) known.steps = 100000000;
  return ch_train_options_check(&known, a, error);
}

/* Sets *same to true if the file has equal bytes in both directories or is missing in one of them. */
static ch_status compare_files(const char *a, const char *b, const char *name, bool *same, ch_error *error) {
  char *paths[] = {ch_path_join(a, name), ch_path_join(b, name)}, *texts[2] = {NULL, NULL};
  size_t sizes[2] = {0, 0};
  ch_status status = paths[0] && paths[1] ? CH_OK : ch_no_memory(error);
  bool there = status == CH_OK && ch_is_file(paths[0]) && ch_is_file(paths[1]);
  for (int i = 0; i < 2 && there && status == CH_OK; i++)
    status = ch_read_file(paths[i], SIZE_MAX, &texts[i], &sizes[i], error);
  if (status == CH_OK) *same = !there || (sizes[0] == sizes[1] && memcmp(texts[0], texts[1], sizes[0]) == 0);
  for (int i = 0; i < 2; i++) {
    free(paths[i]);
    free(texts[i]);
  }
  return status;
}

/* Fails if the tokenizers differ, because the ids of the text would then be other words for the control. */
static ch_status check_tokenizer(const ch_train_job *t, const ch_training_control *control, ch_error *error) {
  static const char *const names[] = {"tokenizer.json", "tokenizer.bin"};
  const char *from = t->settings->model.init_from;
  bool same = true;
  if (!from || t->settings->text.tokenizer || ch_config_is_vision(&t->config)) return CH_OK;
  for (int i = 0; i < 2 && same; i++) CH_TRY(compare_files(from, control->model, names[i], &same, error));
  if (same) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "{control}: %s and %s have different tokenizers; use the same one, or give {tokenizer} for both",
      control->model, from);
}

static ch_status find_control(const ch_train_job *t, ch_training_control *control, const char *record,
                              ch_error *error) {
  ch_train_job *run = &control->run;
  char *recorded = NULL;
  if (t->settings->model.resume) CH_TRY(read_record(record, &recorded, error));
  CH_TRY(settle_model(t, control, recorded, error));
  if (!control->model) return CH_OK;
  run->resumed = t->settings->model.resume && ch_is_file(run->checkpoint);
  if (run->resumed) {
    ch_train_options stored;
    return ch_checkpoint_read_options(run->checkpoint, &stored, &run->config, NULL, error);
  }
  CH_TRY(ch_config_read_stored(control->model, &run->config, error));
  CH_TRY(check_shapes(t, control, error));
  CH_TRY(check_tokenizer(t, control, error));
  /* checks that the weights exist and fit the config before the main run takes hours */
  ch_model *model;
  CH_TRY(ch_model_load(control->model, CH_WEIGHTS_MAPPED, &model, error));
  ch_model_unload(model);
  return CH_OK;
}

ch_status ch_training_find_control(const ch_train_job *t, ch_training_control *control, ch_error *error) {
  const ch_train_settings *s = t->settings;
  *control = (ch_training_control){0};
  if (s->model.control && !s->model.init_from && !t->resumed)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{control} needs {init_from}, the model that it is compared with");
  control->directory = ch_path_join(t->out, CH_TRAIN_CONTROL);
  char *record = ch_path_join(t->out, CH_TRAIN_CONTROL_RECORD);
  if (control->directory) control->run.checkpoint = ch_path_join(control->directory, CH_TRAIN_CHECKPOINT);
  ch_status status =
      control->run.checkpoint && record ? find_control(t, control, record, error) : ch_no_memory(error);
  free(record);
  return status;
}

/* --- running the control ----------------------------------------------------------------------------------------- */

ch_status ch_training_record_control(const ch_train_job *t, const ch_training_control *control,
                                     ch_error *error) {
  if (!control->model) return CH_OK;
  ch_text text = {0};
  char *path = ch_path_join(t->out, CH_TRAIN_CONTROL_RECORD);
  ch_text_puts(&text, "{\"model\": ");
  ch_json_put_string(&text, control->model);
  ch_text_puts(&text, "}\n");
  ch_status status =
      path && !text.failed ? ch_write_file(path, text.data, text.size, error) : ch_no_memory(error);
  free(path);
  ch_text_free(&text);
  return status;
}

ch_status ch_training_open_control(const ch_train_job *t, ch_training_control *control, ch_error *error) {
  ch_train_job *run = &control->run;
  control->settings = *t->settings;
  control->settings.report.trace = NULL; /* the trace is of the main run */
  run->settings = &control->settings;
  run->out = control->directory;
  run->text = t->text;
  run->options = t->options;
  run->options.micro_batch = t->settings->training.micro_batch; /* its default depends on the model's size */
  run->is_control = true;
  run->stopped = t->stopped;
  run->data = t->data;
  run->images = t->images;
  if (run->config.bos_token_id < 0) run->config.bos_token_id = t->config.bos_token_id;
  if (run->config.eos_token_id < 0) run->config.eos_token_id = t->config.eos_token_id;
  return ch_make_directory(control->directory, error);
}
