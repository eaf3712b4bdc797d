/* What templates can do with values: Python's string methods and Jinja's filters, under their names. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/text.h"
#include "eval/tasks/python_literal.h"
#include "eval/tasks/template_private.h"
#include "base/utf8.h"

const char *const ch_template_functions[] = {
    "strip",         "trim",  "lstrip",    "rstrip",     "split",      "join",     "replace",
    "regex_replace", "lower", "upper",     "capitalize", "startswith", "endswith", "index",
    "length",        "int",   "string",    "list",       "values",     "keys",     "first",
    "last",          "map",   "attribute", "range",      "literal",    NULL};

bool ch_template_knows(const char *name) {
  for (int i = 0; name && ch_template_functions[i]; i++)
    if (strcmp(ch_template_functions[i], name) == 0) return true;
  return false;
}

typedef struct call {
  ch_template_scope *scope;
  const char *name;
  json_t *self, *const *in;
  int count;
  ch_error *error;
} call;

static json_t *fail(const call *c, const char *what) {
  ch_fail(c->error, CH_ERROR_FORMAT, "%s %s", c->name, what);
  return NULL;
}

static bool spend(const call *c, size_t bytes) {
  return ch_template_spend(c->scope, bytes, c->error);
}

static const char *text_argument(const call *c, int index) {
  return index < c->count ? json_string_value(c->in[index]) : NULL;
}

/* --- texts --------------------------------------------------------------------------------------------------- */

/* Whether str.strip takes a character away: white space, or one of `set`. */
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
  const json_t *set = c->count > 0 ? c->in[0] : NULL;
  if (set && !json_is_string(set)) return fail(c, "takes the characters to take away as a text");
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
  if (spend(c, CH_TEMPLATE_ELEMENT_BYTES) && json_array_append_new(list, json_stringn(from, size)) == 0)
    return list;
  json_decref(list);
  return NULL;
}

/* Without a separator: the pieces between runs of white space, no empty ones. */
static json_t *split_words(const call *c) {
  const unsigned char *p = (const unsigned char *)json_string_value(c->self);
  const unsigned char *end = p + json_string_length(c->self), *word = NULL;
  json_t *list = json_array();
  while (list && p < end) {
    uint32_t code = 0;
    size_t length = ch_utf8_decode(p, end, &code);
    bool space = ch_is_white_space(code);
    if (space && word) list = put_piece(c, list, (const char *)word, (size_t)(p - word));
    word = space ? NULL : word ? word : p;
    p += length ? length : 1;
  }
  return list && word ? put_piece(c, list, (const char *)word, (size_t)(end - word)) : list;
}

static json_t *split(const call *c) {
  if (c->count == 0) return split_words(c);
  const char *separator = text_argument(c, 0), *at = json_string_value(c->self), *next;
  if (!separator || !*separator) return fail(c, "takes a text that is not empty");
  json_t *list = json_array();
  for (; list && (next = strstr(at, separator)); at = next + strlen(separator))
    list = put_piece(c, list, at, (size_t)(next - at));
  return list ? put_piece(c, list, at, strlen(at)) : NULL;
}

/* The text as json; NULL with *error filled when memory is out. */
static json_t *finish(const call *c, ch_text *text) {
  json_t *result = text->failed ? NULL : json_stringn(text->data ? text->data : "", text->size);
  ch_text_free(text);
  if (!result) ch_fail(c->error, CH_ERROR_MEMORY, "no memory for a text");
  return result;
}

/* Puts bytes at the end of a text that may grow out of proportion to what it is made of. */
static bool put_checked(const call *c, ch_text *text, const char *bytes, size_t size) {
  if (!ch_template_fits(text->size + size, c->error)) return false;
  ch_text_put(text, bytes, size);
  return true;
}

static json_t *join(const call *c) {
  ch_text text = {0};
  const char *between = c->count ? text_argument(c, 0) : "";
  if (!json_is_array(c->self) || !between) return fail(c, "takes a list, and the text between");
  for (size_t i = 0; i < json_array_size(c->self); i++) {
    json_t *piece = ch_template_text(json_array_get(c->self, i), c->error);
    bool fits = piece && put_checked(c, &text, between, i > 0 ? strlen(between) : 0) &&
                put_checked(c, &text, json_string_value(piece), json_string_length(piece));
    json_decref(piece);
    if (!fits) {
      ch_text_free(&text);
      return NULL;
    }
  }
  return finish(c, &text);
}

