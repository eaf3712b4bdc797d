/* Converts bytes to numbers, line by line, and mirrors and shifts images. */
#include "images/augment.h"

#include "base/random.h"

static const float scale = 1 / 127.5f, black = -1;

/* An image [channels, size, size] with repeated pixels, so that its side is `side`. */
typedef struct source {
  const unsigned char *x;
  int64_t channels, size, times, side;
} source;

/* Converts one line of an image, shifted to the right by `shift` and then mirrored. Pixels outside the image are
 * black. */
static void put_line(const unsigned char *x, const source *from, int64_t shift, bool mirror, float *y) {
  for (int64_t i = 0; i < from->side; i++) {
    int64_t at = (mirror ? from->side - 1 - i : i) - shift;
    y[i] = at >= 0 && at < from->side ? (float)x[at / from->times] * scale + black : black;
  }
}

static void put(const source *from, int64_t down, int64_t right, bool mirror, float *y) {
  for (int64_t c = 0; c < from->channels; c++)
    for (int64_t line = 0; line < from->side; line++, y += from->side) {
      int64_t at = line - down;
      if (at >= 0 && at < from->side)
        put_line(from->x + (c * from->size + at / from->times) * from->size, from, right, mirror, y);
      else
        for (int64_t i = 0; i < from->side; i++) y[i] = black;
    }
}

void ch_image_normalise(const unsigned char *x, int64_t channels, int64_t size, int64_t times, float *y) {
  const source from = {x, channels, size, times, size * times};
  put(&from, 0, 0, false, y);
}

void ch_image_augment(const unsigned char *x, int64_t channels, int64_t size, int64_t times,
                      const ch_augmentation *augmentation, uint64_t seed, uint64_t number, float *y) {
  const source from = {x, channels, size, times, size * times};
  ch_random random;
  uint64_t places = 2 * (uint64_t)augmentation->crop + 1;
  ch_random_seed(&random, seed, number);
  bool mirror = augmentation->flip && ch_random_below(&random, 2);
  int64_t down = (int64_t)ch_random_below(&random, places) - augmentation->crop;
  int64_t right = (int64_t)ch_random_below(&random, places) - augmentation->crop;
  put(&from, down, right, mirror, y);
}
