/* The text or the images of crosshead train, and the length of the run that follows from them. */
#include <string.h>

#include "cli/training.h"

static ch_status open_images(ch_training *run, ch_error *error) {
  const ch_training_arguments *args = run->args;
  const char *names = args->images ? args->images : args->data;
  CH_TRY(ch_image_data_open(names, args->validation, args->out, &run->images, error));
  CH_TRY(ch_image_data_prepare(&run->images, &run->config, &run->options, error));
  return run->resumed ? CH_OK : ch_image_data_record(&run->images, args->out, error);
}

static ch_status open_text(ch_training *run, ch_error *error) {
  const ch_training_arguments *args = run->args;
  ch_data_options o = {.data = args->data,
                       .tokenizer = args->tokenizer,
                       .vocab_size = run->config.vocab_size,
                       .directory = args->out,
                       .fixed = run->resumed,
                       .sequence = run->options.sequence,
                       .seed = run->options.seed,
                       .documents = run->options.documents,
                       .validation = args->validation,
                       .report = ch_training_show_preparation,
                       .context = run};
  for (int i = 0; ch_separator_names[i]; i++)
    if (strcmp(args->separator, ch_separator_names[i]) == 0) o.separator = (ch_separator)i;
  if (!o.tokenizer && args->init_from && !run->resumed) o.tokenizer = args->init_from;
  CH_TRY(ch_data_open(&o, &run->data, error));
  if (run->config.bos_token_id < 0) run->config.bos_token_id = run->data.bos;
  if (run->config.eos_token_id < 0) run->config.eos_token_id = run->data.eos;
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

const ch_source *ch_training_source(const ch_training *run) {
  return ch_config_is_vision(&run->config) ? &run->images.source : &run->data.source;
}

/* Tokens or images of one pass over them all. */
static int64_t epoch_of(const ch_training *run) {
  return ch_config_is_vision(&run->config) ? run->images.info.count[CH_IMAGES_TRAIN]
                                           : run->data.train_sequences * run->options.sequence;
}

/* What depends on the length of the text, or the number of images. */
static ch_status complete_options(ch_training *run, ch_error *error) {
  enum { USUAL_EPOCHS_OF_IMAGES = 10 };
  const ch_training_arguments *args = run->args;
  ch_train_options *t = &run->options;
  int64_t usual = ch_config_is_vision(&run->config) ? USUAL_EPOCHS_OF_IMAGES : 1;
  int64_t epochs = args->epochs ? args->epochs : t->steps == 0 ? usual : 0, tokens = args->tokens;
  if (epochs > INT64_MAX / 2 / epoch_of(run))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--epochs %lld are too many", (long long)epochs);
  if (!tokens) tokens = epochs * epoch_of(run);
  if (tokens) t->steps = ch_train_steps_for(t, tokens);
  if (args->recover && !run->resumed && !ch_option_given(args, "warmup"))
    t->warmup = t->steps < 10000 ? t->steps / 10 : 1000;
  if (!run->resumed && !ch_option_given(args, "eval-every"))
    t->eval_every = usual_eval_every(t, ch_training_source(run));
  return CH_OK;
}

ch_status ch_training_open_data(ch_training *run, ch_error *error) {
  CH_TRY(ch_config_is_vision(&run->config) ? open_images(run, error) : open_text(run, error));
  return complete_options(run, error);
}
