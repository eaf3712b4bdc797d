/* States of streaming attention: reading tiles of keys and values of any type, and prefetching them. */
#ifndef CH_KERNELS_VECTOR_STORED_STATES_H
#define CH_KERNELS_VECTOR_STORED_STATES_H

#include "tensor/kernels/vector/quantised_blocks.h"

/* Loads one vector from element k of a row of `dtype` (a constant, or the call is slow); the row has `left`
   elements from there on. */
ALWAYS_INLINE vec load_state(const ch_dtype dtype, const char *row, int64_t k, int64_t left) {
  if (dtype == CH_F16) return load_f16((const uint16_t *)(const void *)row + k, left);
  if (dtype == CH_BF16) return load_bf16((const uint16_t *)(const void *)row + k, left);
  return load_some((const real *)(const void *)row + k, left);
}

static inline int64_t state_size(ch_dtype dtype) {
  return dtype == CH_F16 || dtype == CH_BF16 ? 2 : (int64_t)sizeof(real);
}

ALWAYS_INLINE bool is_block_quantised(const ch_dtype dtype) {
  return dtype == CH_Q8_0 || dtype == CH_Q4_0;
}

/* Returns the bytes of `elements`, in whole blocks for block-quantised types. */
ALWAYS_INLINE int64_t bytes_of(const ch_dtype dtype, int64_t elements) {
  return dtype == CH_Q8_0   ? elements / GROUP * 34
         : dtype == CH_Q4_0 ? elements / GROUP * 18
                            : elements * state_size(dtype);
}

/* Returns the address of row `token` of `head`. */
static inline const char *tile_row(const ch_tile *tile, int64_t head, int64_t token) {
  return (const char *)tile->data + bytes_of(tile->dtype, head * tile->head_stride + token * tile->stride);
}

ALWAYS_INLINE void widen_rows(const ch_dtype dtype, const ch_tile *tile, int64_t head, int64_t count,
                              int64_t dim, real *out, int64_t padded) {
  for (int64_t r = 0; r < count; r++) {
    const char *row = tile_row(tile, head, r);
    int64_t k = 0;
    for (; k + VL <= dim; k += VL) store(out + r * padded + k, load_state(dtype, row, k, VL));
    if (k < dim) store(out + r * padded + k, load_state(dtype, row, k, dim - k));
  }
}

/* Copies the rows of one head as reals in whole vectors, `padded` apart. */
static inline void put_rows(const ch_tile *tile, int64_t head, int64_t count, int64_t dim, real *out,
                            int64_t padded) {
  if (tile->dtype == CH_F16)
    widen_rows(CH_F16, tile, head, count, dim, out, padded);
  else if (tile->dtype == CH_BF16)
    widen_rows(CH_BF16, tile, head, count, dim, out, padded);
  else
    widen_rows(CH_KERNEL_DTYPE, tile, head, count, dim, out, padded);
}

/* Returns true if a column of vectors down the rows of a block fits in L1. With unsuitable strides, all rows
   fall into few sets of the cache. */
static inline bool is_spread(int64_t stride) {
  int64_t bytes = stride * (int64_t)sizeof(real);
  return bytes % 64 == 0 && bytes % 512 != 0;
}

/* Returns the rows of one head as reals: in place if possible, else in `space` [count, dim padded to whole
   vectors]. If `vectors`, whole vectors will be read from the rows; the rows must then be whole vectors and
   spread over the cache. */
static inline const real *head_rows(const ch_tile *tile, int64_t head, int64_t count, int64_t dim,
                                    bool vectors, real *space, int64_t *stride) {
  int64_t padded = (dim + VL - 1) / VL * VL;
  *stride = tile->stride;
  bool dense = dim == padded && (tile->stride == dim || is_spread(tile->stride));
  if (tile->dtype == CH_KERNEL_DTYPE && (!vectors || dense))
    return (const real *)(const void *)tile_row(tile, head, 0);
  *stride = padded;
  put_rows(tile, head, count, dim, space, padded);
  return space;
}