static json_t *replace(const call *c) {
  const char *from = text_argument(c, 0), *to = text_argument(c, 1), *next;
  const char *at = json_string_value(c->self);
  if (!from || !to || !*from) return fail(c, "takes a text that is not empty, and what comes in its place");
  ch_text text = {0};
  size_t from_size = strlen(from), to_size = strlen(to);
  bool fits = true;
  for (; fits && (next = strstr(at, from)); at = next + from_size)
    fits = put_checked(c, &text, at, (size_t)(next - at)) && put_checked(c, &text, to, to_size);
  if (fits && put_checked(c, &text, at, strlen(at))) return finish(c, &text);
  ch_text_free(&text);
  return NULL;
}

/* Letters with case, and what may stand in a word between them without ending it (Unicode's Cased and Case_Ignorable). */
static bool has_case(uint32_t code) {
  utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT || utf8proc_isupper((utf8proc_int32_t)code) ||
         utf8proc_islower((utf8proc_int32_t)code);
}

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

/* Returns true when a sigma ends its word, and has another small letter therefore: a letter with case is before it, and none after. */
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

/* Upper or lower case from character `first` on; before it, the other. */
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
    /* The one letter that becomes two: a capital I with a dot keeps the dot. */
    if (code == 0x130 && changed != 0x130) ch_text_puts(&text, "\xcc\x87");
    p += length ? length : 1;
  }
  return finish(c, &text);
}

static json_t *begins_or_ends(const call *c, bool begins) {
  const char *piece = text_argument(c, 0);
  if (!piece) return fail(c, "takes a text");
  size_t size = json_string_length(c->self), length = strlen(piece);
  const char *text = json_string_value(c->self);
  return json_boolean(size >= length && memcmp(begins ? text : text + size - length, piece, length) == 0);
}

static json_t *text_index(const call *c) {
  const char *piece = text_argument(c, 0), *text = json_string_value(c->self);
  const char *found = piece ? strstr(text, piece) : NULL;
  if (!found) return fail(c, "does not find what it looks for");
  int64_t characters = 0;
  for (const char *p = text; p < found; p++) characters += (*p & 0xc0) != 0x80;
  return json_integer(characters);
}

static json_t *whole_number(const call *c) {
  if (json_is_integer(c->self)) return json_incref(c->self);
  if (json_is_boolean(c->self)) return json_integer(json_is_true(c->self));
  if (json_is_real(c->self) && json_real_value(c->self) > -1e15 && json_real_value(c->self) < 1e15)
    return json_integer((int64_t)json_real_value(c->self));
  const char *text = json_string_value(c->self);
  char *after = NULL;
  long long whole = text ? strtoll(text, &after, 10) : 0;
  while (after && ch_is_white_space((unsigned char)*after)) after++;
  if (!text || after == text || *after || whole == LLONG_MAX || whole == LLONG_MIN)
    return fail(c, "needs a whole number");
  return json_integer(whole);
}

/* --- lists --------------------------------------------------------------------------------------------------- */

static json_t *list_index(const call *c) {
  for (size_t i = 0; c->count == 1 && i < json_array_size(c->self); i++)
    if (json_equal(json_array_get(c->self, i), c->in[0])) return json_integer((json_int_t)i);
  return fail(c, "does not find what it looks for");
}

