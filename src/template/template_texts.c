/* Methods and filters of texts, with Python's and Jinja's names. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "template/python_literal.h"
#include "template/template_private.h"

typedef ch_template_call call;

/* --- white space and pieces ----------------------------------------------------------------------------- */

/* Returns true if str.strip removes the character: white space, or one of `set`. */
static bool stripped(uint32_t c, const json_t *set) {
  if (!set) return ch_is_white_space(c);
  const unsigned char *p = (const unsigned char *)json_string_value(set), *end = p + json_string_length(set);
  uint32_t one;
  for (size_t length; p < end && (length = ch_utf8_decode(p, end, &one)) > 0; p += length)
    if (one == c) return true;
  return false;
}

static json_t *strip(const call *c, bool left, bool right) {
  const unsigned char *p = (const unsigned char *)json_string_value(c->self);
  const unsigned char *end = p + json_string_length(c->self);
  const json_t *set = ch_template_argument(c, 0, "chars");
  if (json_is_null(set)) set = NULL;
  if (set && !json_is_string(set)) return ch_template_refuse(c, "needs the characters to remove as a string");
  uint32_t code;
  size_t length;
  while (left && p < end && (length = ch_utf8_decode(p, end, &code)) > 0 && stripped(code, set)) p += length;
  while (right && p < end) {
    const unsigned char *last = end - 1;
    while (last > p && (*last & 0xc0) == 0x80) last--;
    if (ch_utf8_decode(last, end, &code) == 0 || !stripped(code, set)) break;
    end = last;
  }
  return json_stringn((const char *)p, (size_t)(end - p));
}

static json_t *put_piece(const call *c, json_t *list, const char *from, size_t size) {
  if (ch_template_spend(c->scope, CH_TEMPLATE_ELEMENT_BYTES, c->error) &&
      json_array_append_new(list, json_stringn(from, size)) == 0)
    return list;
  json_decref(list);
  return NULL;
}

/* Splits at runs of white space, without empty pieces. After `left` pieces, the rest is one piece. */
static json_t *split_words(const call *c, json_int_t left) {
  const unsigned char *p = (const unsigned char *)json_string_value(c->self);
  const unsigned char *end = p + json_string_length(c->self), *word = NULL;
  json_t *list = json_array();
  while (list && p < end) {
    uint32_t code = 0;
    size_t length = ch_utf8_decode(p, end, &code);
    bool space = ch_is_white_space(code);
    if (space && word) list = put_piece(c, list, (const char *)word, (size_t)(p - word));
    word = space ? NULL : word ? word : p;
    if (word && list && left >= 0 && (json_int_t)json_array_size(list) == left) break;
    p += length ? length : 1;
  }
  return list && word ? put_piece(c, list, (const char *)word, (size_t)(end - word)) : list;
}

static json_t *split(const call *c) {
  const json_t *most = ch_template_argument(c, 1, "maxsplit"), *between = ch_template_argument(c, 0, "sep");
  if (!between || json_is_null(between))
    return split_words(c, json_is_integer(most) ? json_integer_value(most) : -1);
  const char *separator = json_string_value(between), *at = json_string_value(c->self), *next;
  if (!separator || !*separator) return ch_template_refuse(c, "needs a string that is not empty");
  json_t *list = json_array();
  json_int_t left =
      json_is_integer(most) && json_integer_value(most) >= 0 ? json_integer_value(most) : INT64_MAX;
  for (; list && left > 0 && (next = strstr(at, separator)); at = next + strlen(separator), left--)
    list = put_piece(c, list, at, (size_t)(next - at));
  return list ? put_piece(c, list, at, strlen(at)) : NULL;
}

/* Returns a reversed copy of a text, in which strstr finds the last occurrence first. Returns NULL if out of memory. */
static char *reversed(const char *text) {
  size_t size = strlen(text);
  char *copy = malloc(size + 1);
  for (size_t i = 0; copy && i < size; i++) copy[i] = text[size - 1 - i];
  if (copy) copy[size] = 0;
  return copy;
}

/* Sets *at to the first or the last occurrence of `piece`, or to NULL if there is none. Returns false if out of
   memory. */
