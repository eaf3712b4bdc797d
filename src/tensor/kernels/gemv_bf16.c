/* Few rows times a matrix, both of BF16, by instructions that multiply pairs: y = x W^T. */
#include <omp.h>

#include "tensor/kernels/few_rows.h"

#ifdef __AVX512BF16__
enum { ASKED_FIRST = 12 << 10 }; /* bytes of weights that come while x is packed */

/* Tile by tile, step by step: a line of each of a tile's rows; zeros fill the last ones. */
static void pack(const few_call *c, char *to) {
  const int64_t line = LINE / (int64_t)sizeof(uint16_t);
  for (int64_t first = 0; first < c->rows; first += GROUP) {
    const int64_t rows = c->rows - first < GROUP ? c->rows - first : GROUP;
    for (int64_t i = 0; i < c->in; i += line)
      for (int64_t r = 0; r < rows; r++, to += LINE) {
        const char *row = c->x + (size_t)(first + r) * c->x_bytes;
        store((real *)(void *)to, load_pairs(row + (size_t)i * sizeof(uint16_t), c->in - i));
      }
  }
}

/* Every thread packs x for itself: another core's cache is farther than the work is long. */
static void gemv_range(const few_call *call, char *room, int64_t first, int64_t last) {
  few_call mine = *call;
  if (call->rows > 1) {
    const char *weight = call->weight + (size_t)first * call->weight_bytes;
    const size_t bytes = (size_t)(last - first) * call->weight_bytes;
    for (size_t at = 0; at < bytes && at < ASKED_FIRST; at += LINE) __builtin_prefetch(weight + at);
    room += (size_t)omp_get_thread_num() * ch_gemv_room(call->rows, call->in);
    pack(call, room);
    mine.packed = room;
  }
  few_range(FEW_PAIRS, &mine, first, last);
}

void KERNEL(gemv_bf16)(int64_t rows, int64_t in, int64_t out, const uint16_t *x, const uint16_t *weight,
                       const void *bias, void *room, void *y, bool accumulate) {
  const few_call call = {.rows = rows,
                         .in = in,
                         .out = out,
                         .x = (const char *)x,
                         .weight = (const char *)weight,
                         .x_bytes = (size_t)in * sizeof *x,
                         .weight_bytes = (size_t)in * sizeof *weight,
                         .bias = bias,
                         .y = y,
                         .accumulate = accumulate};
  FOR_RANGE(out, rows * in * out >= CH_PARALLEL_ELEMENTS, gemv_range(&call, room, first, last));
}
#endif
