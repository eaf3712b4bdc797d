/* Helpers of the tests of image files: temporary directories, and files in them. */
#ifndef IMAGES_TESTING_H
#define IMAGES_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "images/image_set.h"

enum { CIFAR_RECORD = 3073, CIFAR100_RECORD = 3074 };

static ch_error failure;

static inline void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", failure.message);
}

/* Asserts that a call failed with a one-line message that contains `words`. */
static inline void assert_refused(ch_status status, const char *words) {
  if (status == CH_OK || status != failure.status || !strstr(failure.message, words) ||
      strchr(failure.message, '\n'))
    fail_msg("status %d, \"%s\" where a message with \"%s\" is needed", status, failure.message, words);
}

static char scratch[256];

static inline const char *new_directory(void) {
  snprintf(scratch, sizeof scratch, "%s/crosshead-images-XXXXXX",
           getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  assert_non_null(mkdtemp(scratch));
  return scratch;
}

static inline const char *path_in(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", scratch, name);
  return path;
}

static inline void put_file(const char *name, const void *data, size_t size) {
  must(ch_write_file(path_in(name), data, size, &failure));
}

static inline void remove_directory(void) {
  char command[512];
  snprintf(command, sizeof command, "rm -r '%s'", scratch);
  assert_int_equal(system(command), 0);
}

/* Returns `count` CIFAR records. Image i has the pixels i + channel and the label i % 10. If `labels` is 2, image i
   has the coarse label i % 20 and the label i % 100. */
static inline unsigned char *make_cifar(int count, int labels) {
  size_t record = (size_t)labels + 3072;
  unsigned char *data = malloc((size_t)count * record);
  assert_non_null(data);
  for (int i = 0; i < count; i++) {
    unsigned char *at = data + (size_t)i * record;
    if (labels == 2) at[0] = (unsigned char)(i % 20);
    at[labels - 1] = (unsigned char)(labels == 2 ? i % 100 : i % 10);
    for (int c = 0; c < 3; c++) memset(at + labels + 1024 * c, i + c, 1024);
  }
  return data;
}

static inline void put_big_endian(unsigned char *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Returns an IDX file of images of size x size, in which all pixels are the image's index. *bytes receives the size
   of the file. */
static inline unsigned char *make_idx_images(int count, int size, size_t *bytes) {
  *bytes = 16 + (size_t)(count * size * size);
  unsigned char *data = malloc(*bytes);
  assert_non_null(data);
  put_big_endian(data, 0x803), put_big_endian(data + 4, (uint32_t)count);
  put_big_endian(data + 8, (uint32_t)size), put_big_endian(data + 12, (uint32_t)size);
  for (int i = 0; i < count; i++) memset(data + 16 + i * size * size, i, (size_t)(size * size));
  return data;
}

static inline unsigned char *make_idx_labels(int count, int classes, size_t *bytes) {
  *bytes = 8 + (size_t)count;
  unsigned char *data = malloc(*bytes);
  assert_non_null(data);
  put_big_endian(data, 0x801), put_big_endian(data + 4, (uint32_t)count);
  for (int i = 0; i < count; i++) data[8 + i] = (unsigned char)(i % classes);
  return data;
}

#endif
