/* Bytes to numbers, one line of an image after the other. */
#include "images/augment.h"

#include "base/random.h"

static const float scale = 1 / 127.5f, black = -1;

/* One line of an image, moved to the right by `shift` and then mirrored; what comes from outside is black. */
static void put_line(const unsigned char *x, int64_t size, int64_t shift, bool mirror, float *y) {
  for (int64_t i = 0; i < size; i++) {
    int64_t from = (mirror ? size - 1 - i : i) - shift;
    y[i] = from >= 0 && from < size ? (float)x[from] * scale + black : black;
  }
}

static void put(const unsigned char *x, int64_t channels, int64_t size, int64_t down, int64_t right,
                bool mirror, float *y) {
  for (int64_t c = 0; c < channels; c++)
    for (int64_t line = 0; line < size; line++, y += size) {
      int64_t from = line - down;
      if (from >= 0 && from < size)
        put_line(x + (c * size + from) * size, size, right, mirror, y);
      else
        for (int64_t i = 0; i < size; i++) y[i] = black;
    }
}

void ch_image_normalise(const unsigned char *x, int64_t channels, int64_t size, float *y) {
  for (int64_t i = 0; i < channels * size * size; i++) y[i] = (float)x[i] * scale + black;
}

void ch_image_augment(const unsigned char *x, int64_t channels, int64_t size,
                      const ch_augmentation *augmentation, uint64_t seed, uint64_t number, float *y) {
  ch_random random;
  uint64_t places = 2 * (uint64_t)augmentation->crop + 1;
  ch_random_seed(&random, seed, number);
  bool mirror = augmentation->flip && ch_random_below(&random, 2);
  int64_t down = (int64_t)ch_random_below(&random, places) - augmentation->crop;
  int64_t right = (int64_t)ch_random_below(&random, places) - augmentation->crop;
  put(x, channels, size, down, right, mirror, y);
}
