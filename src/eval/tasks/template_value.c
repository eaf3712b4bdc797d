/* A value as text, and as a condition. */
#include "base/json.h"
#include "base/text.h"
#include "eval/tasks/template_private.h"

bool ch_template_true(const json_t *value) {
  if (json_is_string(value)) return json_string_length(value) > 0;
  if (json_is_integer(value)) return json_integer_value(value) != 0;
  if (json_is_real(value)) return json_real_value(value) != 0;
  if (json_is_array(value)) return json_array_size(value) > 0;
  if (json_is_object(value)) return json_object_size(value) > 0;
  return json_is_true(value);
}

json_t *ch_template_text(const json_t *value, ch_error *error) {
  ch_text text = {0};
  json_t *result = NULL;
  if (json_is_string(value)) return json_stringn(json_string_value(value), json_string_length(value));
  if (json_is_integer(value))
    ch_text_printf(&text, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    ch_json_put_number(&text, json_real_value(value));
  else if (json_is_boolean(value) || json_is_null(value))
    ch_text_puts(&text, json_is_null(value) ? "None" : json_is_true(value) ? "True" : "False");
  else {
    ch_fail(error, CH_ERROR_FORMAT, "a list or an object stands where text is wanted");
    return NULL;
  }
  if (!text.failed) result = json_stringn(text.data, text.size);
  if (!result) ch_fail(error, CH_ERROR_MEMORY, "no memory for a text");
  ch_text_free(&text);
  return result;
}
