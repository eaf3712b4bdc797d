/* Fuzz target: image files and files of labels, compressed or not. All labels and pixels of an accepted file must be
 * inside its bytes. */
#include <stdint.h>
#include <stdlib.h>

#include "images/image_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the input as an image file. */
static void read_file(const ch_file_bytes *bytes) {
  ch_image_file file;
  ch_error error = {0};
  ch_status status = ch_image_file_parse(bytes->data, bytes->size, "input", &file, &error);
  if (status != CH_OK) {
    if (status != error.status || !error.message[0]) abort();
    return;
  }
  unsigned sum = 0;
  for (int64_t i = 0; i < file.count; i++) {
    const unsigned char *pixels = file.pixels + i * file.pixel_stride;
    for (int64_t k = 0; k < file.channels * file.size * file.size; k++) sum += pixels[k];
    if (file.labels) sum += file.labels[i * file.label_stride];
    if (file.coarse && file.coarse[i * file.label_stride] >= 20) abort();
  }
  if (file.format != CH_IMAGES_IDX && !file.labels) abort();
  if (sum > 0 && file.count < 1) abort();
}

static void read_labels(const ch_file_bytes *bytes) {
  ch_image_file file = {.format = CH_IMAGES_IDX, .count = 3, .channels = 1, .size = 1};
  unsigned sum = 0;
  if (ch_image_file_take_labels(bytes->data, bytes->size, "input", &file, NULL) != CH_OK) return;
  for (int64_t i = 0; i < file.count; i++) sum += file.labels[i * file.label_stride];
  if (sum > 3 * 255) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ch_file_bytes bytes;
  ch_error error = {0};
  ch_status status = ch_file_bytes_of(data, size, "input", &bytes, &error);
  if (status == CH_OK) {
    read_file(&bytes);
    read_labels(&bytes);
  } else if (status != error.status)
    abort();
  ch_file_bytes_close(&bytes);
  return 0;
}
