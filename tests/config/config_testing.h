/* Shared by tests of configurations: texts with one value changed, and checks of messages. */
#ifndef CONFIG_TESTING_H
#define CONFIG_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "config/config.h"
#include "config_file/config_json.h"

/* Returns `base` with the value at `path` ("attention.type") replaced by the JSON text `value`, or removed if `value`
   is NULL (malloc'd). */
static inline char *changed(const char *base, const char *path, const char *value) {
  json_t *root = json_loads(base, 0, NULL), *object = root;
  assert_non_null(root);
  const char *name = path;
  for (const char *dot; (dot = strchr(name, '.')); name = dot + 1) {
    char part[64];
    snprintf(part, sizeof part, "%.*s", (int)(dot - name), name);
    if (!json_is_object(json_object_get(object, part))) json_object_set_new(object, part, json_object());
    object = json_object_get(object, part);
  }
  if (value) {
    json_t *new = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(new);
    json_object_set_new(object, name, new);
  } else
    json_object_del(object, name);
  char *text = json_dumps(root, 0);
  json_decref(root);
  return text;
}

/* Asserts that a text is refused with a one-line error that names the file and contains `words`. */
static inline void assert_refused(const char *text, const char *words) {
  ch_config config;
  ch_error error = {0};
  ch_status status = ch_config_parse(text, "dir/config.json", &config, &error);
  if (status == CH_OK || !strstr(error.message, words) || !strstr(error.message, "dir/config.json") ||
      strchr(error.message, '\n'))
    fail_msg("status %d, \"%s\" where a message with \"%s\" is needed, for %s", status, error.message, words,
             text);
  assert_true(status == CH_ERROR_CONFIG || status == CH_ERROR_FORMAT);
  assert_int_equal(error.status, status);
}

static inline void read_changed(const char *base, const char *path, const char *value, ch_config *config) {
  char *text = changed(base, path, value);
  ch_error error;
  if (ch_config_parse(text, "config.json", config, &error) != CH_OK)
    fail_msg("%s for %s", error.message, text);
  free(text);
}

#endif
