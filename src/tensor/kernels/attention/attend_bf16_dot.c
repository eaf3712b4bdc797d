/* Decoding attention with BF16 dot products, for heads that share keys and values of BF16 or in quantised blocks
 * (above all the latents of MLA). This work is bound by arithmetic, and a BF16 dot instruction does two products per
 * lane.
 *
 * Scores: the lanes are columns, and each lane holds two neighbouring elements of a query. Two elements of a key are
 * broadcast and multiplied with all columns, so nothing is summed across lanes. Weighted values: the lanes are
 * elements, and each lane holds the values of two tokens. Two weights are broadcast and multiplied with them. Queries
 * and weights are rounded to BF16; sums are F32. */
#include "tensor/kernels/attention/attend_bf16_dot.h"

#include "tensor/kernels/vector/quantised_blocks.h"
#include "tensor/kernels/vector/bf16_dot.h"

#ifdef __AVX512BF16__

enum { TILE_TOKENS = 8, SLICE = 32, MOST_SUMS = 12 };

/* Returns the queries of a head: [key_dim / 2, BF16_DOT_COLUMNS] pairs of elements. */
static inline int32_t *queries_of(const decode_plan *plan, const decode_space *space, int64_t head) {
  return space->paired + head * (plan->key_padded / 2) * BF16_DOT_COLUMNS;
}

void attend_bf16_dot_start(const ch_attend *args, const decode_plan *plan, const decode_space *space) {
  const int64_t group = plan->group_columns, padded = plan->key_padded;
  for (int64_t g = 0; g < args->kv_heads; g++) {
    int32_t *to = queries_of(plan, space, g);
    for (int64_t k = 0; k < padded; k += VL) {
      vec square[VL];
      for (int64_t i = 0; i < VL; i++)
        square[i] = i < group ? load(space->q + (g * group + i) * padded + k) : splat(0);
      transpose_lanes(square);
      for (int64_t i = 0; i < VL; i += 2, to += BF16_DOT_COLUMNS)
        _mm512_storeu_si512(to, paired(square[i], square[i + 1]));
    }
  }
}

/* --- blocks --------------------------------------------------------------------------------------------- */

/* The conversion of a head's quantised blocks to BF16, row by row. */
typedef struct widening {
  const unsigned char *from;
  uint16_t *to;
  int64_t row, gap;   /* blocks of a row, and bytes between rows */
  int64_t here, left; /* blocks left in this row, and in all rows */
} widening;

static widening begin_widening(const ch_tile *tile, int64_t head, int64_t dim, int64_t count, uint16_t *to) {
  const int64_t row = dim / GROUP;
  return (widening){(const unsigned char *)tile_row(tile, head, 0),
                    to,
                    row,
                    bytes_of(tile->dtype, tile->stride) - bytes_of(tile->dtype, dim),
                    row,
                    row * count};
}

/* Converts the next block and prefetches ahead. */
ALWAYS_INLINE void widen_block(const ch_dtype dtype, widening *w) {
  vec x[GROUP / VL];
  __builtin_prefetch(w->from + CH_FETCH_AHEAD, 0, 3);
  block_integers(dtype, w->from, x);
  const vec scale = splat_half(w->from);
  _mm512_storeu_si512(w->to, (__m512i)_mm512_cvtne2ps_pbh((__m512)(x[1] * scale), (__m512)(x[0] * scale)));
  w->from += bytes_of(dtype, GROUP);
  w->to += GROUP;
  w->left--;
  if (--w->here == 0) {
    w->here = w->row;
    w->from += w->gap;
  }
}

static void widen_some(ch_dtype dtype, int64_t blocks, widening *w) {
  if (dtype == CH_Q8_0)
    for (; blocks > 0; blocks--) widen_block(CH_Q8_0, w);
  else
    for (; blocks > 0; blocks--) widen_block(CH_Q4_0, w);
}

/* Returns the tile of converted states at `space`: [heads, count, dim]. */
static ch_tile widened_tile(int64_t dim, int64_t count, void *space) {
  return (ch_tile){space, CH_BF16, dim, count * dim};
}

/* --- scores --------------------------------------------------------------------------------------------- */

/* Rows of a head's keys: `pairs` pairs of BF16 each, `stride` bytes apart. */
typedef struct pair_rows {
  const char *keys;
  int64_t stride, pairs;
} pair_rows;

