/* Parses Python's literals by recursive descent. */
#include "template/python_literal.h"

#include <errno.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

enum { DEEPEST = 32 };

typedef struct reader {
  const char *at, *end;
  int depth;
} reader;

static json_t *read_value(reader *r);

static void skip_space(reader *r) {
  while (r->at < r->end && isspace((unsigned char)*r->at)) r->at++;
}

static bool take(reader *r, char sign) {
  skip_space(r);
  if (r->at >= r->end || *r->at != sign) return false;
  r->at++;
  return true;
}

static bool take_word(reader *r, const char *word) {
  size_t size = strlen(word);
  if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0) return false;
  r->at += size;
  return true;
}

/* Reads the digits of \xHH, \uHHHH or \UHHHHHHHH and appends the character. */
static bool put_code(reader *r, ch_text *text, int digits) {
  uint32_t code = 0;
  for (int i = 0; i < digits; i++, r->at++) {
    if (r->at >= r->end || !isxdigit((unsigned char)*r->at)) return false;
    int c = tolower((unsigned char)*r->at);
    code = code * 16 + (uint32_t)(isdigit(c) ? c - '0' : c - 'a' + 10);
  }
  unsigned char out[4];
  if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  ch_text_put(text, (const char *)out, ch_utf8_encode(code, out));
  return true;
}

static bool put_escaped(reader *r, ch_text *text) {
  static const char from[] = "ntr\\'\"abfv", to[] = "\n\t\r\\'\"\a\b\f\v";
  if (r->at >= r->end) return false;
  char c = *r->at++;
  if (c == 'x') return put_code(r, text, 2);
  if (c == 'u') return put_code(r, text, 4);
  if (c == 'U') return put_code(r, text, 8);
  if (c == '\n') return true;
  const char *found = c ? strchr(from, c) : NULL;
  if (found) {
    ch_text_put(text, to + (found - from), 1);
  } else {
    ch_text_put(text, "\\", 1);
    ch_text_put(text, &c, 1);
  }
  return true;
}

static bool put_string(reader *r, ch_text *text) {
  char quote = *r->at++;
  while (r->at < r->end && *r->at != quote) {
    char c = *r->at++;
    if (c == '\\') {
      if (!put_escaped(r, text)) return false;
    } else {
      ch_text_put(text, &c, 1);
    }
  }
  return r->at < r->end && *r->at++ == quote;
}

static bool at_quote(reader *r) {
  skip_space(r);
  return r->at < r->end && (*r->at == '\'' || *r->at == '"');
}

/* Reads a string. Adjacent strings are joined. */
static json_t *read_string(reader *r) {
  ch_text text = {0};
  json_t *string = NULL;
  bool good = true;
  while (good && at_quote(r)) good = put_string(r, &text);
  if (good && !text.failed) string = json_stringn(text.data ? text.data : "", text.size);
  ch_text_free(&text);
  return string;
}

static json_t *read_number(reader *r) {
  char buffer[64];
  size_t size = 0;
  while (r->at < r->end && size + 1 < sizeof buffer && *r->at && strchr("+-.0123456789eE", *r->at))
    buffer[size++] = *r->at++;
  buffer[size] = 0;
  char *after;
  if (size && !strpbrk(buffer, ".eE")) {
    errno = 0;
    long long whole = strtoll(buffer, &after, 10);
    return *after || errno ? NULL : json_integer(whole);
  }
  double number = strtod(buffer, &after);
  return size && !*after ? json_real(number) : NULL;
}

static json_t *read_list(reader *r, char closing) {
  json_t *list = json_array();
  bool comma = false;
  while (list && !take(r, closing)) {
    bool good = json_array_append_new(list, read_value(r)) == 0;
    comma = good && take(r, ',');
    if (good && (comma || (r->at < r->end && *r->at == closing))) continue;
    json_decref(list);
    return NULL;
  }
  if (closing == ']' || comma || json_array_size(list) != 1) return list;
  json_t *item = json_incref(json_array_get(list, 0)); /* parentheses around one value make no tuple */
  json_decref(list);
  return item;
}

static json_t *read_dictionary(reader *r) {
  json_t *object = json_object();
  while (object && !take(r, '}')) {
    json_t *key = at_quote(r) ? read_string(r) : NULL;
    bool good = key && take(r, ':') &&
                json_object_set_new(object, json_string_value(key), read_value(r)) == 0 &&
                (take(r, ',') || (r->at < r->end && *r->at == '}'));
    json_decref(key);
    if (good) continue;
    json_decref(object);
    return NULL;
  }
  return object;
}

static json_t *read_value(reader *r) {
  json_t *value = NULL;
  skip_space(r);
  if (r->at >= r->end || r->depth >= DEEPEST) return NULL;
  r->depth++;
  if (at_quote(r))
    value = read_string(r);
  else if (take(r, '['))
    value = read_list(r, ']');
  else if (take(r, '('))
    value = read_list(r, ')');
  else if (take(r, '{'))
    value = read_dictionary(r);
  else if (take_word(r, "True"))
    value = json_true();
  else if (take_word(r, "False"))
    value = json_false();
  else if (take_word(r, "None"))
    value = json_null();
  else
    value = read_number(r);
  r->depth--;
  return value;
}

json_t *ch_python_literal(const char *text, size_t size, ch_error *error) {
  reader r = {.at = text, .end = text + size};
  json_t *value = read_value(&r);
  skip_space(&r);
  if (value && r.at == r.end) return value;
  json_decref(value);
  ch_fail(error, CH_ERROR_FORMAT, "literal: not a literal of Python from byte %zu on", (size_t)(r.at - text));
  return NULL;
}
