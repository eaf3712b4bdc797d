/* The tile producer that widens keys and values of 16 bits (or copies those of the table's own type). */
#include "tensor/kernels/lanes.h"
#include "tensor/kernels/halves.h"

static void convert_row(int64_t n, const void *data, ch_dtype dtype, int64_t at, real *out) {
  const uint16_t *halves = (const uint16_t *)data + at;
  if (dtype == CH_KERNEL_DTYPE)
    memcpy(out, (const real *)data + at, (size_t)n * sizeof(real));
  else if (dtype == CH_BF16)
    for (int64_t i = 0; i < n; i++) out[i] = (real)float_from_bf16(halves[i]);
  else
    for (int64_t i = 0; i < n; i++) out[i] = (real)float_from_f16(halves[i]);
}

/* Tiles [token, head, dim], the order of the memory, so that it is read from end to end. */
static ch_tile convert_part(const ch_state_view *part, const ch_tile_span *span, int64_t dim, real *out) {
  int64_t width = span->heads * dim;
  int64_t at = span->sequence * part->sequence_stride + span->first * part->token_stride + span->head * dim;
  for (int64_t t = 0; t < span->count; t++)
    convert_row(width, part->data, part->dtype, at + t * part->token_stride, out + t * width);
  return (ch_tile){.data = out, .stride = width, .head_stride = dim};
}

static void produce(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tile *keys,
                    ch_tile *values) {
  *keys = convert_part(&args->parts[0], span, args->key_dim, scratch);
  *values = convert_part(&args->parts[1], span, args->value_dim,
                         (real *)scratch + span->heads * span->count * args->key_dim);
}

static int64_t scratch_elements(const ch_attend *args, int64_t heads, int64_t count) {
  return heads * count * (args->key_dim + args->value_dim);
}

const ch_tile_producer KERNEL(convert_tiles) = {
    .name = "convert", .produce = produce, .scratch_elements = scratch_elements};
