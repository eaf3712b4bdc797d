/* Estimates the tokens and vocabulary of a text without preparing it, for forecasts and plans that write nothing. */
#include "experiment/trial/text_estimate.h"

#include <stdlib.h>

#include "text/text_file.h"

enum { BYTES_OF_A_TOKEN = 4 }; /* about as in English text */

/* Fills a batch with ids that are spread over the vocabulary. `first` is the number of its first sequence. */
static ch_status fill_counted_batch(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  const ch_data *data = context;
  (void)error;
  for (int64_t i = 0; i < batch->sequences * batch->length; i++) {
    int64_t place = first * batch->length + i;
    batch->tokens[i] = (int32_t)((place * 7919 + 13) % data->vocab_size);
    batch->targets[i] = (int32_t)((place * 7919 + 13 + 7919) % data->vocab_size);
  }
  return CH_OK;
}

static ch_status count_tokens(const char *path, ch_data *data, ch_error *error) {
  ch_corpus *corpus;
  ch_corpus_info info;
  CH_TRY(ch_corpus_open(path, &corpus, error));
  ch_corpus_describe(corpus, &info);
  ch_corpus_close(corpus);
  data->text_bytes = (int64_t)info.text_bytes;
  data->train_tokens = info.train_tokens;
  data->validation_tokens = info.validation_tokens;
  data->vocab_size = info.vocab_size;
  return CH_OK;
}

static ch_status add_bytes(const char *names, int64_t *bytes, ch_error *error) {
  char **paths;
  size_t count;
  ch_status status = CH_OK;
  CH_TRY(ch_text_paths(names, &paths, &count, error));
  for (size_t i = 0; status == CH_OK && i < count; i++) {
    ch_text_file file;
    status = ch_text_file_open(&file, paths[i], error);
    if (status == CH_OK) *bytes += (int64_t)file.size;
    if (status == CH_OK) ch_text_file_close(&file);
  }
  free(paths);
  return status;
}

static int64_t tokens_of(int64_t bytes) {
  return (bytes + BYTES_OF_A_TOKEN - 1) / BYTES_OF_A_TOKEN;
}

static ch_status estimate_tokens(const ch_data_options *options, ch_data *data, ch_error *error) {
  int64_t validating = 0;
  CH_TRY(add_bytes(options->data, &data->text_bytes, error));
  if (options->validation_text) CH_TRY(add_bytes(options->validation_text, &validating, error));
  int64_t tokens = tokens_of(data->text_bytes), kept = (int64_t)(options->validation * (double)tokens);
  data->validation_tokens = options->validation_text ? tokens_of(validating) : kept;
  data->train_tokens = options->validation_text ? tokens : tokens - kept;
  data->vocab_size = options->vocab_size;
  return CH_OK;
}

static ch_status ask_tokenizer(const char *path, ch_data *data, ch_error *error) {
  ch_tokenizer *tokenizer;
  CH_TRY(ch_tokenizer_open(path, &tokenizer, error));
  data->vocab_size = ch_tokenizer_vocab_size(tokenizer);
  ch_tokenizer_free(tokenizer);
  return CH_OK;
}

ch_status ch_estimate_prepared_text(const ch_data_options *options, ch_data *data, ch_error *error) {
  *data = (ch_data){.bos = -1, .eos = -1};
  CH_TRY(ch_corpus_recognise(options->data) ? count_tokens(options->data, data, error)
                                            : estimate_tokens(options, data, error));
  if (options->tokenizer) CH_TRY(ask_tokenizer(options->tokenizer, data, error));
  data->train_sequences = data->train_tokens / options->sequence;
  /* A text has at least as many bytes as tokens, so a text with fewer bytes than a sequence has tokens is too short. */
  if (data->text_bytes < options->sequence)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the text has %lld bytes, too few for one sequence of %lld tokens; use more text or a "
                   "shorter {sequence}",
                   (long long)data->text_bytes, (long long)options->sequence);
  data->source = (ch_batch_source){.context = data,
                                   .train = fill_counted_batch,
                                   .validate = fill_counted_batch,
                                   .validation_sequences = data->validation_tokens / options->sequence + 1};
  return CH_OK;
}
