/* Square patches of images, each flattened to a row: channel by channel, line by line. */
#include "tensor/kernels/vector/variant.h"

/* Copies rows first … last-1 of the patches of all images. */
static void take_patches(int64_t first, int64_t last, int64_t channels, int64_t size, int64_t patch,
                         const float *x, real *y) {
  int64_t side = size / patch, each = side * side;
  for (int64_t r = first; r < last; r++) {
    const float *corner = x + r / each * channels * size * size + (r % each / side * size + r % side) * patch;
    for (int64_t c = 0; c < channels; c++)
      for (int64_t line = 0; line < patch; line++)
        for (int64_t i = 0; i < patch; i++) *y++ = (real)corner[(c * size + line) * size + i];
  }
}

void KERNEL(patches)(const ch_team *team, int64_t images, int64_t channels, int64_t size, int64_t patch,
                     const float *x, void *y) {
  int64_t side = size / patch, rows = images * side * side, width = channels * patch * patch;
  FOR_RANGE(rows, rows * width >= CH_PARALLEL_ELEMENTS,
            take_patches(first, last, channels, size, patch, x, (real *)y + first * width));
}
