/* Counts the work of filling a template against the limits, and records the errors of a filling. */
#include <stdint.h>

#include "template/template_private.h"

bool ch_template_spend(ch_template_scope *scope, size_t bytes, ch_error *error) {
  if (bytes <= (size_t)CH_TEMPLATE_BYTES) scope->bytes += (int64_t)bytes;
  if (bytes <= (size_t)CH_TEMPLATE_BYTES && scope->bytes <= CH_TEMPLATE_BYTES) return true;
  ch_fail(error, CH_ERROR_FORMAT,
          "for one item it reads more than %d MiB of strings and lists; shorten its loops or strings",
          CH_TEMPLATE_BYTES >> 20);
  return false;
}

bool ch_template_fits(size_t bytes, ch_error *error) {
  if (bytes <= (size_t)CH_TEMPLATE_TEXT) return true;
  ch_fail(error, CH_ERROR_FORMAT, "a string exceeds %d MiB; build it from shorter parts",
          CH_TEMPLATE_TEXT >> 20);
  return false;
}

/* The number of elements of a value's lists and objects, and the bytes of its texts. */
typedef struct measure {
  size_t elements, bytes;
} measure;

static bool measure_value(const json_t *value, int depth, measure *m, ch_error *error);

static bool measure_element(const json_t *value, int depth, measure *m, ch_error *error) {
  if (++m->elements > CH_TEMPLATE_ELEMENTS) {
    ch_fail(error, CH_ERROR_FORMAT, "a list exceeds %d elements; use fewer", CH_TEMPLATE_ELEMENTS);
    return false;
  }
  return measure_value(value, depth + 1, m, error);
}

/* Measures a value. Stops at the limits of depth and of elements, because lists may contain each other many times. */
static bool measure_value(const json_t *value, int depth, measure *m, ch_error *error) {
  if (depth > CH_TEMPLATE_NESTING) {
    ch_fail(error, CH_ERROR_FORMAT, "lists are nested more than %d deep; use flatter ones",
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

/* --- errors and steps of a filling ---------------------------------------------------------------------- */

json_t *ch_template_wrong(ch_template_filling *f, ch_status status, const char *what) {
  if (f->status == CH_OK) f->status = ch_fail(f->error, status, "%s: %s", f->template->where, what);
  return NULL;
}

json_t *ch_template_no_memory(ch_template_filling *f) {
  if (f->status == CH_OK) f->status = ch_no_memory(f->error);
  return NULL;
}

json_t *ch_template_wrong_in(ch_template_filling *f) {
  if (f->status != CH_OK) return NULL;
  if (f->error->status == CH_OK) return ch_template_no_memory(f);
  f->status = ch_fail_in(f->error, f->template->where);
  return NULL;
}

bool ch_template_step(ch_template_filling *f) {
  if (f->scope->steps++ < CH_TEMPLATE_STEPS) return true;
  ch_fail(f->error, CH_ERROR_FORMAT, "%s: it needs more than %d steps for one item; shorten its loops",
          f->template->where, CH_TEMPLATE_STEPS);
  f->status = CH_ERROR_FORMAT;
  return false;
}
