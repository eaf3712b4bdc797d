/* The public function that computes the memory of a rank during training. */
#include <crosshead/train.h>

#include "api/adapters.h"
#include "base/file.h"
#include "io/model_files.h"
#include "report/capacity_text.h"
#include "train/trainer.h"

enum { MOST_RANKS = 65536 };

static ch_status measure_train_memory(const char *model, const ch_train_settings *s, int32_t ranks,
                                      ch_train_memory *memory, ch_error *error) {
  ch_config config;
  ch_train_options options;
  if (!model) return ch_fail(error, CH_ERROR_ARGUMENT, "no model is named; give a config or {init_from}");
  if (ranks < 1 || ranks > MOST_RANKS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{ranks} is %d; it must be from 1 to %d", (int)ranks,
                   MOST_RANKS);
  CH_TRY(ch_config_read_stored(model, &config, error));
  ch_train_options_default(&config, &options);
  ch_train_options_put(s, &options);
  options.steps = 1;
  if (options.micro_batch == 0) options.micro_batch = 1;
  /* two micro-batches, so that the memory for adding up gradients is counted */
  options.batch = 2 * options.micro_batch;
  CH_TRY(ch_train_options_check(&options, &config, error));
  return ch_trainer_memory(ch_is_directory(model) ? model : NULL, &config, &options, ranks, memory, error);
}

ch_status ch_train_memory_of(const ch_train_model *model, const ch_train_training *training, int32_t ranks,
                             ch_train_memory *memory, ch_error *error) {
  if (!model || !training || !memory)
    return ch_refuse_null(error, memory ? "the model or the settings" : "the result pointer");
  ch_train_settings settings;
  ch_train_defaults(&settings);
  settings.training = *training;
  return measure_train_memory(model->config ? model->config : model->init_from, &settings, ranks, memory,
                              error);
}

ch_status ch_train_memory_json(const ch_train_memory *memory, char **json, ch_error *error) {
  if (!memory) return ch_refuse_null(error, "the figures");
  return ch_api_json(ch_train_memory_to_json(memory), json, error);
}