/* The number of tokens of a tile for which four pairs are loaded at once and broadcast by shuffles. If every
   pair had its own load, the loads would be slower than the products. */
enum { SHUFFLED = 2 };

/* Adds to even and odd the products of four pairs of a token's key, at `keys`, with four pairs of the
   queries. */
ALWAYS_INLINE void add_four_bf16_dots(const bool shuffled, const char *keys, const __m512bh q[4],
                                      __m512 *even, __m512 *odd) {
  __m512bh pair[4];
  if (shuffled) {
    const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)keys));
    pair[0] = (__m512bh)_mm512_shuffle_epi32(all, 0x00), pair[1] = (__m512bh)_mm512_shuffle_epi32(all, 0x55);
    pair[2] = (__m512bh)_mm512_shuffle_epi32(all, 0xaa), pair[3] = (__m512bh)_mm512_shuffle_epi32(all, 0xff);
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) pair[i] = pair_at(keys + 4 * i);
  }
  *even = _mm512_dpbf16_ps(*even, q[0], pair[0]);
  *odd = _mm512_dpbf16_ps(*odd, q[1], pair[1]);
  *even = _mm512_dpbf16_ps(*even, q[2], pair[2]);
  *odd = _mm512_dpbf16_ps(*odd, q[3], pair[3]);
}

/* Computes scores [tokens, columns] of a tile of keys; rows[1] has the last elements of the keys if they are stored
   elsewhere. Meanwhile it prefetches the lines at `ahead`, or converts the next tile if the keys' own type `dtype` is
   block-quantised. */
ALWAYS_INLINE void score_tile(const ch_dtype dtype, const int tokens, const pair_rows rows[2],
                              const int32_t *q, __mmask16 columns, real *scores, int64_t ld,
                              const char *ahead, widening *next) {
  __m512 even[TILE_TOKENS], odd[TILE_TOKENS];
  /* The next tile is prefetched from L2 into L1. */
  const bool dense = rows[0].stride == rows[0].pairs * 4;
  const char *near = rows[0].keys + (dense ? tokens * rows[0].stride : 0);
#pragma GCC unroll 8
  for (int t = 0; t < tokens; t++) even[t] = odd[t] = _mm512_setzero_ps();
  for (int r = 0; r < 2; r++) {
    const char *keys = rows[r].keys;
    const int64_t stride = rows[r].stride, pairs = rows[r].pairs;
    int64_t p = 0;
    for (; p + 4 <= pairs; p += 4, keys += 16, q += 4 * BF16_DOT_COLUMNS, ahead += 128, near += 128) {
      if (is_block_quantised(dtype)) {
        if (next->left > 0) widen_block(dtype, next);
        if (next->left > 0) widen_block(dtype, next);
      } else {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead + 64, 0, 2);
        __builtin_prefetch(near, 0, 3);
        __builtin_prefetch(near + 64, 0, 3);
      }
      __m512bh four[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) four[i] = (__m512bh)_mm512_loadu_si512(q + i * BF16_DOT_COLUMNS);
#pragma GCC unroll 8
      for (int t = 0; t < tokens; t++)
        add_four_bf16_dots(tokens > 1 && t < SHUFFLED, keys + t * stride, four, &even[t], &odd[t]);
    }
    for (; p < pairs; p++, keys += 4, q += BF16_DOT_COLUMNS) {
      const __m512bh last = (__m512bh)_mm512_loadu_si512(q);
#pragma GCC unroll 8
      for (int t = 0; t < tokens; t++) even[t] = _mm512_dpbf16_ps(even[t], last, pair_at(keys + t * stride));
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < tokens; t++)
    _mm512_mask_storeu_ps(scores + t * ld, columns, _mm512_add_ps(even[t], odd[t]));
}

static pair_rows rows_of(const ch_tile *tile, int64_t head, int64_t dim) {
  return (pair_rows){tile_row(tile, head, 0), tile->stride * 2, dim / 2};
}

