/* Converts images to the numbers that a model reads, from -1 to 1. In training, images are also mirrored and
 * shifted. */
#ifndef CH_IMAGES_AUGMENT_H
#define CH_IMAGES_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ch_augmentation {
  bool flip; /* true if images are mirrored, left to right, with probability 1/2 */
  /* largest random shift of an image in each direction, in pixels; the border is black */
  int64_t crop;
} ch_augmentation;

/* Computes y [channels, times size, times size] = x / 127.5 - 1, as Hugging Face's image processors do. Each pixel of
   x [channels, size, size] is repeated `times` times down and across. */
void ch_image_normalise(const unsigned char *x, int64_t channels, int64_t size, int64_t times, float *y);
/* Like ch_image_normalise, for an augmented image. `crop` counts pixels of y. The random choices depend only on `seed`
   and `number`. */
void ch_image_augment(const unsigned char *x, int64_t channels, int64_t size, int64_t times,
                      const ch_augmentation *augmentation, uint64_t seed, uint64_t number, float *y);

#endif
