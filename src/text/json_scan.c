/* Scans JSON forwards: brackets, strings with escapes, integers. A JSON library would build a tree of objects,
 * which is slow for large vocabularies. */
#include "text/json_scan.h"

#include <string.h>

#include "base/utf8.h"

static ch_status wrong(const ch_json_scan *scan, ch_error *error, const char *expected) {
  return ch_fail(error, CH_ERROR_FORMAT, "%s is not the JSON of a tokenizer: expected %s at byte %zu",
                 scan->name, expected, (size_t)(scan->at - scan->start));
}

ch_status ch_json_scan_begin(ch_json_scan *scan, const char *name, const char *text, size_t size,
                             ch_error *error) {
  *scan = (ch_json_scan){.name = name, .start = text, .at = text, .end = text + size};
  size_t valid = ch_utf8_valid_prefix((const unsigned char *)text, size);
  if (valid == size) return CH_OK;
  scan->at += valid;
  return wrong(scan, error, "UTF-8 text");
}

void ch_json_scan_end(ch_json_scan *scan) {
  ch_text_free(&scan->buffer);
}

char ch_json_peek(ch_json_scan *scan) {
  while (scan->at < scan->end &&
         (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\t' || *scan->at == '\r'))
    scan->at++;
  return scan->at < scan->end ? *scan->at : 0;
}

static ch_status take(ch_json_scan *scan, char character, ch_error *error) {
  char expected[] = {'\'', character, '\'', 0};
  if (ch_json_peek(scan) != character) return wrong(scan, error, expected);
  scan->at++;
  return CH_OK;
}

ch_status ch_json_enter(ch_json_scan *scan, char bracket, ch_error *error) {
  scan->fresh = true;
  return take(scan, bracket, error);
}

ch_status ch_json_more(ch_json_scan *scan, char closing, bool *more, ch_error *error) {
  bool fresh = scan->fresh;
  scan->fresh = false;
  *more = ch_json_peek(scan) != closing;
  if (!*more) {
    scan->at++;
    return CH_OK;
  }
  return fresh ? CH_OK : take(scan, ',', error);
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static bool hex4(ch_json_scan *scan, uint32_t *value) {
  if (scan->end - scan->at < 4) return false;
  *value = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_digit(scan->at[i]);
    if (digit < 0) return false;
    *value = *value << 4 | (uint32_t)digit;
  }
  scan->at += 4;
  return true;
}

/* Reads an escape after its backslash. A character above U+FFFF is written as two escapes. */
static ch_status escape(ch_json_scan *scan, ch_error *error) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  char c = scan->at < scan->end ? *scan->at : 0;
  const char *found = c ? strchr(names, c) : NULL;
  if (found) {
    ch_text_put(&scan->buffer, values + (found - names), 1);
    scan->at++;
    return CH_OK;
  }
  if (c != 'u') return wrong(scan, error, "an escape that JSON knows");
  scan->at++;
  uint32_t code_point, low;
  if (!hex4(scan, &code_point)) return wrong(scan, error, "four hexadecimal digits");
  if (code_point >> 10 == 0xd800 >> 10 && scan->end - scan->at >= 6 && scan->at[0] == '\\' &&
      scan->at[1] == 'u') {
    scan->at += 2;
    if (!hex4(scan, &low) || low >> 10 != 0xdc00 >> 10)
      return wrong(scan, error, "the second half of a surrogate pair");
    code_point = 0x10000 + ((code_point & 0x3ff) << 10 | (low & 0x3ff));
  }
  if (code_point >> 11 == 0xd800 >> 11) return wrong(scan, error, "a surrogate pair");
  unsigned char bytes[4];
  ch_text_put(&scan->buffer, (const char *)bytes, ch_utf8_encode(code_point, bytes));
  return CH_OK;
}

/* Moves past plain characters of a string. */
static void plain_run(ch_json_scan *scan) {
  while (scan->at < scan->end && *scan->at != '"' && *scan->at != '\\' && (unsigned char)*scan->at >= 0x20)
    scan->at++;
}

ch_status ch_json_string(ch_json_scan *scan, const char **text, size_t *size, ch_error *error) {
  CH_TRY(take(scan, '"', error));
  const char *run = scan->at;
  plain_run(scan);
  if (scan->at < scan->end && *scan->at == '"') {
    *text = run;
    *size = (size_t)(scan->at++ - run);
    return CH_OK;
  }
  scan->buffer.size = 0;
  for (;;) {
    ch_text_put(&scan->buffer, run, (size_t)(scan->at - run));
    if (scan->at == scan->end) return wrong(scan, error, "the end of a string");
    char stop = *scan->at++;
    if (stop == '"') break;
    if (stop != '\\') {
      scan->at--;
      return wrong(scan, error, "no raw control character in a string");
    }
    CH_TRY(escape(scan, error));
    run = scan->at;
    plain_run(scan);
  }
  if (scan->buffer.failed) return ch_no_memory(error);
  *text = scan->buffer.data;
  *size = scan->buffer.size;
  return CH_OK;
}

ch_status ch_json_key(ch_json_scan *scan, const char **text, size_t *size, ch_error *error) {
  CH_TRY(ch_json_string(scan, text, size, error));
  return take(scan, ':', error);
}

ch_status ch_json_integer(ch_json_scan *scan, int64_t *value, ch_error *error) {
  bool negative = ch_json_peek(scan) == '-';
  const char *p = scan->at + negative;
  int64_t result = 0;
  int digits = 0;
  for (; p < scan->end && *p >= '0' && *p <= '9' && digits < 18; p++, digits++)
    result = result * 10 + (*p - '0');
  bool more_follows = p < scan->end && ((*p >= '0' && *p <= '9') || *p == '.' || *p == 'e' || *p == 'E');
  if (digits == 0 || more_follows) return wrong(scan, error, "an integer");
  scan->at = p;
  *value = negative ? -result : result;
  return CH_OK;
}

/* Moves past a string whose opening quote is next. */
static ch_status skip_string(ch_json_scan *scan, ch_error *error) {
  for (scan->at++; scan->at < scan->end; scan->at++) {
    plain_run(scan);
    if (scan->at == scan->end) break;
    if ((unsigned char)*scan->at < 0x20) return wrong(scan, error, "no raw control character in a string");
    if (*scan->at == '"') {
      scan->at++;
      return CH_OK;
    }
    if (++scan->at == scan->end) break; /* the escaped character */
  }
  return wrong(scan, error, "the end of a string");
}

ch_status ch_json_skip(ch_json_scan *scan, const char **text, size_t *size, ch_error *error) {
  char c = ch_json_peek(scan);
  const char *begin = scan->at;
  size_t depth = 0;
  if (c == 0 || strchr(",:]}", c)) return wrong(scan, error, "a value");
  do {
    if (scan->at == scan->end) return wrong(scan, error, "a closing bracket");
    c = *scan->at;
    if (c == '"') {
      CH_TRY(skip_string(scan, error));
    } else if (c == '{' || c == '[') {
      depth++;
      scan->at++;
    } else if (c == '}' || c == ']') {
      depth--;
      scan->at++;
    } else if (depth > 0) {
      scan->at++;
    } else {
      while (scan->at < scan->end && !strchr(",]} \n\t\r", *scan->at)) scan->at++;
    }
  } while (depth > 0);
  *text = begin;
  *size = (size_t)(scan->at - begin);
  scan->fresh = false;
  return CH_OK;
}

ch_status ch_json_finish(ch_json_scan *scan, ch_error *error) {
  ch_json_peek(scan);
  return scan->at == scan->end ? CH_OK : wrong(scan, error, "the end of the file");
}