static json_t *keys_or_values(const call *c, bool keys) {
  json_t *list = json_array(), *value;
  const char *key;
  json_object_foreach(c->self, key, value) {
    if (json_array_append_new(list, keys ? json_string(key) : json_incref(value)) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

static json_t *length(const call *c) {
  if (json_is_array(c->self)) return json_integer((json_int_t)json_array_size(c->self));
  if (json_is_object(c->self)) return json_integer((json_int_t)json_object_size(c->self));
  int64_t characters = 0;
  for (const char *p = json_string_value(c->self); *p; p++) characters += (*p & 0xc0) != 0x80;
  return json_integer(characters);
}

static json_t *end_of(const call *c, bool last) {
  size_t count = json_array_size(c->self);
  if (count == 0) return fail(c, "is asked of an empty list");
  return json_incref(json_array_get(c->self, last ? count - 1 : 0));
}

/* 0 ... n - 1. */
static json_t *range(const call *c) {
  json_int_t count = json_integer_value(c->self);
  if (count > CH_TEMPLATE_RANGE) {
    ch_fail(c->error, CH_ERROR_FORMAT, "range goes up to %d, not to %lld", CH_TEMPLATE_RANGE,
            (long long)count);
    return NULL;
  }
  json_t *list = json_array();
  for (json_int_t i = 0; list && i < count; i++)
    if (json_array_append_new(list, json_integer(i)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

static json_t *attribute(const call *c) {
  json_t *value = text_argument(c, 0) ? json_object_get(c->self, text_argument(c, 0)) : NULL;
  return value ? json_incref(value) : fail(c, "does not find the field it looks for");
}

static json_t *map(const call *c) {
  const char *name = text_argument(c, 0);
  if (!name || !ch_template_knows(name) || strcmp(name, "map") == 0)
    return fail(c, "takes the name of a filter");
  json_t *list = json_array();
  for (size_t i = 0; list && i < json_array_size(c->self); i++)
    if (json_array_append_new(list, ch_template_apply(c->scope, name, json_array_get(c->self, i), c->in + 1,
                                                      c->count - 1, c->error)) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

/* An element takes two bytes and more. */
static json_t *literal(const call *c) {
  size_t size = json_string_length(c->self);
  if (!spend(c, size * (CH_TEMPLATE_ELEMENT_BYTES / 2))) return NULL;
  return ch_python_literal(json_string_value(c->self), size, c->error);
}

/* --- by name ------------------------------------------------------------------------------------------------- */

static json_t *of_text(const call *c) {
  const char *name = c->name;
  if (strcmp(name, "strip") == 0 || strcmp(name, "trim") == 0) return strip(c, true, true);
  if (strcmp(name, "lstrip") == 0) return strip(c, true, false);
  if (strcmp(name, "rstrip") == 0) return strip(c, false, true);
  if (strcmp(name, "split") == 0) return split(c);
  if (strcmp(name, "replace") == 0) return replace(c);
  if (strcmp(name, "lower") == 0) return change_case(c, false, false);
  if (strcmp(name, "upper") == 0) return change_case(c, true, true);
  if (strcmp(name, "capitalize") == 0) return change_case(c, true, false);
  if (strcmp(name, "startswith") == 0) return begins_or_ends(c, true);
  if (strcmp(name, "endswith") == 0) return begins_or_ends(c, false);
  if (strcmp(name, "index") == 0) return text_index(c);
  if (strcmp(name, "literal") == 0) return literal(c);
  if (strcmp(name, "regex_replace") == 0) {
    if (!text_argument(c, 0) || !text_argument(c, 1))
      return fail(c, "takes a pattern and what comes in its place");
    return ch_template_regex(c->scope, c->self, text_argument(c, 0), text_argument(c, 1), c->error);
  }
  return fail(c, "is not for texts");
}

static json_t *of_list(const call *c) {
  if (strcmp(c->name, "index") == 0) return list_index(c);
  if (strcmp(c->name, "join") == 0) return join(c);
  if (strcmp(c->name, "map") == 0) return map(c);
  if (strcmp(c->name, "first") == 0) return end_of(c, false);
  if (strcmp(c->name, "last") == 0) return end_of(c, true);
  if (strcmp(c->name, "list") == 0 || strcmp(c->name, "literal") == 0) return json_incref(c->self);
  return fail(c, "is not for lists");
}

static json_t *result_of(const call *c) {
  const char *name = c->name;
  json_t *self = c->self;
  if (strcmp(name, "int") == 0) return whole_number(c);
  if (strcmp(name, "range") == 0 && json_is_integer(self)) return range(c);
  if (strcmp(name, "attribute") == 0 && json_is_object(self)) return attribute(c);
  if (strcmp(name, "string") == 0) return ch_template_text(self, c->error);
  if (strcmp(name, "length") == 0 && (json_is_string(self) || json_is_array(self) || json_is_object(self)))
    return length(c);
  if (json_is_string(self)) return of_text(c);
  if (json_is_array(self)) return of_list(c);
  if (json_is_object(self) && (strcmp(name, "keys") == 0 || strcmp(name, "list") == 0))
    return keys_or_values(c, true);
  if (json_is_object(self) && strcmp(name, "values") == 0) return keys_or_values(c, false);
  return fail(c, "does not fit the value it is applied to");
}

json_t *ch_template_apply(ch_template_scope *scope, const char *name, json_t *self, json_t *const *in,
                          int count, ch_error *error) {
  call c = {.scope = scope, .name = name, .self = self, .in = in, .count = count, .error = error};
  if (!spend(&c, CH_TEMPLATE_ELEMENT_BYTES) || !ch_template_spend_value(scope, self, error)) return NULL;
  for (int i = 0; i < count; i++)
    if (!ch_template_spend_value(scope, in[i], error)) return NULL;
  json_t *result = result_of(&c);
  if (!result || ch_template_spend_value(scope, result, error)) return result;
  json_decref(result);
  return NULL;
}
