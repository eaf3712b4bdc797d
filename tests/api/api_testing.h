/* Helpers for tests of libcrosshead-train's public functions: a model, a temporary directory, readers of
 * JSON and a progress callback. */
#ifndef TESTS_API_API_TESTING_H
#define TESTS_API_API_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include <crosshead/crosshead.h>
#include <crosshead/crosshead_train.h>

#define MODEL TEST_DATA "/TinyStories-656K"

static ch_error error;
static char work[] = "/tmp/crosshead-api-XXXXXX";

static inline void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static inline int make_work(void **state) {
  (void)state;
  return mkdtemp(work) ? 0 : -1;
}

static inline int remove_work(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", work);
  return system(command) == 0 ? 0 : -1;
}

/* Returns WORK/NAME, valid for the next three calls. */
static inline const char *at(const char *name) {
  static char paths[4][256];
  static int next;
  char *path = paths[next = (next + 1) % 4];
  snprintf(path, sizeof paths[0], "%s/%s", work, name);
  return path;
}

static inline bool is_there(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

static inline void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
}

/* Parses a result and frees it. */
static inline json_t *read_json(char *text) {
  json_t *object = json_loads(text, 0, NULL);
  assert_non_null(object);
  ch_free(text);
  return object;
}

static inline double number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("%s is no number", key);
  return json_number_value(value);
}

static inline const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  if (!text) fail_msg("%s is no text", key);
  return text;
}

/* The state of watch_progress, which cancels from call `cancel_at` on (0: never, and `calls` is not counted). `last`
   and `total` are the arguments of the last call. */
typedef struct progress_watch {
  int64_t calls, cancel_at, last, total;
} progress_watch;

static inline bool watch_progress(int64_t done, int64_t total, void *user) {
  progress_watch *w = user;
  assert_true(done >= 0 && done <= total && total > 0);
  w->last = done;
  w->total = total;
  return !w->cancel_at || ++w->calls < w->cancel_at;
}

#endif
