/* Values of templates with Python's semantics: truth, equality, order, str(), repr(), json.dumps(). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/json.h"
#include "base/utf8.h"
#include "template/template_private.h"

json_t *ch_template_undefined(void) {
  /* never freed, like jansson's json_null() */
  static const json_t undefined = {.type = JSON_NULL, .refcount = (size_t)-1};
  return (json_t *)(uintptr_t)&undefined;
}

json_t *ch_template_callable(void) {
  static const json_t callable = {.type = JSON_TRUE, .refcount = (size_t)-1};
  return (json_t *)(uintptr_t)&callable;
}

bool ch_template_is_callable(const json_t *value) {
  return json_is_true(value) && value != json_true();
}

/* The byte that begins the keys of integers. */
static const char whole_key = 1;

const char *ch_template_key(const json_t *value, char buffer[CH_TEMPLATE_KEY]) {
  if (json_is_string(value)) return json_string_value(value);
  if (!json_is_integer(value)) return NULL;
  snprintf(buffer, CH_TEMPLATE_KEY, "%c%lld", whole_key, (long long)json_integer_value(value));
  return buffer;
}

bool ch_template_has_key(const json_t *object, const json_t *value) {
  char buffer[CH_TEMPLATE_KEY];
  const char *key = ch_template_key(value, buffer);
  return key && json_object_get(object, key);
}

json_t *ch_template_key_value(const char *key) {
  return *key == whole_key ? json_integer(strtoll(key + 1, NULL, 10)) : json_string(key);
}

bool ch_template_true(const json_t *value) {
  if (json_is_string(value)) return json_string_length(value) > 0;
  if (json_is_integer(value)) return json_integer_value(value) != 0;
  if (json_is_real(value)) return json_real_value(value) != 0;
  if (json_is_array(value)) return json_array_size(value) > 0;
  if (json_is_object(value)) return json_object_size(value) > 0;
  return json_is_true(value);
}

bool ch_template_order(const json_t *a, const json_t *b, double *order) {
  if (json_is_string(a) && json_is_string(b))
    *order = strcmp(json_string_value(a), json_string_value(b));
  else if (json_is_number(a) && json_is_number(b))
    *order = json_number_value(a) - json_number_value(b);
  else
    return false;
  return true;
}

/* Returns true for numbers and booleans, which are numbers in Python. */
static bool is_numeric(const json_t *value) {
  return json_is_number(value) || (json_is_boolean(value) && !ch_template_is_callable(value));
}

static double number_of(const json_t *value) {
  return json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
}

/* Compares lists and objects recursively. The limits for values bound the recursion. */
bool ch_template_equal(const json_t *a, const json_t *b) {
  if (json_is_integer(a) && json_is_integer(b)) return json_integer_value(a) == json_integer_value(b);
  if (is_numeric(a) && is_numeric(b)) return number_of(a) == number_of(b);
  if (json_is_array(a) && json_is_array(b)) {
    bool equal = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; equal && i < json_array_size(a); i++)
      equal = ch_template_equal(json_array_get(a, i), json_array_get(b, i));
    return equal;
  }
  if (json_is_object(a) && json_is_object(b)) {
    bool equal = json_object_size(a) == json_object_size(b);
    const char *key;
    json_t *field;
    json_object_foreach((json_t *)(uintptr_t)a, key, field) {
      const json_t *other = json_object_get(b, key);
      equal = equal && other && ch_template_equal(field, other);
    }
    return equal;
  }
  return json_equal(a, b);
}

/* --- Python's repr -------------------------------------------------------------------------------------- */

/* Returns true for characters that str.isprintable accepts. */
static bool is_printable(uint32_t code) {
  switch (utf8proc_category((utf8proc_int32_t)code)) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    return false;
  case UTF8PROC_CATEGORY_ZS:
    return code == ' ';
  default:
    return true;
  }
}