/* Computes the scores of one head. `coming`: the distance in bytes to the next block's keys, or 0. */
ALWAYS_INLINE void score_head(const ch_dtype dtype, const pair_rows rows[2], int64_t count, const int32_t *q,
                              __mmask16 columns, real *scores, int64_t ld, int64_t coming, widening *blocks) {
  pair_rows now[2] = {rows[0], rows[1]};
  widening next = {0};
  if (is_block_quantised(dtype)) {
    next = *blocks;
    const int64_t first = TILE_TOKENS * next.row;
    widen_some(dtype, first < next.left ? first : next.left, &next);
  }
  int64_t t = 0;
  for (; t + TILE_TOKENS <= count; t += TILE_TOKENS) {
    score_tile(dtype, TILE_TOKENS, now, q, columns, scores + t * ld, ld, now[0].keys + coming, &next);
    now[0].keys += TILE_TOKENS * now[0].stride;
    now[1].keys += TILE_TOKENS * now[1].stride;
  }
  for (; t < count; t++) {
    score_tile(CH_BF16, 1, now, q, columns, scores + t * ld, ld, now[0].keys + coming, NULL);
    now[0].keys += now[0].stride;
    now[1].keys += now[1].stride;
  }
}

#define SCORE_HEAD(type)                                                                                     \
  static __attribute__((noinline)) void score_head_##type(const pair_rows rows[2], int64_t count,            \
                                                          const int32_t *q, __mmask16 columns, real *scores, \
                                                          int64_t ld, int64_t coming, widening *blocks) {    \
    score_head(type, rows, count, q, columns, scores, ld, coming, blocks);                                   \
  }
SCORE_HEAD(CH_BF16)
SCORE_HEAD(CH_Q8_0)
SCORE_HEAD(CH_Q4_0)

void attend_bf16_dot_scores(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                            const decode_space *space, ch_tiles *tiles) {
  const ch_tile *keys = &block->tiles.keys;
  const __mmask16 columns = (__mmask16)((1u << plan->group_columns) - 1);
  const bool shared = is_shared(&block->tiles) && args->value_dim <= args->key_dim;
  *tiles = block->tiles;
  if (is_block_quantised(keys->dtype)) {
    tiles->keys = widened_tile(args->key_dim, block->count, space->widened);
    if (shared) tiles->values = tiles->keys;
  }
  for (int64_t g = 0; g < args->kv_heads; g++) {
    pair_rows rows[2] = {rows_of(&tiles->keys, g, args->key_dim - tiles->tail_dim), {0}};
    if (tiles->tail_dim > 0) rows[1] = rows_of(&tiles->tail, g, tiles->tail_dim);
    const int32_t *q = queries_of(plan, space, g);
    real *scores = space->scores + g * plan->group_columns;
    widening blocks = {0};
    if (is_block_quantised(keys->dtype))
      blocks = begin_widening(keys, g, args->key_dim, block->count,
                              (uint16_t *)space->widened + g * tiles->keys.head_stride);
    /* With one head, the next block's keys follow this block's in memory. */
    const int64_t coming = block->coming > 0 && args->kv_heads == 1 ? block->count * rows[0].stride : 0;
    if (keys->dtype == CH_Q8_0)
      score_head_CH_Q8_0(rows, block->count, q, columns, scores, plan->total, 0, &blocks);
    else if (keys->dtype == CH_Q4_0)
      score_head_CH_Q4_0(rows, block->count, q, columns, scores, plan->total, 0, &blocks);
    else
      score_head_CH_BF16(rows, block->count, q, columns, scores, plan->total, coming, &blocks);
  }
}

/* --- weighted values ------------------------------------------------------------------------------------ */

/* Rounds the weights [count, total] of a head's columns to pairs [ceil(count / 2), BF16_DOT_COLUMNS]; two
   tokens share a lane. */
static void pair_weights(const decode_plan *plan, const real *weights, int64_t count, int32_t *pairs) {
  const __mmask16 columns = (__mmask16)((1u << plan->group_columns) - 1);
  for (int64_t t = 0; t < count; t += 2, pairs += BF16_DOT_COLUMNS) {
    const real *row = weights + t * plan->total;
    __m512 first = _mm512_maskz_loadu_ps(columns, row), second = _mm512_setzero_ps();
    if (t + 1 < count) second = _mm512_maskz_loadu_ps(columns, row + plan->total);
    _mm512_storeu_si512(pairs, paired((vec)first, (vec)second));
  }
}

