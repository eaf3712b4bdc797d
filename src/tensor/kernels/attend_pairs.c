/* Streaming attention over few queries whose heads share keys and values of BF16 (MLA's latents above all): bound by
 * arithmetic, which the processor does twice as fast on pairs of 16-bit elements.
 *
 * Scores: columns along the lanes, two elements of a query in each; a pair of a key's elements meets all of them, so that
 * nothing is summed across lanes. Weighted values: elements along the lanes, two tokens in each; a pair of weights meets
 * them. Queries and weights are rounded to BF16, as the states are; sums are F32.
 */
#include "tensor/kernels/attend_pairs.h"

#include "tensor/kernels/blocks.h"
#include "tensor/kernels/pairs.h"

#ifdef __AVX512BF16__

enum { TILE_TOKENS = 8, SLICE = 32, MOST_SUMS = 12 };

/* Queries of a head: [key_dim / 2, PAIR_COLUMNS] pairs. */
static inline int32_t *queries_of(const few_plan *plan, const few_space *space, int64_t head) {
  return space->paired + head * (plan->key_padded / 2) * PAIR_COLUMNS;
}

void attend_start_pairs(const ch_attend *args, const few_plan *plan, const few_space *space) {
  const int64_t group = plan->group_columns, padded = plan->key_padded;
  for (int64_t g = 0; g < args->kv_heads; g++) {
    int32_t *to = queries_of(plan, space, g);
    for (int64_t k = 0; k < padded; k += VL) {
      vec square[VL];
      for (int64_t i = 0; i < VL; i++)
        square[i] = i < group ? load(space->q + (g * group + i) * padded + k) : splat(0);
      transpose_lanes(square);
      for (int64_t i = 0; i < VL; i += 2, to += PAIR_COLUMNS)
        _mm512_storeu_si512(to, paired(square[i], square[i + 1]));
    }
  }
}

/* --- blocks -------------------------------------------------------------------------------------------------- */

/* One head of one token. */
static void round_blocks(ch_dtype dtype, int64_t dim, const unsigned char *block, uint16_t *to) {
  const int64_t bytes = dtype == CH_Q8_0 ? 34 : 18;
  for (int64_t k = 0; k < dim; k += GROUP, block += bytes) {
    vec x[GROUP / VL];
    __builtin_prefetch(block + CH_FETCH_AHEAD, 0, 3);
    if (dtype == CH_Q8_0)
      block_integers(CH_Q8_0, block, x);
    else
      block_integers(CH_Q4_0, block, x);
    const vec scale = splat_half(block);
    _mm512_storeu_si512(to + k, (__m512i)_mm512_cvtne2ps_pbh((__m512)(x[1] * scale), (__m512)(x[0] * scale)));
  }
}

static ch_tile widened(const ch_tile *tile, int64_t heads, int64_t dim, int64_t count, uint16_t *to) {
  const ch_tile out = {to, CH_BF16, heads * dim, dim};
  for (int64_t t = 0; t < count; t++)
    for (int64_t g = 0; g < heads; g++) {
      const char *from =
          (const char *)tile->data + ch_dtype_bytes(tile->dtype, t * tile->stride + g * tile->head_stride);
      round_blocks(tile->dtype, dim, (const unsigned char *)from, to + t * out.stride + g * dim);
    }
  return out;
}

bool attend_widen_tiles(const ch_attend *args, const few_block *block, void *space, ch_tiles *tiles) {
  *tiles = block->tiles;
  const bool keys = is_blocks(tiles->keys.dtype), values = is_blocks(tiles->values.dtype);
  const bool shared = keys && is_shared(tiles) && args->value_dim <= args->key_dim;
  const int64_t heads = args->kv_heads, count = block->count;
  if (keys) tiles->keys = widened(&block->tiles.keys, heads, args->key_dim, count, space);
  if (shared) tiles->values = tiles->keys;
  if (!values || shared) return keys;
  uint16_t *rest = (uint16_t *)space + count * heads * args->key_dim;
  tiles->values = widened(&block->tiles.values, heads, args->value_dim, count, rest);
  return true;
}

/* --- scores -------------------------------------------------------------------------------------------------- */

/* Rows of a head's keys: `pairs` pairs each, `stride` bytes apart. */
typedef struct pair_rows {
  const char *keys;
  int64_t stride, pairs;
} pair_rows;

/* scores [tokens] of a tile of keys, whose elements go on in rows[1]. What is `ahead` is asked for meanwhile, a line for
   each of what a step takes. */
