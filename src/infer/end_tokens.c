/* Collects end tokens from all files of a model directory that name them. */
#include "infer/end_tokens.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"

enum { MOST_BYTES = 1 << 20 };

static void add(int32_t *ids, int *count, int64_t id) {
  if (id < 0 || id > INT32_MAX || *count == CH_MAX_END_TOKENS) return;
  for (int i = 0; i < *count; i++)
    if (ids[i] == id) return;
  ids[(*count)++] = (int32_t)id;
}

/* Adds the value of `eos_token_id`: an id, a list of ids, or null. */
static void add_value(int32_t *ids, int *count, const json_t *value) {
  int64_t id;
  if (json_is_array(value))
    for (size_t i = 0; i < json_array_size(value); i++) add_value(ids, count, json_array_get(value, i));
  else if (ch_json_whole(value, &id))
    add(ids, count, id);
}

/* Adds the ids of DIRECTORY/NAME, if the file exists. */
static ch_status add_file(const char *directory, const char *name, int32_t *ids, int *count,
                          ch_error *error) {
  char *path = ch_path_join(directory, name);
  if (!path) return ch_no_memory(error);
  json_t *root = NULL;
  ch_status status = CH_OK;
  if (ch_is_file(path)) {
    status = ch_json_read(path, MOST_BYTES, &root, error);
    if (status == CH_OK) add_value(ids, count, json_object_get(root, "eos_token_id"));
  }
  json_decref(root);
  free(path);
  return status;
}

ch_status ch_end_tokens(const char *directory, const ch_config *config, const ch_tokenizer *tokenizer,
                        int32_t ids[CH_MAX_END_TOKENS], int *count, ch_error *error) {
  *count = 0;
  CH_TRY(add_file(directory, "generation_config.json", ids, count, error));
  CH_TRY(add_file(directory, "config.json", ids, count, error));
  add(ids, count, config->eos_token_id);
  if (tokenizer) {
    add(ids, count, ch_tokenizer_eos(tokenizer));
    add(ids, count, ch_tokenizer_bos(tokenizer));
  }
  return CH_OK;
}