/* Adds a slice of values, weighted, over all tokens of a block, for `columns` (a constant) columns: rows
   [stored, padded] += pairs times values. */
ALWAYS_INLINE void sum_slice(const int columns, int64_t stored, int64_t count, const int32_t *pairs,
                             const char *values, int64_t stride, int64_t ahead, real *rows, int64_t padded) {
  __m512 low[MOST_SUMS], high[MOST_SUMS];
#pragma GCC unroll 12
  for (int c = 0; c < columns; c++) low[c] = high[c] = _mm512_setzero_ps();
  for (int64_t t = 0; t < count; t += 2, values += 2 * stride, pairs += BF16_DOT_COLUMNS) {
    __m512i first = _mm512_loadu_si512(values), second = _mm512_setzero_si512();
    if (t + 1 < count) second = _mm512_loadu_si512(values + stride);
    if (ahead > 0) {
      __builtin_prefetch(values + ahead, 0, 2);
      __builtin_prefetch(values + ahead + stride, 0, 2);
    }
    const __m512bh a = (__m512bh)_mm512_unpacklo_epi16(first, second),
                   b = (__m512bh)_mm512_unpackhi_epi16(first, second);
#pragma GCC unroll 12
    for (int c = 0; c < columns; c++) {
      const __m512bh weight = pair_at(pairs + c);
      low[c] = _mm512_dpbf16_ps(low[c], a, weight);
      high[c] = _mm512_dpbf16_ps(high[c], b, weight);
    }
  }
  /* The unpack instructions interleave groups of four elements. These indices restore their order. */
  const __m512i begin = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
                end = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
#pragma GCC unroll 12
  for (int c = 0; c < columns; c++) {
    if (c >= stored) break;
    real *row = rows + c * padded;
    store(row, load(row) + (vec)_mm512_permutex2var_ps(low[c], begin, high[c]));
    store(row + VL, load(row + VL) + (vec)_mm512_permutex2var_ps(low[c], end, high[c]));
  }
}

static void sum_columns(int64_t columns, int64_t count, const int32_t *pairs, const char *values,
                        int64_t stride, int64_t ahead, real *rows, int64_t padded) {
  if (columns > 8)
    sum_slice(12, columns, count, pairs, values, stride, ahead, rows, padded);
  else
    sum_slice(8, columns, count, pairs, values, stride, ahead, rows, padded);
}

/* Converts all block-quantised values of a block to BF16, and returns them as a tile. */
static ch_tile widen_values(const ch_attend *args, const decode_block *block, const decode_space *space) {
  const ch_tile *values = &block->tiles.values;
  uint16_t *to = (uint16_t *)space->widened + block->count * args->kv_heads * args->key_dim;
  const ch_tile out = widened_tile(args->value_dim, block->count, to);
  for (int64_t g = 0; g < args->kv_heads; g++) {
    widening blocks = begin_widening(values, g, args->value_dim, block->count, to + g * out.head_stride);
    widen_some(values->dtype, blocks.left, &blocks);
  }
  return out;
}

void attend_bf16_dot_sums(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                          const decode_space *space, const ch_tiles *tiles, real *rows) {
  const bool in_blocks = is_block_quantised(tiles->values.dtype);
  const ch_tile widened = in_blocks ? widen_values(args, block, space) : tiles->values, *tile = &widened;
  /* `first`: number of columns, out of up to 16, that are summed at once */
  const int64_t group = plan->group_columns, stride = tile->stride * 2, first = group > MOST_SUMS ? 8 : group;
  int32_t *pairs = (int32_t *)space->scores;
  const bool fetched = tile->data != block->tiles.values.data || tile->data == block->tiles.keys.data;
  for (int64_t g = 0; g < args->kv_heads; g++) {
    pair_weights(plan, space->weights + g * group, block->count, pairs);
    for (int64_t k = 0; k < args->value_dim; k += SLICE)
      for (int64_t c = 0; c < group; c += first) {
        int64_t ahead = !fetched && c == 0 && block->coming > 0 ? block->count * stride : 0;
        sum_columns(group - c < first ? group - c : first, block->count, pairs + c,
                    tile_row(tile, g, 0) + k * 2, stride, ahead,
                    rows + (g * group + c) * plan->value_padded + k, plan->value_padded);
      }
  }
}

#endif
