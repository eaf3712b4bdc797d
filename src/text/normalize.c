/* Applies normalizers: Unicode forms through utf8proc, prefixes, replacements. */
#define _GNU_SOURCE
#include "text/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/split.h"

void ch_normalizer_free(ch_normalizer *normalizer) {
  free(normalizer->from);
  free(normalizer->to);
  ch_regex_free(normalizer->regex);
  *normalizer = (ch_normalizer){0};
}

static ch_status check(const ch_text *out, ch_error *error) {
  return out->failed ? ch_no_memory(error) : CH_OK;
}

/* A counting sort of a run of marks by combining class. places: first the number of marks of each class, then
   the place of the next mark of each class. */
typedef struct mark_order {
  utf8proc_int32_t *sorted; /* [capacity] */
  size_t capacity;
  size_t places[257];
} mark_order;

static int class_of(utf8proc_int32_t character) {
  return (unsigned char)utf8proc_get_property(character)->combining_class;
}

/* Sorts marks by combining class, stably. A text may have a million in a row, so this is a counting sort. */
static bool order_run(mark_order *order, utf8proc_int32_t *marks, size_t count) {
  if (count > order->capacity) {
    utf8proc_int32_t *sorted = realloc(order->sorted, 2 * count * sizeof *sorted);
    if (!sorted) return false;
    order->sorted = sorted;
    order->capacity = 2 * count;
  }
  memset(order->places, 0, sizeof order->places);
  for (size_t i = 0; i < count; i++) order->places[class_of(marks[i]) + 1]++;
  for (int class = 0; class < 256; class ++) order->places[class + 1] += order->places[class];
  for (size_t i = 0; i < count; i++) order->sorted[order->places[class_of(marks[i])]++] = marks[i];
  memcpy(marks, order->sorted, count * sizeof *marks);
  return true;
}

static void order_short_run(utf8proc_int32_t *marks, size_t count) {
  for (size_t i = 1; i < count; i++) {
    utf8proc_int32_t mark = marks[i];
    size_t place = i;
    for (; place > 0 && class_of(marks[place - 1]) > class_of(mark); place--) marks[place] = marks[place - 1];
    marks[place] = mark;
  }
}

static bool order_marks(utf8proc_int32_t *characters, size_t count) {
  enum { SHORT = 24 };
  mark_order order = {0};
  bool fine = true;
  for (size_t i = 0, end; i < count && fine; i = end > i ? end : i + 1) {
    for (end = i; end < count && class_of(characters[end]) != 0;) end++;
    if (end - i > SHORT)
      fine = order_run(&order, characters + i, end - i);
    else
      order_short_run(characters + i, end - i);
  }
  free(order.sorted);
  return fine;
}

/* Returns the decomposed characters of well-formed UTF-8, with room for one more, or NULL if out of
   memory. */
static utf8proc_int32_t *decompose(utf8proc_option_t form, const unsigned char *text, size_t size,
                                   size_t *count) {
  size_t room = size + 32, n = 0;
  utf8proc_int32_t *characters = malloc((room + 1) * sizeof *characters);
  for (size_t at = 0; at < size && characters;) {
    utf8proc_int32_t character;
    utf8proc_ssize_t length = utf8proc_iterate(text + at, (utf8proc_ssize_t)(size - at), &character);
    if (room - n < 32) { /* one character becomes 18 at most */
      room *= 2;
      utf8proc_int32_t *more = realloc(characters, (room + 1) * sizeof *characters);
      if (!more) free(characters);
      characters = more;
      if (!more) break;
    }
    int boundary = 0;
    n += (size_t)utf8proc_decompose_char(character, characters + n, (utf8proc_ssize_t)(room - n), form,
                                         &boundary);
    at += (size_t)length;
  }
  *count = n;
  return characters;
}

/* Appends the Unicode form of well-formed UTF-8. */
static ch_status put_form(utf8proc_option_t form, const unsigned char *text, size_t size, ch_text *out,
                          ch_error *error) {
  size_t count;
  utf8proc_int32_t *characters = decompose(form, text, size, &count);
  if (!characters || !order_marks(characters, count)) {
    free(characters);
    return ch_no_memory(error);
  }
  utf8proc_ssize_t length = utf8proc_reencode(characters, (utf8proc_ssize_t)count, form);
  ch_text_put(out, (const char *)characters, (size_t)length);
  free(characters);
  return check(out, error);
}

