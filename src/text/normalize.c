/* Normalizers: Unicode forms through utf8proc, prefix, replacement. */
#define _GNU_SOURCE
#include "text/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

void ch_normalizer_free(ch_normalizer *normalizer) {
  free(normalizer->from);
  free(normalizer->to);
  pcre2_code_free(normalizer->code);
  *normalizer = (ch_normalizer){0};
}

static ch_status check(const ch_text *out, ch_error *error) {
  return out->failed ? ch_fail(error, CH_ERROR_MEMORY, "no memory to normalize the text") : CH_OK;
}

/* Appends the Unicode form of well-formed UTF-8. */
static ch_status put_form(utf8proc_option_t form, const unsigned char *text, size_t size, ch_text *out,
                          ch_error *error) {
  utf8proc_uint8_t *formed = NULL;
  utf8proc_ssize_t length = utf8proc_map(text, (utf8proc_ssize_t)size, &formed, form);
  if (length < 0)
    return ch_fail(error, length == UTF8PROC_ERROR_NOMEM ? CH_ERROR_MEMORY : CH_ERROR_FORMAT,
                   "the text cannot be brought to a Unicode normal form: %s", utf8proc_errmsg(length));
  ch_text_put(out, (const char *)formed, (size_t)length);
  free(formed);
  return check(out, error);
}

/* Characters that form C never changes, as long as their neighbours are such characters too: starters that no
   composition ends with. The ranges cover most text; other characters go through utf8proc. */
static bool inert(uint32_t c) {
  return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x48a && c <= 0x52f) ||
         (c >= 0x2010 && c <= 0x2027) || (c >= 0x3001 && c <= 0x3029) || (c >= 0x3041 && c <= 0x3096) ||
         (c >= 0x30a1 && c <= 0x30ff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9fff) ||
         (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xff01 && c <= 0xff60) || (c >= 0x1f300 && c <= 0x1faff);
}

/* Every ASCII character is the same in all forms and joins nothing before it, so that the text may be cut before
 * each. Only pieces with characters that could change are normalized. */
static ch_status unicode_form(ch_normalizer_type type, const unsigned char *text, size_t size, ch_text *out,
                              ch_error *error) {
  static const utf8proc_option_t forms[] = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE,
                                            UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                            UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  const unsigned char *p = text, *end = text + size, *copied = text;
  while (p < end) {
    const unsigned char *piece = p++;
    bool high = *piece >= 0x80, needs = false;
    if (high) p = piece; /* a text may begin with one; else it follows its ASCII character */
    while (p < end && *p >= 0x80) {
      uint32_t code_point = 0;
      size_t length = ch_utf8_decode(p, end, &code_point);
      if (length == 0) break;
      needs |= type != CH_NORMALIZE_NFC || !inert(code_point);
      p += length;
    }
    if (needs) {
      ch_text_put(out, (const char *)copied, (size_t)(piece - copied));
      CH_TRY(put_form(forms[type] | UTF8PROC_STABLE, piece, (size_t)(p - piece), out, error));
      copied = p;
    }
    uint32_t code_point = 0;
    while (p < end && *p >= 0x80 && ch_utf8_decode(p, end, &code_point) == 0) p++; /* broken bytes: copied */
  }
  ch_text_put(out, (const char *)copied, (size_t)(end - copied));
  return check(out, error);
}

static ch_status replace_string(const ch_normalizer *normalizer, const char *text, size_t size, ch_text *out,
                                ch_error *error) {
  const char *end = text + size;
  for (const char *p = text; p < end;) {
    const char *hit = memmem(p, (size_t)(end - p), normalizer->from, normalizer->from_size);
    ch_text_put(out, p, (size_t)((hit ? hit : end) - p));
    if (!hit) break;
    ch_text_put(out, normalizer->to, normalizer->to_size);
    p = hit + normalizer->from_size;
  }
  return check(out, error);
}

static ch_status replace_regex(const ch_normalizer *normalizer, ch_regex_scratch *scratch, const char *text,
                               size_t size, ch_text *out, ch_error *error) {
  ch_split split = {.code = normalizer->code, .behavior = CH_SPLIT_ISOLATED};
  ch_split_cursor cursor;
  ch_split_begin(&cursor, &split, scratch, text, size);
  for (;;) {
    const unsigned char *part;
    size_t length;
    bool is_match;
    CH_TRY(ch_split_next_part(&cursor, &part, &length, &is_match, error));
    if (length == 0) return check(out, error);
    if (is_match)
      ch_text_put(out, normalizer->to, normalizer->to_size);
    else
      ch_text_put(out, (const char *)part, length);
  }
}

ch_status ch_normalize(const ch_normalizer *normalizer, ch_regex_scratch *scratch, const char *text,
                       size_t size, bool continued, ch_text *out, ch_error *error) {
  switch (normalizer->type) {
  case CH_NORMALIZE_PREPEND:
    if (size > 0 && !continued) ch_text_put(out, normalizer->to, normalizer->to_size);
    ch_text_put(out, text, size);
    return check(out, error);
  case CH_NORMALIZE_REPLACE:
    return normalizer->code ? replace_regex(normalizer, scratch, text, size, out, error)
                            : replace_string(normalizer, text, size, out, error);
  default:
    return unicode_form(normalizer->type, (const unsigned char *)text, size, out, error);
  }
}
