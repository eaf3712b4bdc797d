/* Writes valid and malformed GGUF files in memory, independently of the program's own writer. */
#ifndef TESTS_GGUF_BUILDING_H
#define TESTS_GGUF_BUILDING_H

#include <stdint.h>
#include <string.h>

#include "base/text.h"

enum { KV_U32 = 4, KV_F32 = 6, KV_BOOL = 7, KV_STRING = 8, KV_ARRAY = 9 };

static inline void put_number(ch_text *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) {
    char c = (char)(value >> 8 * i);
    ch_text_put(out, &c, 1);
  }
}

static inline void put_string(ch_text *out, const char *text) {
  put_number(out, strlen(text), 8);
  ch_text_puts(out, text);
}

static inline void put_header(ch_text *out, uint32_t version, uint64_t tensors, uint64_t values) {
  ch_text_puts(out, "GGUF");
  put_number(out, version, 4);
  put_number(out, tensors, 8);
  put_number(out, values, 8);
}

static inline void put_u32(ch_text *out, const char *key, uint32_t value) {
  put_string(out, key);
  put_number(out, KV_U32, 4);
  put_number(out, value, 4);
}

static inline void put_f32(ch_text *out, const char *key, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_string(out, key);
  put_number(out, KV_F32, 4);
  put_number(out, bits, 4);
}

static inline void put_text(ch_text *out, const char *key, const char *value) {
  put_string(out, key);
  put_number(out, KV_STRING, 4);
  put_string(out, value);
}

/* Writes a tensor's entry. `dims` are in the file's order, with the contiguous dimension first. */
static inline void put_tensor_info(ch_text *out, const char *name, int rank, const uint64_t *dims,
                                   uint32_t type, uint64_t offset) {
  put_string(out, name);
  put_number(out, (uint64_t)rank, 4);
  for (int i = 0; i < rank; i++) put_number(out, dims[i], 8);
  put_number(out, type, 4);
  put_number(out, offset, 8);
}

static inline void pad_to(ch_text *out, size_t alignment) {
  while (out->size % alignment) put_number(out, 0, 1);
}

#endif