/* A block of one head's keys and values. */
typedef struct block_rows {
  const real *keys, *values;        /* values in whole vectors */
  int64_t key_stride, value_stride; /* elements between the beginnings of rows */
} block_rows;

/* Returns true if values are the first elements of the keys. They are then read and widened once. */
static inline bool is_shared(const ch_tiles *tiles) {
  const ch_tile *keys = &tiles->keys, *values = &tiles->values;
  return tiles->tail_dim == 0 && keys->data == values->data && keys->dtype == values->dtype &&
         keys->stride == values->stride && keys->head_stride == values->head_stride;
}

static inline block_rows read_block(const ch_tiles *tiles, int64_t key_dim, int64_t value_dim, int64_t head,
                                    int64_t count, real *key_space, real *value_space) {
  const ch_tile *keys = &tiles->keys, *values = &tiles->values;
  bool shared = is_shared(tiles) && value_dim <= key_dim;
  block_rows rows;
  if (tiles->tail_dim > 0) {
    rows.keys = key_space;
    rows.key_stride = (key_dim + VL - 1) / VL * VL;
    put_rows(keys, head, count, key_dim - tiles->tail_dim, key_space, rows.key_stride);
    put_rows(&tiles->tail, head, count, tiles->tail_dim, key_space + key_dim - tiles->tail_dim,
             rows.key_stride);
  } else
    rows.keys = head_rows(keys, head, count, key_dim, shared, key_space, &rows.key_stride);
  rows.values = rows.keys;
  rows.value_stride = rows.key_stride;
  if (!shared) rows.values = head_rows(values, head, count, value_dim, true, value_space, &rows.value_stride);
  return rows;
}

/* Prefetches `bytes` of memory into L2. It must be inlined early: GCC removes calls of a function that does
   nothing but prefetch as calls without effect. */
ALWAYS_INLINE void fetch(const char *memory, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(memory + i, 0, 2);
}

/* The prefetch distance of loops over states, in bytes. The loads are too far apart for the hardware
   prefetcher. */
enum { CH_FETCH_AHEAD = 4096 };

/* Rows of memory that will be read soon. Loops prefetch a share of them per step. Prefetching all of them at
   once would stall the loop. */
typedef struct upcoming {
  const char *rows;
  int64_t count, stride, bytes; /* count: rows (<= 0: none); stride: bytes between rows; bytes of a row */
} upcoming;

/* Returns rows first … first+count-1 of a head, for prefetching. They may be past the tile's last row if the
   tile continues in memory. */
static inline upcoming upcoming_rows(const ch_tile *tile, int64_t head, int64_t first, int64_t count,
                                     int64_t dim) {
  int64_t size = state_size(tile->dtype);
  return (upcoming){tile_row(tile, head, first), count, tile->stride * size, dim * size};
}

/* Returns rows first … end-1 [dim] of reals, for prefetching. */
static inline upcoming upcoming_part(const real *rows, int64_t first, int64_t end, int64_t stride,
                                     int64_t dim) {
  int64_t size = (int64_t)sizeof(real);
  return (upcoming){(const char *)(rows + first * stride), end - first, stride * size, dim * size};
}

ALWAYS_INLINE void fetch_share(const upcoming *next, int64_t part, int64_t parts) {
  if (next->count <= 0) return;
  int64_t end = next->count * (part + 1) / parts;
  for (int64_t r = next->count * part / parts; r < end; r++)
    fetch(next->rows + r * next->stride, next->bytes);
}

/* The memory that the next work will read, in pieces. Loops without prefetches of their own fetch pieces from
   here. */
typedef struct fetch_queue {
  upcoming piece[16];
  int count, taken;
} fetch_queue;

static inline void queue_piece(fetch_queue *queue, upcoming piece) {
  if (queue->count < 16) queue->piece[queue->count++] = piece;
}

static inline upcoming take_piece(fetch_queue *queue) {
  return queue->taken < queue->count ? queue->piece[queue->taken++] : (upcoming){0};
}

#endif
