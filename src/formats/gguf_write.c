/* Writes headers of GGUF version 3, little-endian. Data are aligned to 32 bytes. */
#include "formats/gguf_write.h"

#include <string.h>

enum { ALIGNMENT = 32 };

static void put_number(ch_text *out, uint64_t value, size_t bytes) {
  char data[8];
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(value >> 8 * i);
  ch_text_put(out, data, bytes);
}

static void put_string(ch_text *out, const char *text, size_t size) {
  put_number(out, size, 8);
  ch_text_put(out, text, size);
}

static void put_key(ch_gguf_header *header, const char *key, ch_gguf_type type) {
  put_string(&header->values, key, strlen(key));
  put_number(&header->values, (uint64_t)type, 4);
  header->value_count++;
}

void ch_gguf_put_u32(ch_gguf_header *header, const char *key, uint32_t value) {
  put_key(header, key, CH_GGUF_U32);
  put_number(&header->values, value, 4);
}

void ch_gguf_put_f32(ch_gguf_header *header, const char *key, double value) {
  put_key(header, key, CH_GGUF_F32);
  ch_gguf_add_f32(header, (float)value);
}

void ch_gguf_put_bool(ch_gguf_header *header, const char *key, bool value) {
  put_key(header, key, CH_GGUF_BOOL);
  put_number(&header->values, value, 1);
}

void ch_gguf_put_text(ch_gguf_header *header, const char *key, const char *value) {
  put_key(header, key, CH_GGUF_STRING);
  put_string(&header->values, value, strlen(value));
}

void ch_gguf_put_list(ch_gguf_header *header, const char *key, ch_gguf_type type, uint64_t count) {
  put_key(header, key, CH_GGUF_ARRAY);
  put_number(&header->values, (uint64_t)type, 4);
  put_number(&header->values, count, 8);
}

void ch_gguf_add_text(ch_gguf_header *header, const char *text, size_t size) {
  put_string(&header->values, text, size);
}

void ch_gguf_add_f32(ch_gguf_header *header, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_number(&header->values, bits, 4);
}

void ch_gguf_add_i32(ch_gguf_header *header, int32_t value) {
  put_number(&header->values, (uint32_t)value, 4);
}

void ch_gguf_add_bool(ch_gguf_header *header, bool value) {
  put_number(&header->values, value, 1);
}

size_t ch_gguf_padding(size_t bytes) {
  return (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
}

size_t ch_gguf_put_tensor(ch_gguf_header *header, const char *name, int rank, const int64_t *shape,
                          const ch_block_format *format) {
  int64_t count = 1;
  put_string(&header->tensors, name, strlen(name));
  put_number(&header->tensors, (uint64_t)rank, 4);
  for (int i = rank; i-- > 0; count *= shape[i]) put_number(&header->tensors, (uint64_t)shape[i], 8);
  put_number(&header->tensors, (uint64_t)format->type, 4);
  put_number(&header->tensors, header->data_bytes, 8);
  size_t bytes = (size_t)(count / format->values) * format->bytes;
  header->data_bytes += bytes + ch_gguf_padding(bytes);
  header->tensor_count++;
  return bytes;
}

void ch_gguf_finish(const ch_gguf_header *header, ch_text *out) {
  static const char zeros[ALIGNMENT];
  size_t start = out->size;
  ch_text_puts(out, "GGUF");
  put_number(out, 3, 4);
  put_number(out, header->tensor_count, 8);
  put_number(out, header->value_count, 8);
  ch_text_put(out, header->values.data, header->values.size);
  ch_text_put(out, header->tensors.data, header->tensors.size);
  ch_text_put(out, zeros, ch_gguf_padding(out->size - start));
  out->failed = out->failed || header->values.failed || header->tensors.failed;
}

void ch_gguf_header_free(ch_gguf_header *header) {
  ch_text_free(&header->values);
  ch_text_free(&header->tensors);
  *header = (ch_gguf_header){0};
}