static bool find_place(const char *text, const char *piece, bool from_end, const char **at) {
  *at = from_end ? NULL : strstr(text, piece);
  if (!from_end) return true;
  char *backwards = reversed(text), *sought = reversed(piece);
  const char *found = backwards && sought ? strstr(backwards, sought) : NULL;
  if (found) *at = text + strlen(text) - strlen(piece) - (found - backwards);
  bool fine = backwards && sought;
  free(backwards);
  free(sought);
  return fine;
}

/* Returns the elements in reverse order. Releases `list`. */
static json_t *turn_around(json_t *list) {
  json_t *turned = json_array();
  for (size_t i = json_array_size(list); turned && i > 0; i--)
    if (json_array_append(turned, json_array_get(list, i - 1)) != 0) {
      json_decref(turned);
      turned = NULL;
    }
  json_decref(list);
  return turned;
}

/* Splits a text at separators that are searched and counted from the end. */
static json_t *split_right(const call *c) {
  const json_t *most = ch_template_argument(c, 1, "maxsplit"), *between = ch_template_argument(c, 0, "sep");
  bool counted = json_is_integer(most) && json_integer_value(most) >= 0;
  if ((!between || json_is_null(between)) && !counted) return split(c);
  const char *separator = json_string_value(between), *text = json_string_value(c->self), *found;
  if (!separator || !*separator) return ch_template_refuse(c, "needs a separator that is not empty");
  char *backwards = reversed(text), *sought = reversed(separator), *at = backwards;
  json_t *pieces = backwards && sought ? json_array() : NULL;
  const char *end = text + strlen(text);
  json_int_t left = counted ? json_integer_value(most) : INT64_MAX;
  for (; pieces && left > 0 && (found = strstr(at, sought)); left--) {
    const char *begin = end - (found - at);
    pieces = put_piece(c, pieces, begin, (size_t)(end - begin));
    end = begin - strlen(separator);
    at = (char *)found + strlen(separator);
  }
  if (pieces) pieces = put_piece(c, pieces, text, (size_t)(end - text));
  free(backwards);
  free(sought);
  return pieces ? turn_around(pieces) : NULL;
}

/* Returns the text before a separator, the separator, and the text after it. */
static json_t *partition(const call *c, bool from_end) {
  const char *separator = ch_template_text_argument(c, 0, "sep"), *text = json_string_value(c->self);
  if (!separator || !*separator) return ch_template_refuse(c, "needs a separator that is not empty");
  const char *at;
  if (!find_place(text, separator, from_end, &at)) return NULL;
  if (!at)
    return json_pack(from_end ? "[s, s, O]" : "[O, s, s]", from_end ? "" : (void *)c->self, "",
                     from_end ? (void *)c->self : "");
  return json_pack("[s%, s, s]", text, (size_t)(at - text), separator, at + strlen(separator));
}

/* Returns the lines without their ends, like str.splitlines for \n. */
static json_t *split_lines(const call *c) {
  const char *at = json_string_value(c->self), *next;
  json_t *list = json_array();
  for (; list && *at; at = next + (*next == '\n')) {
    next = strchr(at, '\n');
    if (!next) next = at + strlen(at);
    list = put_piece(c, list, at, (size_t)(next - at));
  }
  return list;
}

/* --- replacing ------------------------------------------------------------------------------------------ */

static json_t *replace(const call *c) {
  const char *from = ch_template_text_argument(c, 0, "old"), *to = ch_template_text_argument(c, 1, "new"),
             *next;
  const json_t *most = ch_template_argument(c, 2, "count");
  const char *at = json_string_value(c->self);
  if (!from || !to || !*from)
    return ch_template_refuse(c, "needs a string that is not empty, and its replacement");
  ch_text text = {0};
  size_t from_size = strlen(from), to_size = strlen(to);
  json_int_t left =
      json_is_integer(most) && json_integer_value(most) >= 0 ? json_integer_value(most) : INT64_MAX;
  bool fits = true;
  for (; fits && left > 0 && (next = strstr(at, from)); at = next + from_size, left--)
    fits = ch_template_put(c, &text, at, (size_t)(next - at)) && ch_template_put(c, &text, to, to_size);
  if (fits && ch_template_put(c, &text, at, strlen(at))) return ch_template_finish(c, &text);
  ch_text_free(&text);
  return NULL;
}