static void put_repr_text(ch_text *text, const json_t *value) {
  const unsigned char *p = (const unsigned char *)json_string_value(value),
                      *end = p + json_string_length(value);
  char quote = memchr(p, '\'', (size_t)(end - p)) && !memchr(p, '"', (size_t)(end - p)) ? '"' : '\'';
  ch_text_put(text, &quote, 1);
  while (p < end) {
    uint32_t code = *p;
    size_t size = ch_utf8_decode(p, end, &code);
    if (code == (uint32_t)quote || code == '\\')
      ch_text_printf(text, "\\%c", (char)code);
    else if (code == '\n' || code == '\r' || code == '\t')
      ch_text_puts(text, code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t");
    else if (is_printable(code))
      ch_text_put(text, (const char *)p, size ? size : 1);
    else
      ch_text_printf(text, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    p += size ? size : 1;
  }
  ch_text_put(text, &quote, 1);
}

/* Writes repr of a value that is not text, and of texts inside lists and objects. The limits for values bound
   the recursion. */
static void put_repr(ch_text *text, const json_t *value) {
  if (json_is_string(value)) {
    put_repr_text(text, value);
  } else if (json_is_integer(value)) {
    ch_text_printf(text, "%lld", (long long)json_integer_value(value));
  } else if (json_is_real(value)) {
    ch_json_put_number(text, json_real_value(value));
  } else if (json_is_boolean(value)) {
    ch_text_puts(text, json_is_true(value) ? "True" : "False");
  } else if (json_is_array(value)) {
    ch_text_puts(text, "[");
    for (size_t i = 0; i < json_array_size(value); i++) {
      if (i) ch_text_puts(text, ", ");
      put_repr(text, json_array_get(value, i));
    }
    ch_text_puts(text, "]");
  } else if (json_is_object(value)) {
    const char *key, *between = "{";
    json_t *field;
    json_object_foreach((json_t *)(uintptr_t)value, key, field) {
      json_t *name = ch_template_key_value(key);
      ch_text_puts(text, between);
      if (name)
        put_repr(text, name);
      else
        text->failed = true;
      ch_text_puts(text, ": ");
      put_repr(text, field);
      json_decref(name);
      between = ", ";
    }
    ch_text_puts(text, *between == '{' ? "{}" : "}");
  } else {
    ch_text_puts(text, value == ch_template_undefined() ? "Undefined" : "None");
  }
}

json_t *ch_template_text(const json_t *value, ch_error *error) {
  ch_text text = {0};
  json_t *result = NULL;
  if (json_is_string(value)) return json_stringn(json_string_value(value), json_string_length(value));
  if (value != ch_template_undefined()) put_repr(&text, value);
  if (!text.failed) result = json_stringn(text.data ? text.data : "", text.size);
  if (!result) ch_no_memory(error);
  ch_text_free(&text);
  return result;
}

/* --- json.dumps ----------------------------------------------------------------------------------------- */

static void put_json_text(ch_text *text, const char *from, size_t size, const ch_template_json *how) {
  static const char short_escapes[] = "\bb\ff\nn\rr\tt\"\"\\\\";
  const unsigned char *p = (const unsigned char *)from, *end = p + size;
  ch_text_puts(text, "\"");
  while (p < end) {
    uint32_t code = *p;
    size_t length = ch_utf8_decode(p, end, &code);
    const char *escape = NULL;
    for (const char *e = short_escapes; *e && !escape; e += 2)
      if ((uint32_t)(unsigned char)*e == code) escape = e + 1;
    bool markup = how->html && code < 128 && code && strchr("<>&'", (int)code);
    if (escape)
      ch_text_printf(text, "\\%c", *escape);
    else if (code >= 0x10000 && how->ascii)
      ch_text_printf(text, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10),
                     0xdc00 + ((code - 0x10000) & 0x3ff));
    else if (code < 0x20 || markup || (how->ascii && code > 0x7e))
      ch_text_printf(text, "\\u%04x", code);
    else
      ch_text_put(text, (const char *)p, length ? length : 1);
    p += length ? length : 1;
  }
  ch_text_puts(text, "\"");
}

static void put_line(ch_text *text, const ch_template_json *how, int depth) {
  if (how->indent < 0) return;
  ch_text_puts(text, "\n");
  for (int64_t i = 0; i < how->indent * depth; i++) ch_text_puts(text, " ");
}

static bool put_json(ch_text *text, const json_t *value, const ch_template_json *how, int depth);

static bool put_json_object(ch_text *text, json_t *object, const ch_template_json *how, int depth) {
  size_t count = json_object_size(object), n = 0;
  const char *key;
  json_t *field, *list = json_array(); /* the keys, in the order of the written text */
  if (!list) return false;
  json_object_foreach(object, key, field) {
    json_t *name = json_string(key);
    size_t at = n;
    while (how->sorted && at > 0 && strcmp(json_string_value(json_array_get(list, at - 1)), key) > 0) at--;
    if (json_array_insert_new(list, at, name) != 0) break;
    n++;
  }
  bool whole = n == count;
  ch_text_puts(text, "{");
  for (size_t i = 0; whole && i < n; i++) {
    key = json_string_value(json_array_get(list, i));
    if (i) ch_text_puts(text, how->indent < 0 ? ", " : ",");
    put_line(text, how, depth + 1);
    put_json_text(text, key + (*key == whole_key), strlen(key + (*key == whole_key)), how);
    ch_text_puts(text, ": ");
    whole = put_json(text, json_object_get(object, key), how, depth + 1);
  }
  if (n > 0) put_line(text, how, depth);
  ch_text_puts(text, "}");
  json_decref(list);
  return whole;
}

static bool put_json(ch_text *text, const json_t *value, const ch_template_json *how, int depth) {
  if (value == ch_template_undefined()) return false;
  if (json_is_object(value)) return put_json_object(text, (json_t *)(uintptr_t)value, how, depth);
  if (json_is_array(value)) {
    bool whole = true;
    ch_text_puts(text, "[");
    for (size_t i = 0; whole && i < json_array_size(value); i++) {
      if (i) ch_text_puts(text, how->indent < 0 ? ", " : ",");
      put_line(text, how, depth + 1);
      whole = put_json(text, json_array_get(value, i), how, depth + 1);
    }
    if (json_array_size(value) > 0) put_line(text, how, depth);
    ch_text_puts(text, "]");
    return whole;
  }
  if (json_is_string(value))
    put_json_text(text, json_string_value(value), json_string_length(value), how);
  else if (json_is_integer(value))
    ch_text_printf(text, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    ch_json_put_number(text, json_real_value(value));
  else
    ch_text_puts(text, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
  return true;
}

bool ch_template_put_json(ch_text *text, const json_t *value, const ch_template_json *how) {
  return put_json(text, value, how, 0) && !text->failed;
}

/* --- elements ------------------------------------------------------------------------------------------- */

json_t *ch_template_elements(json_t *value, ch_error *error) {
  if (json_is_array(value)) return json_incref(value);
  json_t *list = json_array(), *field;
  const char *key;
  bool failed = !list;
  if (json_is_string(value)) {
    const unsigned char *p = (const unsigned char *)json_string_value(value),
                        *end = p + json_string_length(value);
    while (!failed && p < end) {
      uint32_t code;
      size_t size = ch_utf8_decode(p, end, &code);
      size += size == 0;
      failed = json_array_append_new(list, json_stringn((const char *)p, size)) != 0;
      p += size;
    }
  } else if (json_is_object(value)) {
    json_object_foreach(value, key, field) {
      if (!failed) failed = json_array_append_new(list, ch_template_key_value(key)) != 0;
    }
  } else if (value != ch_template_undefined() && !failed) {
    json_decref(list);
    ch_fail(error, CH_ERROR_FORMAT, "'for' needs a list, a string or an object");
    return NULL;
  }
  if (!failed) return list;
  json_decref(list);
  ch_no_memory(error);
  return NULL;
}
