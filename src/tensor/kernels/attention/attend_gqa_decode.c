/* GQA decode: attention over few queries, with several columns per key-value head, as a small matrix product
 * in registers.
 *
 * Scores: a vector holds EACH elements of KEYS keys, so that each score is a sum of only EACH lanes. Queries
 * are repeated for each key of a vector, in pieces that stay in L1. Weighted values: a row of values is
 * multiplied with all columns whose sums fit in registers. Groups of up to MOST_COLUMNS columns read keys and
 * values once; 16-bit elements and quantised blocks are widened as they are loaded. */
#include "tensor/kernels/attention/attend_gqa_decode.h"

/* --- queries -------------------------------------------------------------------------------------------- */

/* Bytes of repeated queries in a piece. A piece is a range of the head dimension. All keys are multiplied
   with a piece before the next piece. */
enum { QUERY_BYTES = 32 * 1024 };

static int64_t piece_of(int64_t columns) {
  return QUERY_BYTES / (columns * KEYS * (int64_t)sizeof(real)) / GROUP * GROUP;
}

void attend_gqa_allocate(const decode_plan *plan, scratch_arena *arena, decode_space *space) {
  space->repeated = arena_reals(arena, plan->total * plan->key_padded * KEYS);
  space->last_keys = arena_reals(arena, TILE_KEYS * round_up(plan->key_padded, VL));
}

/* Returns a column's repeated queries. They are stored in chunks of columns: [elements / EACH, columns, KEYS,
   EACH]. */
static const real *repeated_of(const decode_plan *plan, const real *repeated, int64_t column) {
  return repeated + column * plan->key_padded * KEYS;
}

void attend_gqa_start(const decode_plan *plan, int64_t heads, const decode_space *space) {
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

/* --- scores --------------------------------------------------------------------------------------------- */

/* Loads elements k … k+EACH-1 of KEYS keys. */
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

/* Returns the scales of the blocks of KEYS keys, each in the lanes of that key's elements. `first`: the first
   key's block. */
ALWAYS_INLINE vec take_scales(const char *first, int64_t stride) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  int16_t halves[2];
  memcpy(halves, first, 2), memcpy(halves + 1, first + stride, 2);
  return (vec)_mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi16(halves[0])),
                                                      _mm_set1_epi16(halves[1]), 1));
#else
  (void)stride;
  return splat_half(first);
#endif
}

/* Loads elements at … at+EACH-1 (`at` is a constant) of the blocks of KEYS keys, times their scales. */
ALWAYS_INLINE vec take_blocks(const ch_dtype dtype, const char *first, int64_t stride, const int at,
                              vec scales) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  const __m128i bytes = _mm_unpacklo_epi64(_mm_loadl_epi64(bytes_at(dtype, first, at)),
                                           _mm_loadl_epi64(bytes_at(dtype, first + stride, at)));
  return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(signed_bytes(dtype, bytes, at))) * scales;
#else
  (void)stride;
  return vector_of_integers(dtype, first, at) * scales;
#endif
}

/* Copies the last `left` elements of KEYS keys to `piece` as reals, each key's followed by zeros. The keys
   must not be block-quantised. */
static __attribute__((noinline)) void take_last(ch_dtype dtype, const char *keys, int64_t stride, int64_t k,
                                                int64_t left, real piece[VL]) {
  memset(piece, 0, VL * sizeof(real));
  for (int64_t i = 0; i < KEYS; i++)
    for (int64_t e = 0; e < left; e++)
      piece[i * EACH + e] = load_state(dtype, keys + i * stride, k + e, 1)[0];
}

/* Adds the products of EACH elements of the keys with `columns` columns. */
ALWAYS_INLINE void add_products(const int columns, const int vectors, const vec keys[MOST_VECTORS],
                                const real *q, vec sum[MOST_VECTORS][MOST_COLUMNS]) {
#pragma GCC unroll 14
  for (int c = 0; c < columns; c++) {
    vec line = load(q + c * VL);
    KEEP_LOADED(line);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sum[v][c] = vec_fma(keys[v], line, sum[v][c]);
  }
}

