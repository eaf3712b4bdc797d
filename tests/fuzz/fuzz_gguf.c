/* Fuzz target: GGUF. In an accepted file, every tensor must be inside the file, all tensors together must not exceed
 * it, and values, vocabulary and tensors must be readable. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/gguf_config.h"
#include "formats/pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_tensors(const ch_gguf *file, const uint8_t *data, size_t size) {
  float values[256];
  size_t total = 0;
  for (int64_t i = 0; i < file->tensor_count; i++) {
    const ch_gguf_tensor *tensor = &file->tensors[i];
    if (tensor->data < data || tensor->bytes > size || tensor->data + tensor->bytes > data + size) abort();
    if (ch_gguf_find_tensor(file, tensor->name) != tensor) abort();
    const unsigned char *last = tensor->data + tensor->bytes - tensor->format->bytes;
    ch_blocks_decode(tensor->format, tensor->data, tensor->format->values, values);
    ch_blocks_decode(tensor->format, last, tensor->format->values, values);
    total += tensor->bytes;
  }
  if (total > size) abort();
}

static void touch_values(const ch_gguf *file) {
  int64_t whole;
  for (int64_t i = 0; i < file->value_count; i++) {
    const ch_gguf_value *value = &file->values[i];
    if (ch_gguf_find(file, value->key) != value) abort();
    if (value->type != CH_GGUF_STRING && value->count) {
      ch_gguf_whole_at(value, value->count - 1, &whole);
      continue;
    }
    const unsigned char *at = value->data;
    for (uint64_t j = 0; value->type == CH_GGUF_STRING && j < value->count; j++) ch_gguf_next_string(&at);
  }
}

/* Checks that an error has a message. */
static void expect_message(ch_status status, const ch_error *error) {
  if (status != CH_OK && (status != error->status || !error->message[0])) abort();
}

static void read_model(const ch_gguf *file) {
  ch_error error = {0};
  ch_config config;
  ch_pieces pieces;
  ch_text json = {0}, settings = {0};
  expect_message(ch_gguf_read_config(file, &config, &error), &error);
  ch_status status = ch_pieces_from_gguf(file, &pieces, &error);
  if (status == CH_OK && pieces.count)
    status = ch_pieces_put_json(&pieces, "input", &json, &settings, &error);
  expect_message(status, &error);
  ch_pieces_free(&pieces);
  ch_text_free(&json);
  ch_text_free(&settings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ch_gguf file;
  ch_error error = {0};
  ch_status status = ch_gguf_parse(data, size, "input", &file, &error);
  expect_message(status, &error);
  if (status == CH_OK) {
    touch_tensors(&file, data, size);
    touch_values(&file);
    read_model(&file);
  }
  ch_gguf_close(&file);
  return 0;
}
