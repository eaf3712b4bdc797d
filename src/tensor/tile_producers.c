/* The tile producer for states that are keys and values. */
#include "tensor/tile_producers.h"

static ch_tile tile_in_place(const ch_state_view *part, const ch_tile_span *span, int64_t dim) {
  int64_t head_stride = ch_head_stride(part, dim);
  int64_t at = ch_state_at(part, span->sequence, span->first) + span->head * head_stride;
  return (ch_tile){.data = (const char *)part->data + at * (int64_t)ch_dtype_size(part->dtype),
                   .dtype = part->dtype,
                   .stride = part->token_stride,
                   .head_stride = head_stride};
}

static void produce_dense(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles) {
  (void)scratch;
  *tiles = (ch_tiles){.keys = tile_in_place(&args->parts[0], span, args->key_dim),
                      .values = tile_in_place(&args->parts[1], span, args->value_dim)};
}

int64_t ch_tile_no_scratch(const ch_attend *args, int64_t heads, int64_t count) {
  (void)args, (void)heads, (void)count;
  return 0;
}

const ch_tile_producer ch_tile_producer_dense = {
    .name = "dense", .produce = produce_dense, .scratch_elements = ch_tile_no_scratch};