/* Returns true for characters that form C never changes next to other such characters: starters that no
   composition ends with. The ranges cover most text; other characters go through utf8proc. */
static bool inert(uint32_t c) {
  return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x48a && c <= 0x52f) ||
         (c >= 0x2010 && c <= 0x2027) || (c >= 0x3001 && c <= 0x3029) || (c >= 0x3041 && c <= 0x3096) ||
         (c >= 0x30a1 && c <= 0x30ff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9fff) ||
         (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xff01 && c <= 0xff60) || (c >= 0x1f300 && c <= 0x1faff);
}

/* Normalizes to a Unicode form. ASCII characters do not change in any form and never join the character
   before them, so the text may be cut before each. Only pieces with characters that could change are
   normalized. */
static ch_status unicode_form(ch_normalizer_type type, const unsigned char *text, size_t size, ch_text *out,
                              ch_error *error) {
  static const utf8proc_option_t forms[] = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE,
                                            UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                            UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  const unsigned char *p = text, *end = text + size, *copied = text;
  while (p < end) {
    const unsigned char *piece = p++;
    bool high = *piece >= 0x80, needs = false;
    if (high) p = piece; /* at the start of the text no ASCII character precedes the piece */
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

/* Adds to *counted the bytes of a part of the output that come from the first `added` bytes of the input.
   `size`: bytes of the part in the output; `end`: its end in the input; `whole`: the part counts whole or not
   at all. */
static void count_added(size_t added, size_t end, size_t size, bool whole, size_t *counted) {
  if (whole)
    *counted += end <= added ? size : 0;
  else if (end - size < added)
    *counted += end <= added ? size : added - (end - size);
}

static ch_status replace_string(const ch_normalizer *normalizer, const char *text, size_t size, size_t *added,
                                ch_text *out, ch_error *error) {
  const char *end = text + size;
  size_t counted = 0;
  for (const char *p = text; p < end;) {
    const char *hit = memmem(p, (size_t)(end - p), normalizer->from, normalizer->from_size);
    const char *stop = hit ? hit : end;
    ch_text_put(out, p, (size_t)(stop - p));
    count_added(*added, (size_t)(stop - text), (size_t)(stop - p), false, &counted);
    if (!hit) break;
    ch_text_put(out, normalizer->to, normalizer->to_size);
    p = hit + normalizer->from_size;
    count_added(*added, (size_t)(p - text), normalizer->to_size, true, &counted);
  }
  *added = counted;
  return check(out, error);
}

static ch_status replace_regex(const ch_normalizer *normalizer, ch_regex_scratch *scratch, const char *text,
                               size_t size, size_t *added, ch_text *out, ch_error *error) {
  ch_split split = {.regex = normalizer->regex, .behavior = CH_SPLIT_ISOLATED};
  ch_split_cursor cursor;
  ch_split_part part;
  bool more;
  size_t counted = 0;
  ch_split_begin(&cursor, &split, scratch, text, size);
  for (;;) {
    CH_TRY(ch_split_next_part(&cursor, &part, &more, error));
    if (!more) break;
    const char *with = part.is_match ? normalizer->to : (const char *)part.text;
    size_t length = part.is_match ? normalizer->to_size : part.size;
    size_t end = (size_t)(part.text + part.size - (const unsigned char *)text);
    ch_text_put(out, with, length);
    count_added(*added, end, length, part.is_match, &counted);
  }
  *added = counted;
  return check(out, error);
}

ch_status ch_normalize(const ch_normalizer *normalizer, ch_regex_scratch *scratch, const char *text,
                       size_t size, bool continued, size_t *added, ch_text *out, ch_error *error) {
  switch (normalizer->type) {
  case CH_NORMALIZE_PREPEND:
    if (size > 0 && !continued) {
      ch_text_put(out, normalizer->to, normalizer->to_size);
      if (*added) *added += normalizer->to_size;
    }
    ch_text_put(out, text, size);
    return check(out, error);
  case CH_NORMALIZE_REPLACE:
    return normalizer->regex ? replace_regex(normalizer, scratch, text, size, added, out, error)
                             : replace_string(normalizer, text, size, added, out, error);
  default:
    return unicode_form(normalizer->type, (const unsigned char *)text, size, out, error);
  }
}
