/* The public functions for models and their text: they check the arguments and call the internal
   functions. */
#include "infer/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

const char *ch_version(void) {
  return CH_VERSION_STRING;
}

ch_status ch_environment_check(ch_error *error) {
  CH_TRY(ch_kernels_check(error));
  return ch_governor_check(error);
}

void ch_free(void *memory) {
  free(memory);
}

/* --- models --------------------------------------------------------------------------------------------- */

ch_status ch_api_choose_form(ch_model *model, bool keep_dictionary, ch_error *error) {
  if (keep_dictionary && model->config.sharing.type != CH_SHARING_MASA)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s has no dictionary to keep: its \"sharing.type\" is not \"masa\"", model->directory);
  return ch_model_materialise(model, keep_dictionary ? CH_MATERIALISE_INFERENCE : CH_MATERIALISE_SERVING,
                              error);
}

static ch_status open_tokenizer(const char *directory, const ch_model_settings *settings,
                                ch_tokenizer **tokenizer, ch_error *error) {
  *tokenizer = NULL;
  if (settings->no_tokenizer) return CH_OK;
  if (settings->tokenizer) return ch_tokenizer_open(settings->tokenizer, tokenizer, error);
  if (!ch_directory_has(directory, "tokenizer.json") && !ch_directory_has(directory, "tokenizer.bin"))
    return CH_OK;
  return ch_tokenizer_open(directory, tokenizer, error);
}

/* Reads all matrices into memory, except the lookup tables of embedding gates: only their rows of tokens in
   use should occupy memory. always_real tensors are copies and in memory already. */
static void read_weights(const ch_model *model) {
  for (int i = 0; i < model->params.count; i++) {
    const ch_param *row = &model->params.rows[i];
    const ch_tensor *tensor = &model->weights.tensors[i];
    if (row->kind != CH_PARAM_GATE_EMBEDDING && !row->always_real)
      ch_map_touch(tensor->data, ch_tensor_bytes(tensor));
  }
}

static ch_status open_weights(const char *directory, const ch_model_settings *settings, ch_model **model,
                              ch_error *error) {
  ch_model *opened = NULL;
  CH_TRY(ch_model_load(directory, CH_WEIGHTS_MAPPED, &opened, error));
  ch_status status = ch_api_choose_form(opened, settings->keep_dictionary, error);
  if (status == CH_OK && settings->preload) read_weights(opened);
  if (status == CH_OK)
    *model = opened;
  else
    ch_model_unload(opened);
  return status;
}

/* Opens weights and tokenizer at the same time. Reading a large vocabulary is about as slow as mapping large
   files. */
static ch_status open_files(const char *directory, const ch_model_settings *settings, ch_model **model,
                            ch_tokenizer **tokenizer, ch_error *error) {
  ch_error errors[2] = {{0}};
  ch_status status[2];
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    status[0] = open_weights(directory, settings, model, &errors[0]);
#pragma omp section
    status[1] = open_tokenizer(directory, settings, tokenizer, &errors[1]);
  }
  int first = status[0] != CH_OK ? 0 : 1;
  if (status[first] != CH_OK && error) *error = errors[first];
  return status[first];
}

ch_status ch_model_open_with(const char *directory, const ch_model_settings *settings, ch_model **model,
                             ch_error *error) {
  if (!directory || !model)
    return ch_refuse_null(error, directory ? "the model pointer" : "the directory's name");
  const ch_model_settings none = {0};
  *model = NULL;
  ch_model *opened = NULL;
  ch_tokenizer *tokenizer = NULL;
  ch_status status = open_files(directory, settings ? settings : &none, &opened, &tokenizer, error);
  if (opened) opened->tokenizer = tokenizer;
  if (status == CH_OK)
    status = ch_end_tokens(directory, &opened->config, tokenizer, opened->end_tokens,
                           &opened->end_token_count, error);
  if (status == CH_OK) {
    *model = opened;
    return CH_OK;
  }
  if (!opened) ch_tokenizer_free(tokenizer);
  ch_model_close(opened);
  return status;
}

ch_status ch_model_open(const char *directory, ch_model **model, ch_error *error) {
  return ch_model_open_with(directory, NULL, model, error);
}

