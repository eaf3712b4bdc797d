/* Opens the text or the images of a run, and sets the options that depend on their amount: steps, interval of
 * evaluations, warm-up. Rank 0 prepares the data; the other ranks open its files. */
#include <math.h>

#include "api/train_private.h"

static bool tell_preparation(void *context, const char *stage, double done, double total) {
  ch_train_job *t = context;
  ch_training_tell(t, (ch_train_event){.kind = CH_TRAIN_EVENT_PREPARATION,
                                       .as.preparation = {stage, total > 0 ? done / total : 0}});
  return !t->stopped;
}

static ch_status open_images(ch_train_job *t, ch_error *error) {
  const ch_train_settings *s = t->settings;
  double validation = s->text.validation > 0 ? s->text.validation : 0.05;
  CH_TRY(ch_image_data_open(s->vision.images ? s->vision.images : s->text.data, validation, t->out,
                            &t->images, error));
  CH_TRY(ch_image_data_prepare(&t->images, &t->config, &t->options, error));
  bool records = !t->resumed && ch_ranks_leads(s->workers.ranks);
  return records ? ch_image_data_record(&t->images, t->out, error) : CH_OK;
}

static ch_status open_training_text(ch_train_job *t, ch_error *error) {
  const ch_train_settings *s = t->settings;
  ch_data_options o = {.data = s->text.data,
                       .tokenizer = s->text.tokenizer,
                       .vocab_size = t->config.vocab_size,
                       .directory = t->out,
                       .fixed = t->resumed || !ch_ranks_leads(s->workers.ranks),
                       .sequence = t->options.sequence,
                       .seed = t->options.seed,
                       .documents = t->options.documents,
                       .separator = s->text.documents,
                       .validation = s->text.validation,
                       .validation_text = s->text.validation_text,
                       .begin = s->model.init_from != NULL,
                       .report = tell_preparation,
                       .context = t};
  if (!o.tokenizer && s->model.init_from && !t->resumed) o.tokenizer = s->model.init_from;
  CH_TRY(ch_data_open(&o, &t->data, error));
  if (t->config.bos_token_id < 0) t->config.bos_token_id = t->data.bos;
  if (t->config.eos_token_id < 0) t->config.eos_token_id = t->data.eos;
  return CH_OK;
}

/* Returns the default interval of evaluations: a twentieth of the run, or more if they would take over a tenth of the
 * training's time. An evaluated token costs a third of a trained one. */
static int64_t usual_eval_every(const ch_train_options *t, const ch_batch_source *source) {
  int64_t tokens = source->validation_sequences * t->sequence;
  if (t->eval_tokens > 0 && t->eval_tokens < tokens) tokens = t->eval_tokens;
  int64_t share = (t->steps + 19) / 20, affordable = (tokens * 10 / 3) / ch_train_step_tokens(t) + 1;
  return share > affordable ? share : affordable;
}

const ch_batch_source *ch_training_source(const ch_train_job *t) {
  return ch_config_is_vision(&t->config) ? &t->images.source : &t->data.source;
}

int64_t ch_training_epoch(const ch_train_job *t) {
  return ch_config_is_vision(&t->config) ? t->images.info.count[CH_IMAGES_TRAIN]
                                         : t->data.train_sequences * t->options.sequence;
}

/* Returns the number of positions in sequences that hold `tokens` tokens of text. Packed documents leave positions
   empty. */
static int64_t places_for(const ch_train_job *t, int64_t tokens) {
  int64_t places = ch_training_epoch(t), text = t->data.train_tokens;
  if (!t->options.documents || text <= 0 || text >= places) return tokens;
  return (int64_t)ceil((double)tokens * ((double)places / (double)text));
}

/* Completes the options that depend on the length of the text or the number of images. */
static ch_status complete_options(ch_train_job *t, ch_error *error) {
  enum { USUAL_EPOCHS_OF_IMAGES = 10 };
  const ch_train_settings *s = t->settings;
  ch_train_options *o = &t->options;
  int64_t usual = ch_config_is_vision(&t->config) ? USUAL_EPOCHS_OF_IMAGES : 1;
  int64_t epochs = s->training.epochs ? s->training.epochs
                   : o->steps == 0    ? usual
                                      : 0,
          tokens = s->training.tokens;
  if (epochs > INT64_MAX / 2 / ch_training_epoch(t))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{epochs} %lld is too large", (long long)epochs);
  if (!tokens)
    tokens = epochs * ch_training_epoch(t);
  else if (!ch_config_is_vision(&t->config))
    tokens = places_for(t, tokens);
  if (tokens) o->steps = ch_train_steps_for(o, tokens);
  if (s->model.recover && !t->resumed && s->optimizer.warmup == -1)
    o->warmup = o->steps < 10000 ? o->steps / 10 : 1000;
  if (!t->resumed && s->report.eval_every == -1) o->eval_every = usual_eval_every(o, ch_training_source(t));
  return CH_OK;
}

ch_status ch_training_open_data(ch_train_job *t, ch_error *error) {
  CH_TRY(ch_config_is_vision(&t->config) ? open_images(t, error) : open_training_text(t, error));
  return complete_options(t, error);
}
