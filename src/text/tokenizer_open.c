/* Opens a tokenizer from a path, and copies its files into a model directory. */
#include "text/tokenizer_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mistaken.h"
#include "io/extra_files.h"
#include "text/hash.h"

/* Returns the id of a token that tokenizer_config.json names, as a string or as an object with "content". */
static int32_t named_token(const ch_tokenizer *tokenizer, const json_t *config, const char *key) {
  const json_t *value = json_object_get(config, key);
  if (json_is_object(value)) value = json_object_get(value, "content");
  if (!json_is_string(value)) return -1;
  return ch_vocabulary_find(&tokenizer->vocabulary, json_string_value(value), json_string_length(value));
}

enum { MOST_CONFIG = 1 << 28 };

/* Reads tokenizer_config.json if it exists. Its names win over guesses. */
static ch_status read_config(ch_tokenizer *tokenizer, const char *directory, ch_error *error) {
  char *path = ch_path_join(directory, "tokenizer_config.json");
  if (!path) return ch_no_memory(error);
  json_error_t problem;
  json_t *config = NULL;
  ch_status status = CH_OK;
  if (ch_is_file(path)) {
    char *text = NULL;
    size_t size = 0;
    status = ch_read_file(path, MOST_CONFIG, &text, &size, error);
    size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    /* "model_max_length" may be 10^30, which is too large for an integer of the library */
    if (status == CH_OK)
      config = json_loadb(text + mark, size - mark, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &problem);
    free(text);
    if (status == CH_OK && !json_is_object(config))
      status = ch_fail(error, CH_ERROR_FORMAT, "%s is not a JSON object%s%s", path, config ? "" : ": ",
                       config ? "" : problem.text);
  }
  int32_t bos = named_token(tokenizer, config, "bos_token"),
          eos = named_token(tokenizer, config, "eos_token");
  if (bos >= 0) tokenizer->bos = bos;
  if (eos >= 0) tokenizer->eos = eos;
  json_decref(config);
  free(path);
  return status;
}

static ch_status load(const char *path, const ch_map *map, ch_tokenizer **tokenizer, ch_error *error) {
  const char *text = (const char *)map->data;
  size_t at = 0;
  if (map->size == 0) return ch_fail(error, CH_ERROR_FORMAT, "%s is empty; a tokenizer is needed", path);
  bool wide = map->size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
  if (wide || (map->size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s begins with a byte order mark%s, which tokenizer.json must not have; save it as UTF-8 "
                   "without one",
                   path, wide ? " of UTF-16" : "");
  while (at < map->size && strchr(" \t\r\n", text[at]) && text[at]) at++;
  size_t length = strlen(path);
  if ((at < map->size && text[at] == '{') || (length > 5 && strcmp(path + length - 5, ".json") == 0))
    return ch_tokenizer_from_json(text, map->size, path, tokenizer, error);
  if (text[0] == '\n')
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s looks like a SentencePiece model, which is not supported; use the model's tokenizer.json", path);
  return ch_tokenizer_from_bin(map->data, map->size, path, tokenizer, error);
}

static ch_status open_file(const char *path, ch_tokenizer **tokenizer, ch_error *error) {
  ch_map map;
  CH_TRY(ch_map_open(path, &map, error));
  ch_status status = ch_refuse_mistaken(path, map.data, map.size, true, error);
  if (status == CH_OK) status = load(path, &map, tokenizer, error);
  ch_map_close(&map);
  if (status != CH_OK) return status;
  (*tokenizer)->directory = ch_path_directory(path);
  if (!(*tokenizer)->directory)
    status = ch_no_memory(error);
  else if ((*tokenizer)->is_json)
    status = read_config(*tokenizer, (*tokenizer)->directory, error);
  if (status == CH_OK) return CH_OK;
  ch_tokenizer_free(*tokenizer);
  *tokenizer = NULL;
  return status;
}

ch_status ch_tokenizer_open(const char *path, ch_tokenizer **tokenizer, ch_error *error) {
  if (!path || !tokenizer)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is NULL",
                   path ? "the tokenizer pointer" : "the tokenizer's path");
  *tokenizer = NULL;
  if (!ch_is_directory(path)) return open_file(path, tokenizer, error);
  static const char *const names[] = {"tokenizer.json", "tokenizer.bin"};
  for (int i = 0; i < 2; i++) {
    char *file = ch_path_join(path, names[i]);
    if (!file) return ch_no_memory(error);
    bool there = ch_is_file(file);
    ch_status status = there ? open_file(file, tokenizer, error) : CH_OK;
    free(file);
    if (there) return status;
  }
  return ch_fail(error, CH_ERROR_IO, "%s holds neither tokenizer.json nor tokenizer.bin", path);
}

/* Copies one file, whose content must have the hash `expected`. */
static ch_status copy_file(const char *from, const char *directory, const char *name, uint64_t expected,
                           ch_error *error) {
  ch_map map;
  CH_TRY(ch_map_open(from, &map, error));
  char *to = ch_path_join(directory, name);
  ch_status status = CH_OK;
  if (!to)
    status = ch_no_memory(error);
  else if (ch_hash_bytes(map.data, map.size, 1) != expected)
    status =
        ch_fail(error, CH_ERROR_IO, "%s has changed since it was opened; start again with the new one", from);
  else
    status = ch_write_file(to, map.data, map.size, error);
  free(to);
  ch_map_close(&map);
  return status;
}

bool ch_tokenizer_is_json(const ch_tokenizer *tokenizer) {
  return tokenizer->is_json;
}

ch_status ch_tokenizer_copy_to(const ch_tokenizer *tokenizer, const char *directory, ch_error *error) {
  if (!tokenizer->directory)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the tokenizer %s was not opened from a file", tokenizer->file);
  const char *name = tokenizer->is_json ? "tokenizer.json" : "tokenizer.bin";
  CH_TRY(copy_file(tokenizer->file, directory, name, tokenizer->fingerprint, error));
  return tokenizer->is_json ? ch_copy_tokenizer_files(tokenizer->directory, directory, error) : CH_OK;
}
