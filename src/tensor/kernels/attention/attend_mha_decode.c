/* MHA decode: attention with one column per key-value head. It is bound by memory alone, so states are read
 * in exactly their order in memory, token by token, head by head. The hardware prefetcher works best this
 * way, and software prefetches cover what it misses.
 *
 * States are read in units of 32 elements. For CH_Q8_0 and CH_Q4_0 a unit is a whole block, and its scale is
 * applied once per sum. For BF16 each 32-bit lane holds two elements: masking the lower bits makes an F32 of
 * the upper one, and a shift makes one of the lower one. This halves the instructions for widening. Queries
 * and sums are then split too: every 2 VL elements are stored as those at even places, then those at odd
 * places. */
#include "tensor/kernels/attention/attend_mha_decode.h"

#include "tensor/kernels/vector/prefetch.h"

/* Prefetch distances in bytes: AHEAD is the far distance, NEARER the near distance, and WIDE_AHEAD the
   distance for states of the kernel table's own type. Values of that type are prefetched only in a block's
   last tokens; the hardware prefetcher keeps up with the others. */
enum { AHEAD = 12 * 1024, NEARER = 2 * 1024, WIDE_AHEAD = 4 * 1024 };

enum { UNIT = GROUP, UNIT_VECTORS = UNIT / VL };

static inline bool is_wide(const ch_dtype dtype) {
  return dtype == CH_KERNEL_DTYPE;
}

/* --- split rows ----------------------------------------------------------------------------------------- */

#ifndef CH_KERNEL_F64
static inline bool can_split(ch_dtype dtype, int64_t dim) {
  return dtype == CH_BF16 && dim % UNIT == 0;
}

/* Returns the elements of a row that are in whole units. */
static inline int64_t split_part(int64_t dim) {
  return dim / UNIT * UNIT;
}

#define LOWER_LANE(lane, unit) ((lane) / 2 + (lane) % 2 * VL + 0 * (unit))
#define UPPER_LANE(lane, unit) ((lane) / 2 + (lane) % 2 * VL + VL / 2 + 0 * (unit))

/* Reorders [elements] to [even, odd]. join_rows reverses it. */
static void split_rows(int64_t n, const real *x, real *y) {
  for (int64_t i = 0; i < n; i += 2 * VL) store_split(y + i, load(x + i), load(x + i + VL));
}

static void join_rows(int64_t n, real *x) {
  for (int64_t i = 0; i < n; i += 2 * VL) {
    vec a = load(x + i), b = load(x + i + VL);
    store(x + i, SHUFFLE(a, b, LOWER_LANE, 0));
    store(x + i + VL, SHUFFLE(a, b, UPPER_LANE, 0));
  }
}

ALWAYS_INLINE void take_split(const char *halves, vec x[UNIT_VECTORS]) {
#pragma GCC unroll 8
  for (int i = 0; i < UNIT_VECTORS; i += 2) {
    ivec pairs;
    memcpy(&pairs, halves + i * VEC_BYTES / 2, sizeof pairs);
    KEEP_LOADED(pairs);
    x[i] = (vec)(pairs << 16);
    x[i + 1] = (vec)(pairs & (int32_t)0xffff0000);
  }
}
#else
static inline bool can_split(ch_dtype dtype, int64_t dim) {
  (void)dtype, (void)dim;
  return false;
}

static inline int64_t split_part(int64_t dim) {
  (void)dim;
  return 0;
}

static void split_rows(int64_t n, const real *x, real *y) {
  (void)n, (void)x, (void)y;
}

static void join_rows(int64_t n, real *x) {
  (void)n, (void)x;
}

ALWAYS_INLINE void take_split(const char *halves, vec x[UNIT_VECTORS]) {
  (void)halves;
  for (int i = 0; i < UNIT_VECTORS; i++) x[i] = splat(0);
}
#endif

void attend_mha_allocate(const decode_plan *plan, scratch_arena *arena, decode_space *space) {
  space->split_q = arena_reals(arena, plan->total * plan->key_padded);
}

void attend_mha_start(const ch_attend *args, const decode_plan *plan, const decode_space *space) {
  for (int64_t c = 0, at = 0; c < args->kv_heads; c++, at += plan->key_padded)
    split_rows(split_part(args->key_dim), space->q + at, space->split_q + at);
}

/* --- units ---------------------------------------------------------------------------------------------- */

