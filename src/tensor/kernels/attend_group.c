/* Streaming attention over few queries, several columns a key-value head: a small matrix product in registers.
 *
 * Scores: a vector holds a few elements each of a few keys, so that the sums of a tile end as short sums within quarters
 * of a vector. Queries lie repeated for the keys of a vector, in pieces that stay in the first cache. Weighted values:
 * all columns that fit in registers meet a row of values at once. Keys and values are read once, from where they lie;
 * 16-bit elements are widened as they are loaded.
 */
#include "tensor/kernels/attend_group.h"

/* --- queries ------------------------------------------------------------------------------------------------- */

/* Elements of a head that are multiplied before the next keys are: so much of repeated queries. */
enum { QUERY_BYTES = 32 * 1024 };

static int64_t piece_of(int64_t columns) {
  return QUERY_BYTES / (columns * KEYS * (int64_t)sizeof(real)) / EACH * EACH;
}

void attend_carve_group(const few_plan *plan, carver *from, few_space *space) {
  space->repeated = carve_reals(from, plan->total * plan->key_padded * KEYS);
  space->last_keys = carve_reals(from, TILE_KEYS * round_up(plan->key_padded, VL));
}

/* Chunk by chunk of columns: [elements / EACH, columns, KEYS, EACH]. */
static const real *repeated_of(const few_plan *plan, const real *repeated, int64_t column) {
  return repeated + column * plan->key_padded * KEYS;
}

void attend_start_group(const few_plan *plan, int64_t heads, const few_space *space) {
  const int64_t group = plan->group_columns, padded = plan->key_padded;
  for (int64_t g = 0; g < heads; g++)
    for (int64_t c = 0, columns; c < group; c += columns) {
      columns = chunk_of(group - c);
      const real *q = space->q + (g * group + c) * padded;
      real *to = space->repeated + (g * group + c) * plan->key_padded * KEYS;
      for (int64_t k = 0; k < padded; k += EACH)
        for (int64_t i = 0; i < columns; i++)
          for (int64_t copy = 0; copy < KEYS; copy++, to += EACH)
            memcpy(to, q + i * padded + k, EACH * sizeof(real));
    }
}

/* --- scores -------------------------------------------------------------------------------------------------- */

/* Elements k … k+EACH-1 of KEYS keys. */
ALWAYS_INLINE vec take_keys(const ch_dtype dtype, const char *keys, int64_t stride, int64_t k) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  const char *first = keys + k * state_size(dtype), *second = first + stride;
  if (dtype == CH_KERNEL_DTYPE)
    return (vec)_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd((const void *)first)),
                                   _mm256_loadu_pd((const void *)second), 1);
  __m256i halves = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)first)),
                                           _mm_loadu_si128((const void *)second), 1);
  return dtype == CH_F16 ? (vec)_mm512_cvtph_ps(halves)
                         : (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16);
#else
  (void)stride;
  return load_state(dtype, keys, k, VL);
#endif
}

/* The same of the `left` last elements, zeros after them. */
static __attribute__((noinline)) void take_last(ch_dtype dtype, const char *keys, int64_t stride, int64_t k,
                                                int64_t left, real piece[VL]) {
  memset(piece, 0, VL * sizeof(real));
  for (int64_t i = 0; i < KEYS; i++)
    for (int64_t e = 0; e < left; e++)
      piece[i * EACH + e] = load_state(dtype, keys + i * stride, k + e, 1)[0];
}

/* Adds the products of EACH elements of keys with `columns` columns. */
ALWAYS_INLINE void add_products(const int columns, const int vectors, const vec keys[MOST_VECTORS],
                                const real *q, vec sum[MOST_VECTORS][MOST_COLUMNS]) {
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++) {
    vec line = load(q + c * VL);
    KEEP_LOADED(line);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sum[v][c] += keys[v] * line;
  }
}

/* scores [KEYS * vectors, columns], `ld` apart, (+)= the products of elements 0 … dim-1 of keys, and repeated
   queries. */
ALWAYS_INLINE void score_tile(const ch_dtype dtype, const int columns, int64_t dim, const char *keys,
                              int64_t stride, const real *q, real *scores, int64_t ld, bool accumulate,
                              fetch_stream *stream) {
  const int vectors = TILE_VECTORS_OF(columns);
  vec sum[MOST_VECTORS][MOST_COLUMNS];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++)
#pragma GCC unroll 14
    for (int c = 0; c < columns; c++) sum[v][c] = splat(0);
  int64_t k = 0;
  for (; k + EACH <= dim; k += EACH, q += columns * VL) {
    fetch_step(stream);
    vec taken[MOST_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) taken[v] = take_keys(dtype, keys + v * KEYS * stride, stride, k);
    add_products(columns, vectors, taken, q, sum);
  }
  if (k < dim) {
    vec taken[MOST_VECTORS];
    real piece[VL];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      take_last(dtype, keys + v * KEYS * stride, stride, k, dim - k, piece);
      taken[v] = load(piece);
    }
    add_products(columns, vectors, taken, q, sum);
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++)
#pragma GCC unroll 14
    for (int c = 0; c < columns; c += EACH) {
      const int count = columns - c < EACH ? columns - c : EACH;
      vec part[EACH];
      real total[VL];
#pragma GCC unroll 8
      for (int j = 0; j < EACH; j++) part[j] = j < count ? sum[v][c + j] : splat(0);
      store(total, sum_pieces(EACH, part));
#pragma GCC unroll 4
      for (int i = 0; i < KEYS; i++) {
        real *to = scores + (v * KEYS + i) * ld + c;
        for (int j = 0; accumulate && j < count; j++) total[i * EACH + j] += to[j];
        memcpy(to, total + i * EACH, (size_t)count * sizeof(real));
      }
    }
}

