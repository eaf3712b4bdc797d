/* The public functions that return a training run's batches. */
#include <crosshead/batches.h>

#include <stdlib.h>
#include <string.h>

#include "api/adapters.h"
#include "train/data.h"
#include "train/image_data.h"
#include "train/trainer.h"

struct ch_batches {
  ch_config config;
  ch_train_options options;
  ch_data data;
  ch_image_data images;
};

static bool on_images(const ch_batches *batches) {
  return ch_config_is_vision(&batches->config);
}

static const ch_batch_source *source_of(const ch_batches *batches) {
  return on_images(batches) ? &batches->images.source : &batches->data.source;
}

static ch_status open_images(ch_batches *b, const char *directory, ch_error *error) {
  CH_TRY(ch_image_data_open(NULL, 0.05, directory, &b->images, error));
  return ch_image_data_prepare(&b->images, &b->config, &b->options, error);
}

static ch_status open_text_batches(ch_batches *b, const char *directory, ch_error *error) {
  const ch_data_options options = {.directory = directory,
                                   .vocab_size = b->config.vocab_size,
                                   .fixed = true,
                                   .sequence = b->options.sequence,
                                   .seed = b->options.seed,
                                   .documents = b->options.documents};
  return ch_data_open(&options, &b->data, error);
}

static ch_status open_batches(ch_batches *b, const char *directory, const char *checkpoint, ch_error *error) {
  char source[64];
  CH_TRY(ch_checkpoint_read_options(checkpoint, &b->options, &b->config, NULL, error));
  CH_TRY(ch_checkpoint_read_source(checkpoint, source, sizeof source, error));
  CH_TRY(on_images(b) ? open_images(b, directory, error) : open_text_batches(b, directory, error));
  if (strcmp(source, source_of(b)->fingerprint) == 0) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s does not hold the data that %s was trained on; use the directory of that run", directory,
                 checkpoint);
}

ch_status ch_batches_open(const char *directory, const char *checkpoint, ch_batches **batches,
                          ch_error *error) {
  if (!directory || !checkpoint || !batches)
    return ch_refuse_null(error, !directory    ? "the directory's name"
                                 : !checkpoint ? "the checkpoint's name"
                                               : "the batches pointer");
  *batches = NULL;
  ch_batches *b = calloc(1, sizeof *b);
  if (!b) return ch_no_memory(error);
  ch_status status = open_batches(b, directory, checkpoint, error);
  if (status == CH_OK)
    *batches = b;
  else
    ch_batches_close(b);
  return status;
}

void ch_batches_close(ch_batches *batches) {
  if (!batches) return;
  ch_data_close(&batches->data);
  ch_image_data_close(&batches->images);
  free(batches);
}

void ch_batches_describe(const ch_batches *batches, ch_batches_info *info) {
  const ch_config *c = &batches->config;
  bool images = on_images(batches);
  *info = (ch_batches_info){.images = images,
                            .documents = batches->options.documents,
                            .length = batches->options.sequence,
                            .pixels = images ? c->num_channels * c->image_size * c->image_size : 0,
                            .validation_sequences = source_of(batches)->validation_sequences};
}

static ch_batch batch_of(const ch_batches *batches, int64_t sequences, int32_t *tokens, int32_t *targets,
                         int32_t *document_start, float *pixels) {
  bool images = on_images(batches);
  return (ch_batch){.sequences = sequences,
                    .length = batches->options.sequence,
                    .tokens = images ? NULL : tokens,
                    .targets = targets,
                    .document_start = batches->options.documents ? document_start : NULL,
                    .pixels = images ? pixels : NULL};
}

static ch_status check_numbers(int64_t first, int64_t sequences, ch_error *error) {
  if (first >= 0 && sequences >= 0) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "a batch of %lld sequences from number %lld does not exist; both must be at least 0",
                 (long long)sequences, (long long)first);
}

ch_status ch_batches_train(ch_batches *batches, int64_t first, int64_t sequences, int32_t *tokens,
                           int32_t *targets, int32_t *document_start, float *pixels, ch_error *error) {
  const ch_batch_source *source = source_of(batches);
  CH_TRY(check_numbers(first, sequences, error));
  ch_batch batch = batch_of(batches, sequences, tokens, targets, document_start, pixels);
  return source->train(source->context, first, &batch, error);
}

ch_status ch_batches_validate(ch_batches *batches, int64_t first, int64_t sequences, int32_t *tokens,
                              int32_t *targets, int32_t *document_start, float *pixels, ch_error *error) {
  const ch_batch_source *source = source_of(batches);
  CH_TRY(check_numbers(first, sequences, error));
  ch_batch batch = batch_of(batches, sequences, tokens, targets, document_start, pixels);
  return source->validate(source->context, first, &batch, error);
}