/* Rows of keys: `dim` elements per key from `keys` on, `stride` bytes apart. */
typedef struct key_rows {
  const char *keys;
  int64_t stride, dim;
} key_rows;

/* scores [KEYS * vectors, columns], `ld` apart, (+)= the products of the keys with the repeated queries.
   rows[1] has the last elements of the keys if they are stored elsewhere. */
ALWAYS_INLINE void score_tile(const ch_dtype dtype, const int columns, const key_rows rows[2], const real *q,
                              real *scores, int64_t ld, bool accumulate, fetch_stream *stream) {
  const int vectors = TILE_VECTORS_OF(columns);
  vec sum[MOST_VECTORS][MOST_COLUMNS];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++)
#pragma GCC unroll 14
    for (int c = 0; c < columns; c++) sum[v][c] = splat(0);
  const char *keys = rows[0].keys;
  int64_t stride = rows[0].stride, dim = rows[0].dim, k = 0;
  for (; is_block_quantised(dtype) && k < dim; k += GROUP) { /* block-quantised keys have no tail */
    const char *block = keys + bytes_of(dtype, k);
    vec scales[MOST_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) scales[v] = take_scales(block + v * KEYS * stride, stride);
#pragma GCC unroll 16
    for (int at = 0; at < GROUP; at += EACH, q += columns * VL) {
      fetch_step(has_few_columns(columns), stream);
      vec taken[MOST_VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++)
        taken[v] = take_blocks(dtype, block + v * KEYS * stride, stride, at, scales[v]);
      add_products(columns, vectors, taken, q, sum);
    }
  }
  for (int r = 0; !is_block_quantised(dtype);
       r = 1, keys = rows[1].keys, stride = rows[1].stride, dim = rows[1].dim, k = 0) {
    for (; k + EACH <= dim; k += EACH, q += columns * VL) {
      fetch_step(has_few_columns(columns), stream);
      vec taken[MOST_VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) taken[v] = take_keys(dtype, keys + v * KEYS * stride, stride, k);
      add_products(columns, vectors, taken, q, sum);
    }
    if (r == 1 || rows[1].dim == 0) break;
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

/* Finds `part` elements from element `k` on of a head's keys. */
static inline void find_rows(const ch_tiles *tiles, int64_t dim, int64_t head, int64_t k, int64_t part,
                             key_rows rows[2]) {
  const ch_dtype dtype = tiles->keys.dtype;
  const int64_t own = dim - tiles->tail_dim;
  const int64_t before = k < own ? own - k : 0, in_keys = part < before ? part : before;
  const key_rows keys = {tile_row(&tiles->keys, head, 0) + bytes_of(dtype, k),
                         bytes_of(dtype, tiles->keys.stride), in_keys};
  rows[1] = keys;
  rows[1].dim = 0; /* empty unless the keys have a tail */
  if (in_keys == part) {
    rows[0] = keys;
    return;
  }
  const int64_t skipped = k + in_keys - own;
  const key_rows tail = {tile_row(&tiles->tail, head, 0) + bytes_of(dtype, skipped),
                         bytes_of(dtype, tiles->tail.stride), part - in_keys};
  rows[0] = in_keys > 0 ? keys : tail;
  if (in_keys > 0) rows[1] = tail;
}

/* Copies the last keys of a block, which are fewer than a tile, and fills the rest of the tile with zeros. */
static __attribute__((noinline)) void copy_last(int64_t tile, key_rows rows[2], int64_t left, ch_dtype dtype,
                                                real *space) {
  char *to = (char *)space;
  memset(to, 0, (size_t)(tile * bytes_of(dtype, rows[0].dim + rows[1].dim)));
  for (int r = 0; r < 2; to += tile * bytes_of(dtype, rows[r++].dim)) {
    const int64_t bytes = bytes_of(dtype, rows[r].dim);
    for (int64_t i = 0; i < left; i++)
      memcpy(to + i * bytes, rows[r].keys + i * rows[r].stride, (size_t)bytes);
    rows[r].keys = to;
    rows[r].stride = bytes;
  }
}

/* Computes the scores of one chunk of columns for some heads. For each piece of the head dimension, it reads
   the keys tile by tile, in their order in memory. */
ALWAYS_INLINE void score_chunk(const ch_dtype dtype, const int columns, const ch_attend *args,
                               const decode_plan *plan, const decode_block *block, int64_t column,
                               int64_t head, int64_t heads, const decode_space *space, fetch_stream *stream) {
  const int64_t tile = TILE_VECTORS_OF(columns) * KEYS, count = block->count, group = plan->group_columns;
  const int64_t dim = args->key_dim, most = piece_of(columns), ld = plan->total;
  fetch_stream local = *stream;
  for (int64_t k = 0; k < dim; k += most) {
    const int64_t part = dim - k < most ? dim - k : most;
    key_rows first[2], next[2] = {{0}};
    find_rows(&block->tiles, dim, head, k, part, first);
    if (heads > 1) find_rows(&block->tiles, dim, head + 1, k, part, next);
    const int64_t apart[2] = {next[0].keys - first[0].keys, next[1].keys - first[1].keys};
    for (int64_t t = 0; t < count;
         t += tile, first[0].keys += tile * first[0].stride, first[1].keys += tile * first[1].stride) {
      const real *q = repeated_of(plan, space->repeated, head * group + column) + k * columns * KEYS;
      real *scores = space->scores + t * ld + head * group + column;
      key_rows rows[2] = {first[0], first[1]};
      for (int64_t g = 0; g < heads; g++) {
        key_rows last[2] = {rows[0], rows[1]};
        if (t + tile > count) copy_last(tile, last, count - t, dtype, space->last_keys);
        begin_steps(&local, part / EACH);
        score_tile(dtype, columns, last, q, scores, ld, k > 0, &local);
        q += group * plan->key_padded * KEYS;
        scores += group;
        rows[0].keys += apart[0];
        rows[1].keys += apart[1];
      }
    }
  }
  *stream = local;
}

/* Each type and number of columns has its own function. In one function the compiler would run out of
   registers. */
typedef void score_function(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                            int64_t column, int64_t head, int64_t heads, const decode_space *space,
                            fetch_stream *stream);
#define SCORE_NAME2(type, columns) scores_##type##_##columns
#define SCORE_NAME(type, columns) SCORE_NAME2(type, columns)
#define SCORE_FUNCTION(type, columns)                                                                        \
  static __attribute__((noinline)) void SCORE_NAME(type, columns)(                                           \
      const ch_attend *args, const decode_plan *plan, const decode_block *block, int64_t column,             \
      int64_t head, int64_t heads, const decode_space *space, fetch_stream *stream) {                        \
    score_chunk(type, columns, args, plan, block, column, head, heads, space, stream);                       \
  }
FOR_STATES(SCORE_FUNCTION)

#define SCORE_CHOICE(type, size)                                                                             \
  if (dtype == (type) && columns == (size)) return SCORE_NAME(type, size);

static score_function *score_of(ch_dtype dtype, int64_t columns) {
  FOR_STATES(SCORE_CHOICE)
  return NULL;
}

/* Returns the number of heads whose queries fit in L1 together. */
static int64_t heads_at_once(const ch_attend *args, const decode_plan *plan) {
  int64_t heads = QUERY_BYTES / 2 / (plan->group_columns * plan->key_padded * KEYS * (int64_t)sizeof(real));
  return heads < 1 ? 1 : heads < args->kv_heads ? heads : args->kv_heads;
}

void attend_gqa_scores(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                       const decode_space *space, fetch_stream *stream) {
  const int64_t most = heads_at_once(args, plan);
  attend_gqa_prefetch(args, plan, block, false, stream);
  for (int64_t g = 0, heads; g < args->kv_heads; g += heads) {
    heads = args->kv_heads - g < most ? args->kv_heads - g : most;
    for (int64_t c = 0, columns; c < plan->group_columns; c += columns) {
      columns = chunk_of(plan->group_columns - c);
      score_of(block->tiles.keys.dtype, columns)(args, plan, block, c, g, heads, space, stream);
    }
  }
}

/* --- prefetching ---------------------------------------------------------------------------------------- */

static void add_piece(fetch_stream *stream, const char *begin, int64_t bytes) {
  stream->later[stream->count].begin = begin;
  stream->later[stream->count++].end = begin + bytes;
  stream->lines += (bytes + 63) / 64;
}

/* Adds as many bytes as `count` rows of a tile have. They begin FAR_AHEAD bytes, rounded up to whole rows,
   after its start. */
static void add_tile(fetch_stream *stream, const ch_tile *tile, int64_t count) {
  int64_t row = bytes_of(tile->dtype, tile->stride);
  add_piece(stream, (const char *)tile->data + (FAR_AHEAD + row - 1) / row * row, count * row);
}

/* Adds all states of the next block, which every producer reads. */
static void add_parts(fetch_stream *stream, const ch_attend *args, const decode_block *block) {
  for (int p = 0; p < CH_MAX_STATE_PARTS && block->coming > 0; p++) {
    const ch_state_view *part = &args->parts[p];
    if (!part->data || (p > 0 && part->data == args->parts[p - 1].data)) continue;
    int64_t at = ch_state_at(part, block->sequence, block->first + block->count);
    add_piece(stream, (const char *)part->data + ch_dtype_bytes(part->dtype, at),
              (int64_t)ch_dtype_bytes(part->dtype, block->coming * part->token_stride));
  }
}

static int64_t score_calls(const ch_attend *args, const decode_plan *plan, const decode_block *block) {
  int64_t calls = 0;
  for (int64_t c = 0, columns; c < plan->group_columns; c += columns) {
    columns = chunk_of(plan->group_columns - c);
    int64_t tile = TILE_VECTORS_OF(columns) * KEYS;
    calls += (block->count + tile - 1) / tile * (args->key_dim / EACH);
  }
  return calls * args->kv_heads;
}

static int64_t sum_calls(const ch_attend *args, const decode_plan *plan, const decode_block *block) {
  int64_t calls = 0;
  for (int64_t c = 0, columns; c < plan->group_columns; c += columns) {
    columns = chunk_of(plan->group_columns - c);
    int64_t elements = TILE_VECTORS_OF(columns) * VL;
    calls += block->count * ((args->value_dim + elements - 1) / elements);
  }
  return calls * args->kv_heads;
}

/* Chooses the memory to prefetch: the keys or values a little ahead of the loop, or the whole next block,
   spread over the work on this block. The whole block is better if tiles are produced from states, because
   all states of a block are then needed at once. It is also better with many columns, or if values share
   memory with keys, because the loops then have long stretches without reading. */
void attend_gqa_prefetch(const ch_attend *args, const decode_plan *plan, const decode_block *block, bool sums,
                         fetch_stream *stream) {
  const ch_tiles *tiles = &block->tiles;
  bool shared = tiles->keys.data == tiles->values.data; /* if true, the sums read no other memory */
  if (!plan->in_place || !has_few_columns(plan->group_columns) || shared) {
    if (sums) return;
    *stream = (fetch_stream){.calls = score_calls(args, plan, block) + sum_calls(args, plan, block)};
    add_parts(stream, args, block);
    return;
  }
  *stream = (fetch_stream){.calls = sums ? sum_calls(args, plan, block) : score_calls(args, plan, block)};
  if (sums)
    add_tile(stream, &tiles->values, block->count);
  else
    add_tile(stream, &tiles->keys, block->count);
  if (!sums && tiles->tail_dim > 0) add_tile(stream, &tiles->tail, block->count);
}
