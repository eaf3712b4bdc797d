/* Recognises the format of a model by its contents and opens it as a source. */
#include <string.h>

#include "base/file.h"
#include "base/mistaken.h"
#include "base/text.h"
#include "formats/pieces.h"
#include "formats/source.h"

static ch_status open_file(const char *path, bool vocabulary, ch_source *source, ch_error *error) {
  ch_map map;
  CH_TRY(ch_map_open(path, &map, error));
  bool gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
  bool named = map.size >= 4 && memcmp(map.data, "24ka", 4) == 0; /* llama2.c since version 1 */
  bool tensors = map.size > 9 && map.data[8] == '{' && map.data[0] != '{' && map.data[7] == 0;
  ch_status status =
      gguf || named || tensors ? CH_OK : ch_refuse_mistaken(path, map.data, map.size, false, error);
  ch_map_close(&map);
  CH_TRY(status);
  if (tensors)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is a safetensors file; give the directory that holds it and config.json", path);
  if (gguf) return ch_gguf_source_open(path, vocabulary, source, error);
  if (named || ch_ends_with(path, ".bin")) return ch_llama2c_open(path, source, error);
  return ch_fail(
      error, CH_ERROR_FORMAT,
      "%s is neither a GGUF file nor a llama2.c .bin; for a Hugging Face model, give the directory", path);
}

/* Copies the tokenizer.json at `path` to source->tokenizer, or converts a tokenizer.bin. */
static ch_status take_tokenizer(const char *path, ch_source *source, ch_error *error) {
  ch_tokenizer *tokenizer;
  ch_map map;
  CH_TRY(ch_tokenizer_open(path, &tokenizer, error));
  int32_t size = ch_tokenizer_vocab_size(tokenizer);
  ch_tokenizer_free(tokenizer);
  if (size > source->config.vocab_size)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{tokenizer} %s has %d tokens, but the model has a vocabulary of %lld", path, size,
                   (long long)source->config.vocab_size);
  CH_TRY(ch_map_open(path, &map, error));
  bool json = map.size > 0 && (map.data[0] == '{' || map.data[0] == ' ' || map.data[0] == '\n');
  if (json) ch_text_put(&source->tokenizer, (const char *)map.data, map.size);
  ch_map_close(&map);
  if (json) return source->tokenizer.failed ? ch_no_memory(error) : CH_OK;
  ch_pieces pieces;
  ch_status status = ch_pieces_from_bin(path, &pieces, error);
  if (status == CH_OK)
    status = ch_pieces_put_json(&pieces, path, &source->tokenizer, &source->tokenizer_config, error);
  ch_pieces_free(&pieces);
  return status;
}

ch_status ch_source_open(const char *path, const char *tokenizer, ch_source *source, ch_error *error) {
  bool own = tokenizer == NULL;
  *source = (ch_source){0};
  CH_TRY(ch_is_directory(path) ? ch_directory_source_open(path, own, source, error)
                               : open_file(path, own, source, error));
  ch_status status = own ? CH_OK : take_tokenizer(tokenizer, source, error);
  if (status != CH_OK) ch_source_close(source);
  return status;
}