ALWAYS_INLINE void score_tile(const int tokens, const pair_rows rows[2], const int32_t *q, __mmask16 columns,
                              real *scores, int64_t ld, const char *ahead) {
  __m512 even[TILE_TOKENS], odd[TILE_TOKENS];
#pragma GCC unroll 8
  for (int t = 0; t < tokens; t++) even[t] = odd[t] = _mm512_setzero_ps();
  for (int r = 0; r < 2; r++) {
    const char *keys = rows[r].keys;
    const int64_t stride = rows[r].stride, pairs = rows[r].pairs;
    int64_t p = 0;
    for (; p + 2 <= pairs; p += 2, keys += 8, q += 2 * PAIR_COLUMNS, ahead += 64) {
      __builtin_prefetch(ahead, 0, 2);
      const __m512bh first = (__m512bh)_mm512_loadu_si512(q),
                     second = (__m512bh)_mm512_loadu_si512(q + PAIR_COLUMNS);
#pragma GCC unroll 8
      for (int t = 0; t < tokens; t++) {
        even[t] = _mm512_dpbf16_ps(even[t], first, pair_at(keys + t * stride));
        odd[t] = _mm512_dpbf16_ps(odd[t], second, pair_at(keys + t * stride + 4));
      }
    }
    if (p == pairs) continue;
    const __m512bh last = (__m512bh)_mm512_loadu_si512(q);
#pragma GCC unroll 8
    for (int t = 0; t < tokens; t++) even[t] = _mm512_dpbf16_ps(even[t], last, pair_at(keys + t * stride));
    q += PAIR_COLUMNS;
  }
#pragma GCC unroll 8
  for (int t = 0; t < tokens; t++)
    _mm512_mask_storeu_ps(scores + t * ld, columns, _mm512_add_ps(even[t], odd[t]));
}

static pair_rows rows_of(const ch_tile *tile, int64_t head, int64_t dim) {
  return (pair_rows){tile_row(tile, head, 0), tile->stride * 2, dim / 2};
}

void attend_pair_scores(const ch_attend *args, const few_plan *plan, const few_block *block,
                        const few_space *space) {
  const ch_tiles *tiles = &block->tiles;
  const __mmask16 columns = (__mmask16)((1u << plan->group_columns) - 1);
  for (int64_t g = 0; g < args->kv_heads; g++) {
    pair_rows rows[2] = {rows_of(&tiles->keys, g, args->key_dim - tiles->tail_dim), {0}};
    if (tiles->tail_dim > 0) rows[1] = rows_of(&tiles->tail, g, tiles->tail_dim);
    const int32_t *q = queries_of(plan, space, g);
    real *scores = space->scores + g * plan->group_columns;
    /* Rows of one head follow each other, and so do the tokens of the next block. */
    const int64_t coming = block->coming > 0 && args->kv_heads == 1 ? block->count * rows[0].stride : 0;
    int64_t t = 0;
    for (; t + TILE_TOKENS <= block->count; t += TILE_TOKENS) {
      score_tile(TILE_TOKENS, rows, q, columns, scores + t * plan->total, plan->total, rows[0].keys + coming);
      rows[0].keys += TILE_TOKENS * rows[0].stride;
      rows[1].keys += TILE_TOKENS * rows[1].stride;
    }
    for (; t < block->count; t++) {
      score_tile(1, rows, q, columns, scores + t * plan->total, plan->total, rows[0].keys + coming);
      rows[0].keys += rows[0].stride;
      rows[1].keys += rows[1].stride;
    }
  }
}

/* --- weighted values ----------------------------------------------------------------------------------------- */

/* Weights [count, total] of a head's columns, two tokens in a lane: [ceil(count / 2), PAIR_COLUMNS]. */
static void pair_weights(const few_plan *plan, const real *weights, int64_t count, int32_t *pairs) {
  const __mmask16 columns = (__mmask16)((1u << plan->group_columns) - 1);
  for (int64_t t = 0; t < count; t += 2, pairs += PAIR_COLUMNS) {
    const real *row = weights + t * plan->total;
    __m512 first = _mm512_maskz_loadu_ps(columns, row), second = _mm512_setzero_ps();
    if (t + 1 < count) second = _mm512_maskz_loadu_ps(columns, row + plan->total);
    _mm512_storeu_si512(pairs, paired((vec)first, (vec)second));
  }
}

/* A slice of `columns` (a constant) sums over all tokens of a block: rows [stored, padded] += pairs times values. */
ALWAYS_INLINE void sum_slice(const int columns, int64_t stored, int64_t count, const int32_t *pairs,
                             const char *values, int64_t stride, int64_t ahead, real *rows, int64_t padded) {
  __m512 low[MOST_SUMS], high[MOST_SUMS];
#pragma GCC unroll 12
  for (int c = 0; c < columns; c++) low[c] = high[c] = _mm512_setzero_ps();
  for (int64_t t = 0; t < count; t += 2, values += 2 * stride, pairs += PAIR_COLUMNS) {
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
  /* Elements were taken by fours in turns. */
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

void attend_pair_sums(const ch_attend *args, const few_plan *plan, const few_block *block,
                      const few_space *space, real *rows) {
  const ch_tile *tile = &block->tiles.values;
  const int64_t group = plan->group_columns, stride = tile->stride * 2,
                first = group > MOST_SUMS ? 8 : group; /* columns at once, of up to 16 */
  int32_t *pairs = (int32_t *)space->scores;
  const bool fetched = tile->data == block->tiles.keys.data; /* with the keys */
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
