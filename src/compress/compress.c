/* Releasing what a method made. */
#include "compress/compress.h"

#include <stdlib.h>

void ch_compressed_free(ch_compressed *compressed) {
  ch_restated_free(&compressed->model);
  free(compressed->matrices);
  *compressed = (ch_compressed){0};
}
