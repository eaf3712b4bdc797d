/* Reads JSON with jansson and strict flags, and writes numbers and strings.
 *
 * An error names the key whose value is broken. Keys of a configuration are checked in config_file/. */
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mistaken.h"

/* Finds the key whose value is broken: the last quoted string before `position` that is followed by a
   colon. */
static bool key_before(const char *text, size_t position, const char **key, size_t *length) {
  for (size_t colon = position; colon-- > 0;) {
    if (text[colon] == '\n' && position - colon > 200) return false;
    if (text[colon] != ':') continue;
    size_t end = colon;
    while (end > 0 && strchr(" \t\r\n", text[end - 1])) end--;
    if (end == 0 || text[end - 1] != '"') continue;
    size_t start = --end;
    while (start > 0 && text[start - 1] != '"') start--;
    if (start == 0 || end - start > 80) return false;
    *key = text + start;
    *length = end - start;
    return true;
  }
  return false;
}

static ch_status parse_error(const char *text, size_t size, const char *where, const json_error_t *why,
                             ch_error *error) {
  /* jansson leaves line at -1 if it fails before it reads */
  if (json_error_code(why) == json_error_out_of_memory || why->line < 0) return ch_no_memory(error);
  size_t position = why->position > 0 ? (size_t)why->position : 0;
  const char *key = "";
  size_t length = 0;
  char quoted[100] = "", what[JSON_ERROR_TEXT_LENGTH * 2];
  if (key_before(text, position < size ? position : size, &key, &length)) {
    char name[81];
    snprintf(name, sizeof name, "%.*s", (int)length, key);
    ch_json_quote(name, quoted, sizeof quoted);
  }
  /* jansson quotes the offending bytes unchanged. All but printable ASCII becomes question marks. */
  size_t used = 0;
  for (const char *p = why->text; *p && used + 1 < sizeof what; p++)
    what[used++] = (*p >= ' ' && *p < 127) ? *p : '?';
  what[used] = 0;
  if (strstr(what, "JSON_ALLOW_NUL"))
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s: a string at line %d%s%s contains the character U+0000 (\\u0000), which is not allowed", where,
        why->line, *quoted ? ", after key " : "", quoted);
  return ch_fail(error, CH_ERROR_FORMAT, "%s is not valid JSON at line %d%s%s: %s", where, why->line,
                 *quoted ? ", after key " : "", quoted, what);
}

/* Returns the end of the number or word that begins at `at`. */
static size_t end_of_token(const char *text, size_t size, size_t at) {
  while (at < size && (isalnum((unsigned char)text[at]) || (text[at] && strchr("+-.", text[at])))) at++;
  return at;
}

static bool is_word(const char *token, size_t length, const char *word) {
  return length == strlen(word) && memcmp(token, word, length) == 0;
}

/* Returns true if a token is an integer beyond 64 bits. */
static bool is_wide(const char *token, size_t length) {
  enum { DIGITS = 18 }; /* numbers of at most 18 digits fit in 64 bits */
  char number[32];
  size_t sign = length > 0 && token[0] == '-';
  if (length - sign <= DIGITS) return false;
  for (size_t i = sign; i < length; i++)
    if (!isdigit((unsigned char)token[i])) return false;
  if (length >= sizeof number) return true;
  snprintf(number, sizeof number, "%.*s", (int)length, token);
  errno = 0;
  strtoll(number, NULL, 10);
  return errno == ERANGE;
}

bool ch_json_tolerate(const char *text, size_t size, ch_text *copy) {
  size_t copied = 0;
  bool quoted = false, changed = false;
  for (size_t at = 0; at < size; at++) {
    if (quoted && text[at] == '\\')
      at++;
    else if (text[at] == '"')
      quoted = !quoted;
    if (quoted || at >= size || !(isalnum((unsigned char)text[at]) || text[at] == '-')) continue;
    size_t end = end_of_token(text, size, at), length = end - at;
    bool word = is_word(text + at, length, "NaN") || is_word(text + at, length, "Infinity") ||
                is_word(text + at, length, "-Infinity");
    if (word || is_wide(text + at, length)) {
      ch_text_put(copy, text + copied, at - copied);
      ch_text_printf(copy, word ? "\"%.*s\"" : "%.*s.0", (int)length, text + at);
      copied = end;
      changed = true;
    }
    at = end - 1;
  }
  if (changed) ch_text_put(copy, text + copied, size - copied);
  return changed;
}

/* Parses JSON with the numbers that ch_json_tolerate changes. Returns NULL if the text is not such JSON. */
static json_t *parse_tolerant(const char *text, size_t size, const json_error_t *first) {
  ch_text copy = {0};
  json_t *root = NULL;
  if (json_error_code(first) != json_error_out_of_memory && ch_json_tolerate(text, size, &copy) &&
      !copy.failed)
    root = json_loadb(copy.data, copy.size, JSON_REJECT_DUPLICATES, NULL);
  ch_text_free(&copy);
  return root;
}