/* Returns true for letters with case (Unicode's Cased). */
static bool has_case(uint32_t code) {
  utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT || utf8proc_isupper((utf8proc_int32_t)code) ||
         utf8proc_islower((utf8proc_int32_t)code);
}

/* Returns true for characters that do not end a word between letters with case (Unicode's Case_Ignorable). */
static bool is_passed_over(uint32_t code) {
  static const uint32_t marks[] = {'\'',   '.',    ':',    0xb7,   0x387,  0x55f,  0x5f4,  0x2018, 0x2019,
                                   0x2024, 0x2027, 0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (marks[i] == code) return true;
  utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
         category == UTF8PROC_CATEGORY_SK;
}

/* Returns true if a sigma ends its word, so that its lower case is another letter: a letter with case precedes it and
   none follows. */
static bool ends_word(const unsigned char *text, const unsigned char *sigma, const unsigned char *after,
                      const unsigned char *end) {
  uint32_t code = 0;
  bool before = false;
  while (sigma > text) {
    do sigma--;
    while (sigma > text && (*sigma & 0xc0) == 0x80);
    if (ch_utf8_decode(sigma, end, &code) == 0) return false;
    if (is_passed_over(code)) continue;
    before = has_case(code);
    break;
  }
  while (before && after < end) {
    size_t length = ch_utf8_decode(after, end, &code);
    if (length == 0 || !is_passed_over(code)) return length == 0 || !has_case(code);
    after += length;
  }
  return before;
}

/* Converts the text to upper case if `upper`, else to lower case; the first character to title or upper case if
   `upper_first`. */
static json_t *change_case(const call *c, bool upper_first, bool upper) {
  const unsigned char *p = (const unsigned char *)json_string_value(c->self);
  const unsigned char *start = p, *end = p + json_string_length(c->self);
  ch_text text = {0};
  for (bool first = true; p < end; first = false) {
    uint32_t code = 0;
    size_t length = ch_utf8_decode(p, end, &code);
    unsigned char out[4];
    utf8proc_int32_t changed = (utf8proc_int32_t)code;
    if (first && upper_first && !upper)
      changed = utf8proc_totitle(changed);
    else
      changed = upper ? utf8proc_toupper(changed) : utf8proc_tolower(changed);
    if (code == 0x3a3 && changed == 0x3c3 && ends_word(start, p, p + length, end)) changed = 0x3c2;
    ch_text_put(&text, (const char *)out, ch_utf8_encode((uint32_t)changed, out));
    /* a capital I with a dot becomes two characters, because it keeps the dot */
    if (code == 0x130 && changed != 0x130) ch_text_puts(&text, "\xcc\x87");
    p += length ? length : 1;
  }
  return ch_template_finish(c, &text);
}

/* Capitalises the first letter of each word and converts the others to lower case. */
static json_t *title(const call *c) {
  const unsigned char *p = (const unsigned char *)json_string_value(c->self),
                      *end = p + json_string_length(c->self);
  ch_text text = {0};
  bool inside = false;
  while (p < end) {
    uint32_t code = 0;
    unsigned char out[4];
    size_t length = ch_utf8_decode(p, end, &code);
    utf8proc_int32_t letter = (utf8proc_int32_t)code;
    utf8proc_category_t category = utf8proc_category(letter);
    letter = inside ? utf8proc_tolower(letter) : utf8proc_totitle(letter);
    inside = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    ch_text_put(&text, (const char *)out, ch_utf8_encode((uint32_t)letter, out));
    p += length ? length : 1;
  }
  return ch_template_finish(c, &text);
}

/* Indents every line. The first line and empty lines are indented only if the arguments `first` and `blank` say so. */
static json_t *indent(const call *c) {
  const json_t *width = ch_template_argument(c, 0, "width"), *first = ch_template_argument(c, 1, "first"),
               *blank = ch_template_argument(c, 2, "blank");
  json_int_t blanks = json_is_integer(width) ? json_integer_value(width) : 4;
  const char *by = json_is_string(width) ? json_string_value(width) : NULL, *at = json_string_value(c->self);
  ch_text text = {0};
  bool fits = true;
  if (blanks < 0 || blanks > 1000) return ch_template_refuse(c, "needs a width from 0 to 1000");
  for (bool line = first && ch_template_true(first); fits; line = true) {
    const char *next = strchr(at, '\n');
    size_t size = next ? (size_t)(next - at) : strlen(at);
    bool indented = line && (size > 0 || (blank && ch_template_true(blank)));
    for (json_int_t i = 0; fits && indented && !by && i < blanks; i++)
      fits = ch_template_put(c, &text, " ", 1);
    if (fits && indented && by) fits = ch_template_put(c, &text, by, strlen(by));
    fits = fits && ch_template_put(c, &text, at, size + (next != NULL));
    if (!next) break;
    at = next + 1;
  }
  if (fits) return ch_template_finish(c, &text);
  ch_text_free(&text);
  return NULL;
}

static json_t *escape(const call *c) {
  static const char *const entities[] = {"&&amp;", "<&lt;", ">&gt;", "'&#39;", "\"&#34;"};
  ch_text text = {0};
  for (const char *p = json_string_value(c->self); *p; p++) {
    const char *entity = NULL;
    for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
      if (entities[i][0] == *p) entity = entities[i] + 1;
    if (ch_template_put(c, &text, entity ? entity : p, entity ? strlen(entity) : 1)) continue;
    ch_text_free(&text);
    return NULL;
  }
  return ch_template_finish(c, &text);
}

/* --- searching ------------------------------------------------------------------------------------------ */

static bool begins_with(const json_t *text, const json_t *piece, bool at_start) {
  size_t size = json_string_length(text), length = json_string_length(piece);
  const char *from = json_string_value(text);
  return json_is_string(piece) && size >= length &&
         memcmp(at_start ? from : from + size - length, json_string_value(piece), length) == 0;
}

/* Returns true if the text begins or ends with a given text, or with one of several. */
static json_t *begins_or_ends(const call *c, bool at_start) {
  const json_t *piece = ch_template_argument(c, 0, "prefix");
  bool holds = begins_with(c->self, piece, at_start);
  if (!json_is_string(piece) && !json_is_array(piece)) return ch_template_refuse(c, "needs a text");
  for (size_t i = 0; i < json_array_size(piece); i++)
    holds |= begins_with(c->self, json_array_get(piece, i), at_start);
  return json_boolean(holds);
}

static json_t *remove_end(const call *c, bool at_start) {
  const json_t *piece = ch_template_argument(c, 0, "prefix");
  size_t size = json_string_length(c->self), length = json_string_length(piece);
  if (!json_is_string(piece)) return ch_template_refuse(c, "needs a text");
  if (!begins_with(c->self, piece, at_start)) return json_incref(c->self);
  return json_stringn(json_string_value(c->self) + (at_start ? length : 0), size - length);
}

/* Returns the offset of a piece in characters. If the text does not contain it, returns -1, or fails if `required`. */
static json_t *find(const call *c, bool from_end, bool required) {
  const char *piece = ch_template_text_argument(c, 0, "sub"), *text = json_string_value(c->self);
  const char *found;
  if (!piece) return ch_template_refuse(c, "needs a text");
  if (!find_place(text, piece, from_end, &found)) return NULL;
  if (!found) return required ? ch_template_refuse(c, "does not find the string") : json_integer(-1);
  json_int_t characters = 0;
  for (const char *p = text; p < found; p++) characters += (*p & 0xc0) != 0x80;
  return json_integer(characters);
}

static json_t *count_pieces(const call *c) {
  const char *piece = ch_template_text_argument(c, 0, "sub"), *at = json_string_value(c->self);
  json_int_t count = 0;
  if (!piece || !*piece) return ch_template_refuse(c, "needs a string that is not empty");
  for (; (at = strstr(at, piece)); at += strlen(piece)) count++;
  return json_integer(count);
}

/* Returns true if the text is not empty and all characters are of the kind in the method's name. */
static json_t *all_are(const call *c) {
  const unsigned char *p = (const unsigned char *)json_string_value(c->self),
                      *end = p + json_string_length(c->self);
  bool all = p < end, spaces = strcmp(c->name, "isspace") == 0;
  bool digits = strcmp(c->name, "isdigit") == 0, both = strcmp(c->name, "isalnum") == 0;
  while (p < end && all) {
    uint32_t code = 0;
    size_t length = ch_utf8_decode(p, end, &code);
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    bool digit = category == UTF8PROC_CATEGORY_ND;
    all = both ? digit || letter : digits ? digit : spaces ? ch_is_white_space(code) : letter;
    p += length ? length : 1;
  }
  return json_boolean(all);
}

/* Returns true if the text has letters with case and all of them have the given case. */
static json_t *is_in_case(const call *c, bool upper) {
  const unsigned char *p = (const unsigned char *)json_string_value(c->self),
                      *end = p + json_string_length(c->self);
  bool some = false, all = true;
  while (p < end) {
    uint32_t code = 0;
    size_t length = ch_utf8_decode(p, end, &code);
    bool fits = upper ? utf8proc_isupper((utf8proc_int32_t)code) : utf8proc_islower((utf8proc_int32_t)code);
    some |= fits;
    all &= fits || !has_case(code);
    p += length ? length : 1;
  }
  return json_boolean(some && all);
}

/* Evaluates separator.join(list). */
static json_t *join_by(const call *c) {
  json_t *self = c->self;
  const json_t *list = ch_template_argument(c, 0, "iterable");
  if (!json_is_array(list)) return ch_template_refuse(c, "needs a list of strings");
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!json_is_string(json_array_get(list, i))) return ch_template_refuse(c, "needs a list of strings");
  return ch_template_apply(c->scope, "join", (json_t *)(uintptr_t)list, &self, 1, c->error);
}