/* Loads the values of a unit. The integers of a quantised block are not multiplied with its scale. */
ALWAYS_INLINE void take_unit(const ch_dtype dtype, const bool split, const char *p, vec x[UNIT_VECTORS]) {
  if (is_block_quantised(dtype)) {
    block_integers(dtype, (const unsigned char *)p, x);
  } else if (split) {
    take_split(p, x);
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < UNIT_VECTORS; i++) x[i] = load_state(dtype, p, i * VL, VL);
  }
}

/* The rows of all heads of a tile, token by token. */
typedef struct mha_rows {
  const char *data;
  int64_t stride, head_stride; /* bytes between tokens and between heads */
  int64_t heads, count;
  int64_t ahead; /* bytes from a row to the memory that is prefetched meanwhile */
} mha_rows;

/* Prefetches the next `bytes` bytes and moves *prefetch_at past them. Prefetches follow the order of memory,
   not that of the loops. */
ALWAYS_INLINE void prefetch_head(const ch_dtype dtype, const char **prefetch_at, const int64_t bytes) {
#pragma GCC unroll 8
  for (int64_t i = 0; i < bytes; i += 64) {
    if (is_wide(dtype))
      __builtin_prefetch(*prefetch_at + i, 0, 2);
    else
      prefetch_line(*prefetch_at + i, AHEAD - NEARER, false);
  }
  *prefetch_at += bytes;
}

/* --- scores --------------------------------------------------------------------------------------------- */

/* Returns the dot product of a key and a query as VL partial sums. If keys are split or block-quantised, dim
   is whole units. */
ALWAYS_INLINE vec dot_lanes(const ch_dtype dtype, const bool split, const int64_t dim, const real *q,
                            const char *key) {
  vec total = splat(0);
  int64_t k = 0;
#pragma GCC unroll 4
  for (; k + UNIT <= dim; k += UNIT) {
    const char *p = key + bytes_of(dtype, k);
    vec x[UNIT_VECTORS];
    take_unit(dtype, split, p, x);
    vec even = load(q + k) * x[0], odd = load(q + k + VL) * x[1];
#pragma GCC unroll 16
    for (int i = 2; i < UNIT_VECTORS; i += 2) {
      even = vec_fma(load(q + k + i * VL), x[i], even);
      odd = vec_fma(load(q + k + (i + 1) * VL), x[i + 1], odd);
    }
    vec sum = even + odd;
    total = is_block_quantised(dtype) ? vec_fma(sum, splat_half(p), total) : k == 0 ? sum : total + sum;
  }
  if (is_block_quantised(dtype) || split) return total;
  for (; k + VL <= dim; k += VL) total = vec_fma(load(q + k), load_state(dtype, key, k, VL), total);
  if (k < dim) total = vec_fma(load(q + k), load_state(dtype, key, k, dim - k), total);
  return total;
}

enum { DOTS = 4 };

/* scores [count, heads] = (or +=) keys q^T, DOTS products at once. */
ALWAYS_INLINE void score_rows(const ch_dtype dtype, const bool split, const int64_t dim, const mha_rows *rows,
                              const real *q, int64_t padded, real *scores, bool add) {
  const int64_t heads = rows->heads, head_stride = rows->head_stride;
  const char *token = rows->data, *prefetch_at = token + rows->ahead;
  for (int64_t t = rows->count; t > 0; t--, token += rows->stride) {
    const char *key = token;
    const real *query = q;
    int64_t g = 0;
    for (; g + DOTS <= heads; g += DOTS, scores += DOTS) {
      vec lanes[DOTS];
#pragma GCC unroll 4
      for (int i = 0; i < DOTS; i++, key += head_stride, query += padded) {
        prefetch_head(dtype, &prefetch_at, bytes_of(dtype, dim));
        lanes[i] = dot_lanes(dtype, split, dim, query, key);
      }
      sum_four(lanes, scores, add);
    }
    for (; g < heads; g++, scores++, key += head_stride, query += padded) {
      prefetch_head(dtype, &prefetch_at, bytes_of(dtype, dim));
      real sum = lanes_sum(dot_lanes(dtype, split, dim, query, key));
      *scores = add ? *scores + sum : sum;
    }
  }
}

/* --- sums ----------------------------------------------------------------------------------------------- */

enum { TOKENS = 4 };

