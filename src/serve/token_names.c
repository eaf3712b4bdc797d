/* Writes tokens as text for answers. */
#include "serve/token_names.h"

#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

const char *ch_name_bytes(const ch_tokenizer *tokenizer, int32_t token, size_t *size) {
  const char *bytes = ch_tokenizer_bytes(tokenizer, token, size);
  if (!bytes) *size = 0;
  return bytes ? bytes : "";
}

void ch_put_name(ch_text *json, const ch_tokenizer *tokenizer, int32_t token) {
  size_t size;
  const char *bytes = ch_tokenizer_bytes(tokenizer, token, &size);
  if (!bytes) {
    ch_text_printf(json, "\"<unused %d>\"", token);
  } else if (ch_utf8_valid_prefix((const unsigned char *)bytes, size) == size) {
    ch_json_put_bytes(json, bytes, size);
  } else {
    ch_text_puts(json, "\"bytes:");
    for (size_t i = 0; i < size; i++) ch_text_printf(json, "\\\\x%02x", (unsigned char)bytes[i]);
    ch_text_puts(json, "\"");
  }
}

void ch_put_bytes(ch_text *json, const char *bytes, size_t size) {
  ch_text_puts(json, "[");
  for (size_t i = 0; i < size; i++) ch_text_printf(json, "%s%d", i ? "," : "", (unsigned char)bytes[i]);
  ch_text_puts(json, "]");
}

bool ch_same_name(const ch_tokenizer *tokenizer, int32_t a, int32_t b) {
  size_t a_size, b_size;
  const char *a_bytes = ch_tokenizer_bytes(tokenizer, a, &a_size),
             *b_bytes = ch_tokenizer_bytes(tokenizer, b, &b_size);
  if (a == b || !a_bytes || !b_bytes) return a == b;
  return a_size == b_size && memcmp(a_bytes, b_bytes, a_size) == 0;
}