ch_status ch_json_parse(const char *text, size_t size, const char *where, json_t **root, ch_error *error) {
  json_error_t why;
  if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
    text += 3;
    size -= 3;
  }
  *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
  if (!*root) *root = parse_tolerant(text, size, &why);
  if (!*root) CH_TRY(ch_refuse_mistaken(where, text, size, true, error));
  if (!*root) return parse_error(text, size, where, &why, error);
  if (json_is_object(*root)) return CH_OK;
  json_decref(*root);
  *root = NULL;
  return ch_fail(error, CH_ERROR_FORMAT, "%s must hold a JSON object {...} at its top level", where);
}

ch_status ch_json_read(const char *path, size_t limit, json_t **root, ch_error *error) {
  char *text = NULL;
  size_t size = 0;
  CH_TRY(ch_read_file(path, limit, &text, &size, error));
  ch_status status = ch_json_parse(text, size, path, root, error);
  free(text);
  return status;
}

bool ch_json_whole(const json_t *value, int64_t *whole) {
  if (json_is_integer(value)) {
    *whole = json_integer_value(value);
    return true;
  }
  if (!json_is_real(value)) return false;
  double real = json_real_value(value);
  if (real != floor(real) || fabs(real) > 0x1p53) return false;
  *whole = (int64_t)real;
  return true;
}

/* Cuts `text` to at most 60 characters, with an ellipsis inside. */
static const char *shorten(const char *text, char *buffer, size_t size) {
  enum { MOST = 60, HEAD = 50, TAIL = 7 };
  size_t length = strlen(text);
  if (length <= MOST)
    snprintf(buffer, size, "%s", text);
  else
    snprintf(buffer, size, "%.*s...%s", HEAD, text, text + length - TAIL);
  return buffer;
}

double ch_json_number_at(const json_t *object, const char *key, double missing) {
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : missing;
}

const char *ch_json_text_at(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

const char *ch_json_show(const json_t *value, char *buffer, size_t size) {
  if (json_is_object(value)) {
    snprintf(buffer, size, "an object");
    return buffer;
  }
  char *text = ch_json_dump(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(12));
  if (text)
    shorten(text, buffer, size);
  else
    snprintf(buffer, size, "?");
  free(text);
  return buffer;
}

const char *ch_json_quote(const char *name, char *buffer, size_t size) {
  json_t *string = json_string(name);
  if (!string) { /* not UTF-8, or no memory */
    snprintf(buffer, size, "\"?\"");
    return buffer;
  }
  ch_json_show(string, buffer, size);
  json_decref(string);
  return buffer;
}

static int put_piece(const char *bytes, size_t size, void *text) {
  ch_text_put(text, bytes, size);
  return 0;
}

char *ch_json_dump(const json_t *value, size_t flags) {
  ch_text text = {0};
  if (json_dump_callback(value, put_piece, &text, flags) == 0 && !text.failed) return text.data;
  ch_text_free(&text);
  return NULL;
}

ch_status ch_json_write(const char *directory, const char *name, json_t *value, size_t flags,
                        ch_error *error) {
  char *path = ch_path_join(directory, name), *text = value ? ch_json_dump(value, flags) : NULL;
  ch_status status = path && text ? ch_write_file(path, text, strlen(text), error) : ch_no_memory(error);
  json_decref(value);
  free(text);
  free(path);
  return status;
}

void ch_json_put_string(ch_text *json, const char *string) {
  json_t *value = json_string(string);
  char *text = value ? ch_json_dump(value, JSON_ENCODE_ANY) : NULL;
  json_decref(value);
  if (text)
    ch_text_puts(json, text);
  else
    json->failed = true;
  free(text);
}

void ch_json_put_bytes(ch_text *json, const char *bytes, size_t size) {
  ch_text_put(json, "\"", 1);
  for (size_t i = 0; i < size; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c == '"' || c == '\\') ch_text_put(json, "\\", 1);
    if (c < 0x20)
      ch_text_printf(json, "\\u%04x", c);
    else
      ch_text_put(json, bytes + i, 1);
  }
  ch_text_put(json, "\"", 1);
}

void ch_json_put_number(ch_text *json, double number) {
  char text[40];
  if (number == floor(number) && fabs(number) < 1e15) {
    ch_text_printf(json, "%.1f", number);
    return;
  }
  int digits = 1;
  do snprintf(text, sizeof text, "%.*g", digits, number);
  while (strtod(text, NULL) != number && ++digits <= 17);
  ch_text_puts(json, text);
}

void ch_json_append(json_t **list, json_t *value) {
  if (json_array_append_new(*list, value) == 0) return;
  json_decref(*list);
  *list = NULL;
}

json_t *ch_json_finite(double number) {
  return isfinite(number) ? json_real(number) : json_null();
}
