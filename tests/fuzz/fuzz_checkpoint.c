/* Fuzz target: checkpoints. A trainer with a checkpoint's options and configuration either resumes from the file or
 * fails with a one-line message. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/trainer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ch_status no_text(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)context;
  (void)first;
  (void)batch;
  return ch_fail(error, CH_ERROR_IO, "there is no text");
}

static void check(ch_status status, const ch_error *error) {
  if (status != CH_OK && (status != error->status || !*error->message || strchr(error->message, '\n')))
    abort();
}

/* Returns true if the model is small. Larger ones only need more memory. */
static bool is_small(const ch_config *c, const ch_train_options *o) {
  return c->vocab_size <= 256 && c->hidden_size <= 64 && c->intermediate_size <= 128 &&
         c->num_hidden_layers <= 4 && c->max_position_embeddings <= 256 && o->sequence <= 64 &&
         o->batch <= 16;
}

static void resume(const char *path, const ch_config *config, const ch_train_options *options) {
  ch_batch_source source = {.train = no_text, .fingerprint = "made up"};
  ch_error error = {0};
  ch_trainer *trainer;
  ch_status status = ch_trainer_create(config, options, &source, &trainer, &error);
  check(status, &error);
  if (status != CH_OK) return;
  check(ch_trainer_resume(trainer, path, &error), &error);
  ch_trainer_free(trainer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  int file = memfd_create("checkpoint", MFD_CLOEXEC);
  if (file < 0) return 0;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (size == 0 || write(file, data, size) == (ssize_t)size) {
    ch_train_options options;
    ch_config config;
    ch_error error = {0};
    int64_t step;
    ch_status status = ch_checkpoint_read_options(path, &options, &config, &step, &error);
    check(status, &error);
    if (status == CH_OK && is_small(&config, &options)) resume(path, &config, &options);
  }
  close(file);
  return 0;
}
