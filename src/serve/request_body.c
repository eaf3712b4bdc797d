/* Parses request bodies with jansson. Jansson limits depth and numbers but not memory, so the memory that
   the values need is estimated first. */
#include "serve/request_body.h"

#include "base/json.h"

/* Memory of each kind of value with jansson and glibc, in bytes; and the deepest nesting that jansson
   accepts. */
enum { SCALAR = 48, LIST = 160, OBJECT = 288, MEMBER = 80, DEEPEST = JSON_PARSER_MAX_DEPTH };

/* Counts brackets, commas and colons outside strings. */
size_t ch_body_estimate(const char *text, size_t size) {
  size_t bytes = size + SCALAR, depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (quoted) {
      if (c == '\\')
        i++;
      else
        quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c == ',')
      bytes += SCALAR;
    else if (c == '[')
      bytes += LIST;
    else if (c == '{')
      bytes += OBJECT;
    else if (c == ':')
      bytes += MEMBER;
    if (c == '[' || c == '{')
      depth++;
    else if ((c == ']' || c == '}') && depth > 0)
      depth--;
    if (depth > DEEPEST) return SIZE_MAX;
  }
  return bytes;
}

bool ch_body_parse(const char *text, size_t size, size_t most, json_t **object, ch_refusal *refusal) {
  *object = NULL;
  size_t bytes = ch_body_estimate(text, size);
  if (bytes == SIZE_MAX)
    return ch_refuse(refusal, 400, "invalid_json", NULL, "The body nests more than %d lists and objects.",
                     DEEPEST);
  if (bytes > most)
    return ch_refuse(refusal, 413, "body_too_large", NULL,
                     "The body holds too many values; send fewer or shorter lists in one request.");
  json_error_t why;
  json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
  if (!root && json_error_code(&why) == json_error_out_of_memory) return ch_refuse_memory(refusal);
  if (!root) {
    /* jansson quotes the input verbatim, so unprintable bytes are replaced */
    char shown[sizeof why.text];
    size_t used = 0;
    for (const char *p = why.text; *p; p++) shown[used++] = *p >= ' ' && *p < 127 ? *p : '?';
    shown[used] = 0;
    return ch_refuse(refusal, 400, "invalid_json", NULL,
                     "The body is not valid JSON: %s (line %d, column %d); send one JSON object.", shown,
                     why.line > 0 ? why.line : 1, why.column > 0 ? why.column : 0);
  }
  if (!json_is_object(root)) {
    json_decref(root);
    return ch_refuse(refusal, 400, "invalid_json", NULL,
                     "The body is JSON but not an object; send one object, like {\"prompt\": \"Once\"}.");
  }
  *object = root;
  return true;
}

json_t *ch_body_member(const json_t *object, const char *name) {
  json_t *value = json_object_get(object, name);
  return json_is_null(value) ? NULL : value;
}