/* Keys first … first+rows-1 (fewer than a tile) of a head with zeros after them, side by side. */
static const char *copy_last(const few_block *block, int64_t head, int64_t first, int64_t rows, int64_t dim,
                             int64_t tile, real *space) {
  const int64_t bytes = dim * state_size(block->keys.dtype);
  char *to = (char *)space;
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + r * bytes, tile_row(&block->keys, head, first + r), (size_t)bytes);
  memset(to + rows * bytes, 0, (size_t)((tile - rows) * bytes));
  return to;
}

/* One chunk of a head's columns, piece by piece of the head's dimension. */
ALWAYS_INLINE void score_chunk(const ch_dtype dtype, const int columns, int64_t dim, const few_block *block,
                               int64_t head, const real *q, real *last_keys, real *scores, int64_t ld,
                               fetch_stream *stream) {
  const int64_t tile = TILE_VECTORS_OF(columns) * KEYS, size = state_size(dtype), count = block->count;
  const int64_t stride = block->keys.stride * size, most = piece_of(columns), whole = count / tile * tile;
  const char *keys = tile_row(&block->keys, head, 0), *last = keys;
  if (whole < count) last = copy_last(block, head, whole, count - whole, dim, tile, last_keys);
  for (int64_t k = 0; k < dim; k += most) {
    const int64_t part = dim - k < most ? dim - k : most;
    const real *queries = q + k * columns * KEYS;
    for (int64_t t = 0; t < count; t += tile) {
      begin_steps(stream, part / EACH);
      score_tile(dtype, columns, part, t < whole ? keys + t * stride + k * size : last + k * size,
                 t < whole ? stride : dim * size, queries, scores + t * ld, ld, k > 0, stream);
    }
  }
}

#define SCORE_CASE(n)                                                                                        \
  case n:                                                                                                    \
    if (n <= MOST_COLUMNS) score_chunk(dtype, n, dim, block, g, q, space->last_keys, to, ld, stream);        \
    break

ALWAYS_INLINE void all_scores(const ch_dtype dtype, const ch_attend *args, const few_plan *plan,
                              const few_block *block, const few_space *space, fetch_stream *into) {
  const int64_t group = plan->group_columns, ld = plan->total, dim = args->key_dim;
  fetch_stream local = *into, *stream = &local;
  for (int64_t g = 0; g < args->kv_heads; g++)
    for (int64_t c = 0, columns; c < group; c += columns) {
      const real *q = repeated_of(plan, space->repeated, g * group + c);
      real *to = space->scores + g * group + c;
      columns = chunk_of(group - c);
      FOR_COLUMNS(columns, SCORE_CASE)
    }
  *into = local;
}

void attend_group_scores(const ch_attend *args, const few_plan *plan, const few_block *block,
                         const few_space *space, fetch_stream *stream) {
  if (block->keys.dtype == CH_F16)
    all_scores(CH_F16, args, plan, block, space, stream);
  else if (block->keys.dtype == CH_BF16)
    all_scores(CH_BF16, args, plan, block, space, stream);
  else
    all_scores(CH_KERNEL_DTYPE, args, plan, block, space, stream);
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

fetch_stream attend_group_stream(const ch_attend *args, const few_plan *plan, const few_block *block) {
  fetch_stream stream = {.count = 0};
  for (int p = 0; p < CH_MAX_STATE_PARTS && block->coming > 0; p++) {
    const ch_state_view *part = &args->parts[p];
    if (!part->data || (p > 0 && part->data == args->parts[p - 1].data)) continue;
    int64_t size = (int64_t)ch_dtype_size(part->dtype);
    int64_t at = block->sequence * part->sequence_stride + (block->first + block->count) * part->token_stride;
    const char *begin = (const char *)part->data + at * size;
    int64_t bytes = block->coming * part->token_stride * size;
    stream.later[stream.count].begin = begin;
    stream.later[stream.count++].end = begin + bytes;
    stream.lines += (bytes + 63) / 64;
  }
  for (int64_t c = 0, columns; c < plan->group_columns; c += columns) {
    columns = chunk_of(plan->group_columns - c);
    int64_t vectors = TILE_VECTORS_OF(columns),
            tiles = (block->count + vectors * KEYS - 1) / (vectors * KEYS);
    stream.calls += tiles * (args->key_dim / EACH) +
                    block->count * ((args->value_dim + vectors * VL - 1) / (vectors * VL));
  }
  stream.calls *= args->kv_heads;
  return stream;
}
