/* UTF-8: strict decoding, encoding, and the repair of invalid text. */
#include "base/utf8.h"

#include <string.h>

size_t ch_utf8_decode(const unsigned char *p, const unsigned char *end, uint32_t *code_point) {
  uint32_t c = p[0];
  if (c < 0x80) {
    *code_point = c;
    return 1;
  }
  size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4 || (size_t)(end - p) < length) return 0;
  c &= 0x7fu >> length;
  for (size_t i = 1; i < length; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (p[i] & 0x3fu);
  }
  /* Overlong forms, surrogates and codes past Unicode are not UTF-8. */
  if ((length == 3 && c < 0x800) || (length == 4 && (c < 0x10000 || c > 0x10ffff)) || (c >> 11) == 27)
    return 0;
  *code_point = c;
  return length;
}

size_t ch_utf8_valid_prefix(const unsigned char *text, size_t size) {
  const unsigned char *p = text, *end = text + size;
  while (p < end) {
    uint64_t eight;
    while (end - p >= 8 && (memcpy(&eight, p, 8), (eight & 0x8080808080808080u) == 0)) p += 8;
    if (p == end) break;
    uint32_t code_point;
    size_t length = ch_utf8_decode(p, end, &code_point);
    if (length == 0) break;
    p += length;
  }
  return (size_t)(p - text);
}

size_t ch_utf8_encode(uint32_t c, unsigned char out[4]) {
  if (c < 0x80) {
    out[0] = (unsigned char)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (unsigned char)(0xc0 | c >> 6);
    out[1] = (unsigned char)(0x80 | (c & 0x3f));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = (unsigned char)(0xe0 | c >> 12);
    out[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
    out[2] = (unsigned char)(0x80 | (c & 0x3f));
    return 3;
  }
  out[0] = (unsigned char)(0xf0 | c >> 18);
  out[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
  out[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
  out[3] = (unsigned char)(0x80 | (c & 0x3f));
  return 4;
}

bool ch_is_white_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

/* Returns the number of bytes of the invalid sequence at p: the longest beginning of a valid character, at least 1. */
static size_t broken(const unsigned char *p, const unsigned char *end) {
  const unsigned char c = p[0], second = p + 1 < end ? p[1] : 0;
  const size_t length = c < 0xc2 || c > 0xf4 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  size_t size = 1;
  if ((c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) || (c == 0xf0 && second < 0x90) ||
      (c == 0xf4 && second > 0x8f))
    return 1;
  while (size < length && p + size < end && (p[size] & 0xc0) == 0x80) size++;
  return size;
}

void ch_put_valid_utf8(ch_text *text, const char *bytes, size_t size) {
  while (size > 0) {
    size_t good = ch_utf8_valid_prefix((const unsigned char *)bytes, size);
    ch_text_put(text, bytes, good);
    if (good == size) return;
    ch_text_puts(text, "\xef\xbf\xbd");
    bytes += good;
    size -= good;
    const size_t bad = broken((const unsigned char *)bytes, (const unsigned char *)bytes + size);
    bytes += bad;
    size -= bad;
  }
}

const char *ch_valid_text(ch_arena *arena, const char *text) {
  ch_text valid = {0};
  ch_put_valid_utf8(&valid, text, strlen(text));
  const char *copy = valid.failed ? NULL : ch_arena_strdup(arena, valid.data ? valid.data : "");
  ch_text_free(&valid);
  return copy;
}

size_t ch_utf8_unfinished(const unsigned char *text, size_t size) {
  for (size_t back = 1; back <= 3 && back <= size; back++) {
    const unsigned char *last = text + size - back;
    if ((*last & 0xc0) == 0x80) continue;
    size_t length = *last >= 0xf0 ? 4 : *last >= 0xe0 ? 3 : *last >= 0xc2 ? 2 : 1;
    return length > back && *last <= 0xf4 && broken(last, text + size) == back ? back : 0;
  }
  return 0;
}

int ch_utf8_count(const char *text) {
  int count = 0;
  for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
  return count;
}