/* row [dim] += weights [tokens], `ld` apart, times values; `tokens` is a constant. */
ALWAYS_INLINE void add_values(const ch_dtype dtype, const bool split, const int64_t dim, const int tokens,
                              const real *weights, int64_t ld, const char *values, int64_t stride,
                              real *row) {
  vec weight[TOKENS];
#pragma GCC unroll 4
  for (int t = 0; t < tokens; t++) weight[t] = splat(weights[t * ld]);
  int64_t k = 0;
#pragma GCC unroll 4
  for (; k + UNIT <= dim; k += UNIT) {
    vec sum[UNIT_VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < UNIT_VECTORS; i++) sum[i] = load(row + k + i * VL);
#pragma GCC unroll 4
    for (int t = 0; t < tokens; t++) {
      const char *p = values + t * stride + bytes_of(dtype, k);
      vec x[UNIT_VECTORS], scaled = weight[t];
      take_unit(dtype, split, p, x);
      if (is_block_quantised(dtype)) scaled *= splat_half(p);
#pragma GCC unroll 16
      for (int i = 0; i < UNIT_VECTORS; i++) sum[i] = vec_fma(scaled, x[i], sum[i]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < UNIT_VECTORS; i++) store(row + k + i * VL, sum[i]);
  }
  if (is_block_quantised(dtype) || split) return;
  for (; k < dim; k += VL) {
    vec sum = load(row + k);
    for (int t = 0; t < tokens; t++)
      sum = vec_fma(weight[t],
                    k + VL <= dim ? load_state(dtype, values + t * stride, k, VL)
                                  : load_state(dtype, values + t * stride, k, dim - k),
                    sum);
    store(row + k, sum);
  }
}

/* sums [heads, padded] += weights [count, heads], `ld` apart, times values. */
ALWAYS_INLINE void sum_values(const ch_dtype dtype, const bool split, const int64_t dim, const mha_rows *rows,
                              const real *weights, int64_t ld, real *sums, int64_t padded) {
  const int64_t heads = rows->heads, stride = rows->stride, head_stride = rows->head_stride;
  const char *token = rows->data, *prefetch_at = token + rows->ahead;
  int64_t left = rows->count;
  for (; left >= TOKENS; left -= TOKENS, token += TOKENS * stride, weights += TOKENS * ld)
    for (int64_t g = 0; g < heads; g++) {
      if (!is_wide(dtype)) prefetch_head(dtype, &prefetch_at, TOKENS * bytes_of(dtype, dim));
      add_values(dtype, split, dim, TOKENS, weights + g, ld, token + g * head_stride, stride,
                 sums + g * padded);
    }
  for (; left > 0; left--, token += stride, weights += ld)
    for (int64_t g = 0; g < heads; g++) {
      prefetch_head(dtype, &prefetch_at, bytes_of(dtype, dim));
      add_values(dtype, split, dim, 1, weights + g, ld, token + g * head_stride, stride, sums + g * padded);
    }
}

/* --- a block -------------------------------------------------------------------------------------------- */

/* The loops for each type of states and each usual head size (0: any). Each has its own function. In one
   function the compiler would run out of registers. */
#define FOR_ALL_KINDS(KIND)                                                                                  \
  KIND(CH_BF16, true, 64)                                                                                    \
  KIND(CH_BF16, true, 128)                                                                                   \
  KIND(CH_BF16, true, 0)                                                                                     \
  KIND(CH_BF16, false, 0)                                                                                    \
  KIND(CH_F16, false, 64)                                                                                    \
  KIND(CH_F16, false, 128)                                                                                   \
  KIND(CH_F16, false, 0)                                                                                     \
  KIND(CH_Q8_0, false, 64)                                                                                   \
  KIND(CH_Q8_0, false, 128)                                                                                  \
  KIND(CH_Q8_0, false, 0)                                                                                    \
  KIND(CH_Q4_0, false, 64)                                                                                   \
  KIND(CH_Q4_0, false, 128)                                                                                  \
  KIND(CH_Q4_0, false, 0)                                                                                    \
  KIND(CH_KERNEL_DTYPE, false, 64)                                                                           \
  KIND(CH_KERNEL_DTYPE, false, 128)                                                                          \
  KIND(CH_KERNEL_DTYPE, false, 0)

typedef void score_function(int64_t dim, const mha_rows *rows, const real *q, int64_t padded, real *scores,
                            bool add);
typedef void sum_function(int64_t dim, const mha_rows *rows, const real *weights, int64_t ld, real *sums,
                          int64_t padded);

#define NAME2(what, type, split, known) what##_##type##_##split##_##known
#define NAME(what, type, split, known) NAME2(what, type, split, known)
#define FUNCTIONS(type, split, known)                                                                        \
  static __attribute__((noinline)) void NAME(score, type, split, known)(                                     \
      int64_t dim, const mha_rows *rows, const real *q, int64_t padded, real *scores, bool add) {            \
    score_rows(type, split, (known) > 0 ? (known) : dim, rows, q, padded, scores, add);                      \
  }                                                                                                          \
  static __attribute__((noinline)) void NAME(sum, type, split, known)(                                       \
      int64_t dim, const mha_rows *rows, const real *weights, int64_t ld, real *sums, int64_t padded) {      \
    sum_values(type, split, (known) > 0 ? (known) : dim, rows, weights, ld, sums, padded);                   \
  }
FOR_ALL_KINDS(FUNCTIONS)

#define SCORE_KIND(type, split, known)                                                                       \
  if (dtype == (type) && splits == (split) && ((known) == 0 || dim == (known)))                              \
    return NAME(score, type, split, known);
#define SUM_KIND(type, split, known)                                                                         \
  if (dtype == (type) && splits == (split) && ((known) == 0 || dim == (known)))                              \
    return NAME(sum, type, split, known);

static score_function *score_of(ch_dtype dtype, bool splits, int64_t dim) {
  FOR_ALL_KINDS(SCORE_KIND)
  return NULL;
}

static sum_function *sum_of(ch_dtype dtype, bool splits, int64_t dim) {
  FOR_ALL_KINDS(SUM_KIND)
  return NULL;
}

static mha_rows rows_of(const ch_tile *tile, int64_t heads, int64_t count) {
  return (mha_rows){.data = tile->data,
                    .stride = bytes_of(tile->dtype, tile->stride),
                    .head_stride = bytes_of(tile->dtype, tile->head_stride),
                    .heads = heads,
                    .count = count,
                    .ahead = is_wide(tile->dtype) ? WIDE_AHEAD : AHEAD};
}

/* Splits off the last rows of a tile and returns them; `rows` has the others. While the last rows are read, the
   memory at `next` is prefetched. */
static mha_rows take_last(mha_rows *rows, const void *next) {
  int64_t last = rows->ahead == AHEAD ? (AHEAD + rows->stride - 1) / rows->stride : 0;
  if (last > rows->count) last = rows->count;
  rows->count -= last;
  mha_rows rest = *rows;
  rest.data += rows->count * rows->stride;
  rest.count = last;
  rest.ahead = next ? (const char *)next - rest.data : 0;
  return rest;
}

/* Computes the scores from `dim` elements of the keys, starting at `offset`. */
static void score_part(const decode_plan *plan, const decode_block *block, const decode_space *space,
                       const ch_tile *tile, int64_t heads, int64_t offset, int64_t dim, const void *next) {
  mha_rows rows = rows_of(tile, heads, block->count), last = take_last(&rows, next);
  const bool split = can_split(tile->dtype, dim) && offset % UNIT == 0;
  const real *q = (split ? space->split_q : space->q) + offset;
  score_function *score = score_of(tile->dtype, split, dim);
  score(dim, &rows, q, plan->key_padded, space->scores, offset > 0);
  score(dim, &last, q, plan->key_padded, space->scores + rows.count * heads, offset > 0);
}

void attend_mha_scores(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                       const decode_space *space) {
  const ch_tiles *tiles = &block->tiles;
  const int64_t heads = args->kv_heads, head_dim = args->key_dim - tiles->tail_dim;
  const void *values = plan->in_place ? tiles->values.data : NULL;
  score_part(plan, block, space, &tiles->keys, heads, 0, head_dim,
             tiles->tail_dim > 0 && plan->in_place ? tiles->tail.data : values);
  if (tiles->tail_dim > 0)
    score_part(plan, block, space, &tiles->tail, heads, head_dim, tiles->tail_dim, values);
}

void attend_mha_sums(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                     const decode_space *space, real *rows) {
  const ch_tile *tile = &block->tiles.values;
  const int64_t heads = args->kv_heads, dim = args->value_dim, padded = plan->value_padded;
  const bool split = can_split(tile->dtype, dim);
  const mha_rows keys = rows_of(&block->tiles.keys, heads, block->count);
  const void *after = !plan->in_place     ? NULL
                      : block->coming > 0 ? keys.data + keys.count * keys.stride
                                          : block->keys_after;
  mha_rows some = rows_of(tile, heads, block->count), last = take_last(&some, after);
  if (split) split_rows(heads * padded, rows, rows);
  sum_function *sum = sum_of(tile->dtype, split, dim);
  sum(dim, &some, space->weights, plan->total, rows, padded);
  sum(dim, &last, space->weights + some.count * plan->total, plan->total, rows, padded);
  if (split) join_rows(heads * padded, rows);
}