/* Parses a text as a Python literal. Counts the elements that it can have, at least two bytes of text each, before
   parsing. */
static json_t *literal(const call *c) {
  size_t size = json_string_length(c->self);
  if (!ch_template_spend(c->scope, size * (CH_TEMPLATE_ELEMENT_BYTES / 2), c->error)) return NULL;
  return ch_python_literal(json_string_value(c->self), size, c->error);
}

static json_t *regex_replace(const call *c) {
  const char *pattern = ch_template_text_argument(c, 0, "pattern"),
             *with = ch_template_text_argument(c, 1, "repl");
  if (!pattern || !with) return ch_template_refuse(c, "needs a pattern and its replacement");
  return ch_template_regex(c->scope, c->self, pattern, with, c->error);
}

json_t *ch_template_apply_to_text(const call *c, bool *known) {
  const char *name = c->name;
  *known = true;
  if (strcmp(name, "strip") == 0 || strcmp(name, "trim") == 0) return strip(c, true, true);
  if (strcmp(name, "lstrip") == 0) return strip(c, true, false);
  if (strcmp(name, "rstrip") == 0) return strip(c, false, true);
  if (strcmp(name, "split") == 0) return split(c);
  if (strcmp(name, "splitlines") == 0) return split_lines(c);
  if (strcmp(name, "replace") == 0) return replace(c);
  if (strcmp(name, "lower") == 0) return change_case(c, false, false);
  if (strcmp(name, "upper") == 0) return change_case(c, true, true);
  if (strcmp(name, "capitalize") == 0) return change_case(c, true, false);
  if (strcmp(name, "title") == 0) return title(c);
  if (strcmp(name, "indent") == 0) return indent(c);
  if (strcmp(name, "escape") == 0 || strcmp(name, "e") == 0) return escape(c);
  if (strcmp(name, "startswith") == 0) return begins_or_ends(c, true);
  if (strcmp(name, "endswith") == 0) return begins_or_ends(c, false);
  if (strcmp(name, "removeprefix") == 0) return remove_end(c, true);
  if (strcmp(name, "removesuffix") == 0) return remove_end(c, false);
  if (strcmp(name, "index") == 0) return find(c, false, true);
  if (strcmp(name, "find") == 0) return find(c, false, false);
  if (strcmp(name, "rfind") == 0) return find(c, true, false);
  if (strcmp(name, "rsplit") == 0) return split_right(c);
  if (strcmp(name, "partition") == 0) return partition(c, false);
  if (strcmp(name, "rpartition") == 0) return partition(c, true);
  if (strcmp(name, "isupper") == 0 || strcmp(name, "islower") == 0) return is_in_case(c, name[2] == 'u');
  if (strcmp(name, "count") == 0 && c->count > 0) return count_pieces(c);
  if (strncmp(name, "is", 2) == 0) return all_are(c);
  if (strcmp(name, "join") == 0 && c->method) return join_by(c);
  if (strcmp(name, "literal") == 0) return literal(c);
  if (strcmp(name, "regex_replace") == 0) return regex_replace(c);
  *known = false;
  return NULL;
}
