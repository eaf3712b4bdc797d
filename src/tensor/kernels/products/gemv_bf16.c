/* Skinny GEMM with x and W of BF16, by BF16 dot products: y = x W^T. */
#include <omp.h>

#include "tensor/kernels/products/skinny_gemm.h"

#ifdef __AVX512BF16__
enum { PREFETCH_FIRST = 12 << 10 }; /* bytes of weights to prefetch while x is packed */

/* Packs x tile by tile, step by step: one line of each row of the tile. Zeros fill the last lines. */
static void pack(const skinny_call *c, char *to) {
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

/* This function is not inlined, so that its loops have all registers. */
static __attribute__((noinline)) void gemv_some(const skinny_call *call, int64_t first, int64_t last) {
  skinny_range(SKINNY_BF16_DOT, call, first, last);
}

/* Computes this thread's share of the products. If x has several rows, every thread packs them: reading x
   from another core's cache would be slower. */
static void gemv_range(const skinny_call *call, char *room, const ch_product *products, int64_t first,
                       int64_t last) {
  skinny_call mine = *call;
  product_part part;
  int64_t begin = first;
  if (call->rows > 1 && take_part(products, 1, &begin, last, &part)) {
    const char *weight = (const char *)part.product->weight + (size_t)part.first * call->weight_bytes;
    const size_t bytes = (size_t)(part.last - part.first) * call->weight_bytes;
    for (size_t at = 0; at < bytes && at < PREFETCH_FIRST; at += LINE) __builtin_prefetch(weight + at);
    room += (size_t)omp_get_thread_num() * ch_gemv_room(call->rows, call->in);
    pack(call, room);
    mine.packed = room;
  }
  while (take_part(products, 1, &first, last, &part)) {
    const skinny_call own = skinny_call_of(&mine, part.product);
    skinny_prefetch_after(call, &part);
    gemv_some(&own, part.first, part.last);
  }
}

void KERNEL(gemv_bf16)(const ch_team *team, int64_t rows, int64_t in, const uint16_t *x, void *room,
                       int count, const ch_product *products, bool accumulate) {
  const skinny_call call = {.rows = rows,
                            .in = in,
                            .x = (const char *)x,
                            .x_bytes = (size_t)in * sizeof *x,
                            .weight_bytes = (size_t)in * sizeof(uint16_t),
                            .accumulate = accumulate};
  FOR_RANGE(units_of_products(count, products, 1), share_products(rows, in, count, products),
            gemv_range(&call, room, products, first, last));
}
#endif
