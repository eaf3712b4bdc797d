/* Reads the keys and values of a task's description. */
#include "eval/tasks/task_reading.h"

#include <string.h>

#include "base/json.h"

void *ch_task_wrong(ch_task_reader *r, const char *key, const char *what) {
  if (r->status == CH_OK)
    r->status = ch_fail(r->error, CH_ERROR_CONFIG, "%s: \"%s\" %s", r->where, key, what);
  return NULL;
}

void ch_task_check_keys(ch_task_reader *r, const json_t *object, const char *const *known) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)object, key, value) {
    bool found = false;
    for (int i = 0; known[i]; i++) found |= strcmp(known[i], key) == 0;
    if (found) continue;
    const char *near = ch_nearest_name(key, known);
    char quoted[80], what[200];
    ch_json_quote(key, quoted, sizeof quoted);
    snprintf(what, sizeof what, "is not known%s%s%s", near ? "; did you mean \"" : "", near ? near : "",
             near ? "\"?" : "");
    if (r->status == CH_OK)
      r->status = ch_fail(r->error, CH_ERROR_CONFIG, "%s: %s %s", r->where, quoted, what);
    return;
  }
}

const char *ch_task_text(ch_task_reader *r, const json_t *object, const char *key, const char *otherwise) {
  json_t *value = json_object_get(object, key);
  if (!value && otherwise) return otherwise;
  if (!json_is_string(value)) return ch_task_wrong(r, key, value ? "must be a string" : "is missing");
  return json_string_value(value);
}

const json_t *ch_task_names(ch_task_reader *r, const json_t *object, const char *key, bool needed) {
  json_t *value = json_object_get(object, key), *element;
  size_t i;
  if (!value && !needed) return NULL;
  if (json_array_size(value) == 0) return ch_task_wrong(r, key, "must be a list of names");
  json_array_foreach(value, i, element) if (!json_is_string(element)) return ch_task_wrong(
      r, key, "must be a list of names");
  return value;
}

int64_t ch_task_count(ch_task_reader *r, const json_t *object, const char *key, int64_t otherwise,
                      int64_t least, int64_t most) {
  const json_t *value = json_object_get(object, key);
  int64_t count;
  char what[120];
  if (!value) return otherwise;
  if (ch_json_whole(value, &count) && count >= least && count <= most) return count;
  snprintf(what, sizeof what, "must be a whole number from %lld to %lld", (long long)least, (long long)most);
  ch_task_wrong(r, key, what);
  return otherwise;
}

bool ch_task_flag(ch_task_reader *r, const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (value && !json_is_boolean(value)) ch_task_wrong(r, key, "must be true or false");
  return json_is_true(value);
}