void ch_model_close(ch_model *model) {
  if (!model) return;
  ch_tokenizer_free(model->tokenizer);
  ch_model_unload(model);
}

bool ch_model_takes_images(const ch_model *model) {
  return ch_config_is_vision(&model->config);
}

const char *ch_model_type(const ch_model *model) {
  return model->config.model_type;
}

int64_t ch_model_vocab_size(const ch_model *model) {
  return model->config.vocab_size;
}

int64_t ch_model_layers(const ch_model *model) {
  return model->config.num_hidden_layers;
}

int64_t ch_model_context_length(const ch_model *model) {
  return model->config.max_position_embeddings;
}

int64_t ch_model_context_limit(const ch_model *model) {
  return model->config.position == CH_POSITION_ROPE || model->config.position == CH_POSITION_LEARNED
             ? model->config.max_position_embeddings
             : INT64_MAX;
}

size_t ch_model_end_tokens(const ch_model *model, const int32_t **ids) {
  *ids = model->end_tokens;
  return (size_t)model->end_token_count;
}

/* --- text and tokens ------------------------------------------------------------------------------------ */

bool ch_model_has_tokenizer(const ch_model *model) {
  return model && model->tokenizer;
}

const ch_tokenizer *ch_model_tokenizer(const ch_model *model) {
  return model ? model->tokenizer : NULL;
}

ch_status ch_api_need_tokenizer(const ch_model *model, ch_error *error) {
  if (!model) return ch_refuse_null(error, "the model");
  if (!model->tokenizer)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s has no tokenizer.json, so its text cannot be read or written", model->directory);
  return CH_OK;
}

ch_status ch_encode_text(const ch_model *model, const char *text, size_t size, unsigned flags,
                         int32_t *tokens, size_t capacity, size_t *count, ch_error *error) {
  CH_TRY(ch_api_need_tokenizer(model, error));
  if ((!text && size) || (!tokens && capacity) || !count)
    return ch_refuse_null(error, "the text, the tokens or the count");
  ch_ids ids = {0};
  ch_status status = ch_tokenizer_encode(model->tokenizer, text ? text : "", size, flags, &ids, error);
  if (status == CH_OK) {
    *count = ids.size;
    size_t kept = ids.size < capacity ? ids.size : capacity;
    if (kept) memcpy(tokens, ids.data, kept * sizeof *tokens);
    if (kept < ids.size)
      status = ch_fail(error, CH_ERROR_FULL, "the text has %zu tokens, but there is only room for %zu",
                       ids.size, capacity);
  }
  ch_ids_free(&ids);
  return status;
}

ch_status ch_encode(const ch_model *model, const char *text, size_t size, bool begin, int32_t *tokens,
                    size_t capacity, size_t *count, ch_error *error) {
  return ch_encode_text(model, text, size, begin ? CH_TEXT_BEGINS : 0, tokens, capacity, count, error);
}

ch_status ch_decode_tokens(const ch_model *model, const int32_t *tokens, size_t count, unsigned flags,
                           char **text, size_t *size, ch_error *error) {
  CH_TRY(ch_api_need_tokenizer(model, error));
  if (!tokens && count) return ch_refuse_null(error, "the list of tokens");
  for (size_t i = 0; i < count; i++)
    if (tokens[i] < 0 || tokens[i] >= model->config.vocab_size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "token %d at index %zu is outside the vocabulary of 0 to %lld",
                     tokens[i], i, (long long)model->config.vocab_size - 1);
  return ch_tokenizer_decode(model->tokenizer, tokens, count, flags, text, size, error);
}

ch_status ch_decode(const ch_model *model, const int32_t *tokens, size_t count, char **text, size_t *size,
                    ch_error *error) {
  return ch_decode_tokens(model, tokens, count, 0, text, size, error);
}

int32_t ch_token_id(const ch_model *model, const char *spelling) {
  if (!ch_model_has_tokenizer(model) || !spelling) return -1;
  return ch_tokenizer_find(model->tokenizer, spelling, strlen(spelling));
}

bool ch_token_is_special(const ch_model *model, int32_t token) {
  return ch_model_has_tokenizer(model) && ch_tokenizer_is_special(model->tokenizer, token);
}
