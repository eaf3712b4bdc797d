/* Reads items from JSON: objects one after another (such as JSON lines), or one list of objects. */
#include <string.h>

#include "base/json.h"
#include "eval/tasks/items_private.h"

static int64_t lines_in(const char *from, const char *to) {
  int64_t lines = 0;
  while ((from = memchr(from, '\n', (size_t)(to - from)))) lines++, from++;
  return lines;
}

/* Fails for broken JSON. Jansson counts lines from the beginning of the value; `before` lines come before
 * it. */
static ch_status broken(const ch_item_reader *r, int64_t before, const json_error_t *why, ch_error *error) {
  char what[JSON_ERROR_TEXT_LENGTH];
  snprintf(what, sizeof what, "%s", why->text);
  for (char *c = what; *c; c++)
    if ((unsigned char)*c < ' ') *c = ' ';
  if (strstr(what, "JSON_ALLOW_NUL"))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s:%lld has a string with the character U+0000 (\\u0000), which is not allowed", r->path,
                   (long long)(before + (why->line > 0 ? why->line : 1)));
  return ch_fail(error, CH_ERROR_FORMAT, "%s:%lld is not valid JSON: %s", r->path,
                 (long long)(before + (why->line > 0 ? why->line : 1)), what);
}

static ch_status read_objects(ch_item_reader *r, const char *at, ch_error *error) {
  const char *end = r->text + r->size, *counted = r->text;
  int64_t line = 1;
  while (!ch_items_full(r)) {
    while (at < end && strchr(" \t\r\n", *at)) at++;
    if (at == end) break;
    line += lines_in(counted, at);
    counted = at;
    /* Jansson reads its whole input before it reports an error, so it gets one line at a time. */
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    json_error_t why;
    json_t *object = json_loadb(at, (size_t)((stop ? stop : end) - at), JSON_REJECT_DUPLICATES, &why);
    if (!object && stop) { /* an object may span several lines */
      json_error_t whole;
      object = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &whole);
      if (object) stop = at + whole.position;
    }
    if (!object) return broken(r, line - 1, &why, error);
    if (!json_is_object(object)) {
      json_decref(object);
      return ch_fail(error, CH_ERROR_FORMAT, "%s:%lld: an item must be a JSON object", r->path,
                     (long long)line);
    }
    CH_TRY(ch_items_add(r, object, line, error));
    at = stop ? stop : end;
  }
  return CH_OK;
}

/* Reads a JSON list. Errors name the element's number, because Jansson does not know the lines of
 * elements. */
static ch_status read_list(ch_item_reader *r, ch_error *error) {
  json_error_t why;
  json_t *list = json_loadb(r->text, r->size, JSON_REJECT_DUPLICATES, &why), *element;
  if (!list) return broken(r, 0, &why, error);
  size_t i;
  ch_status status = CH_OK;
  json_array_foreach(list, i, element) {
    if (ch_items_full(r) || status != CH_OK) break;
    if (!json_is_object(element))
      status =
          ch_fail(error, CH_ERROR_FORMAT, "%s: element %zu of the list is not a JSON object", r->path, i + 1);
    else
      status = ch_items_add(r, json_incref(element), (int64_t)i + 1, error);
  }
  if (status == CH_OK && json_array_size(list) == 0)
    status = ch_fail(error, CH_ERROR_FORMAT, "%s has no item: its list is empty", r->path);
  json_decref(list);
  return status;
}

ch_status ch_items_read_json(ch_item_reader *r, ch_error *error) {
  ch_text copy = {0};
  ch_item_reader of_copy = *r;
  if (ch_json_tolerate(r->text, r->size, &copy)) {
    if (copy.failed) {
      ch_text_free(&copy);
      return ch_no_memory(error);
    }
    of_copy.text = copy.data;
    of_copy.size = copy.size;
  }
  const char *at = of_copy.text;
  while (strchr(" \t\r\n", *at)) at++;
  ch_status status = *at == '[' ? read_list(&of_copy, error) : read_objects(&of_copy, at, error);
  ch_text_free(&copy);
  return status;
}
