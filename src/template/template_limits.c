/* Templates: counting the work of a filling against its limits. */
#include <stdint.h>

#include "template/template_private.h"

bool ch_template_spend(ch_template_scope *scope, size_t bytes, ch_error *error) {
  if (bytes <= (size_t)CH_TEMPLATE_BYTES) scope->bytes += (int64_t)bytes;
  if (bytes <= (size_t)CH_TEMPLATE_BYTES && scope->bytes <= CH_TEMPLATE_BYTES) return true;
  ch_fail(
      error, CH_ERROR_FORMAT,
      "for one item it goes through more than %d MiB of texts and lists; make its loops or its texts shorter",
      CH_TEMPLATE_BYTES >> 20);
  return false;
}

bool ch_template_fits(size_t bytes, ch_error *error) {
  if (bytes <= (size_t)CH_TEMPLATE_TEXT) return true;
  ch_fail(error, CH_ERROR_FORMAT, "a text grows beyond %d MiB; make it from shorter parts",
          CH_TEMPLATE_TEXT >> 20);
  return false;
}

/* What the lists and objects of a value hold. */
typedef struct measure {
  size_t elements, bytes;
} measure;

static bool measure_value(const json_t *value, int depth, measure *m, ch_error *error);

static bool measure_element(const json_t *value, int depth, measure *m, ch_error *error) {
  if (++m->elements > CH_TEMPLATE_ELEMENTS) {
    ch_fail(error, CH_ERROR_FORMAT, "a list grows beyond %d elements; make it from fewer",
            CH_TEMPLATE_ELEMENTS);
    return false;
  }
  return measure_value(value, depth + 1, m, error);
}

/* Goes down no deeper than the limit, and ends at the first element beyond the other one: lists may hold each other
   many times over. */
static bool measure_value(const json_t *value, int depth, measure *m, ch_error *error) {
  if (depth > CH_TEMPLATE_NESTING) {
    ch_fail(error, CH_ERROR_FORMAT,
            "lists are nested more than %d deep; a list of texts is enough for a prompt",
            CH_TEMPLATE_NESTING);
    return false;
  }
  m->bytes += json_string_length(value);
  for (size_t i = 0; i < json_array_size(value); i++)
    if (!measure_element(json_array_get(value, i), depth, m, error)) return false;
  const char *key;
  json_t *field;
  json_object_foreach((json_t *)(uintptr_t)value, key, field) {
    if (!measure_element(field, depth, m, error)) return false;
  }
  return true;
}

bool ch_template_spend_value(ch_template_scope *scope, const json_t *value, ch_error *error) {
  measure m = {0};
  return measure_value(value, 0, &m, error) &&
         ch_template_spend(scope, m.bytes + m.elements * CH_TEMPLATE_ELEMENT_BYTES, error);
}
