/* GQA decode: register tiles for several columns that share a key-value head, and prefetching the next
   block. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_GQA_DECODE_H
#define CH_KERNELS_ATTENTION_ATTEND_GQA_DECODE_H

#include "tensor/kernels/vector/prefetch.h"
#include "tensor/kernels/attention/attend_split_kv.h"

/* A vector holds EACH elements of KEYS keys. */
enum { EACH = VL < 8 ? VL : 8, KEYS = VL / EACH };

/* MOST_COLUMNS is the number of columns whose sums fit in registers at once. TILE_VECTORS_OF is the number of
   vectors of keys or values that fit too: columns * vectors sums, the vectors, and one register for queries or
   weights. */
enum { MOST_COLUMNS = VEC_BYTES == 64 ? 14 : 6, MOST_VECTORS = 4, TILE_KEYS = MOST_VECTORS * KEYS };
#define TILE_VECTORS_OF(columns) ((columns) <= (VEC_BYTES == 64 ? 6 : 2) ? 4 : 2)

/* Returns the size of the next chunk of a group's columns: 2 … 8, 10, 12 or 14 with vectors of 64 bytes, else 2 … 6.
   Chunks of these sizes fit in registers and have a tile function. */
static inline int64_t chunk_of(int64_t left) {
  int64_t chunks = (left + MOST_COLUMNS - 1) / MOST_COLUMNS;
  if (chunks == 1 && left > 8 && left % 2 != 0) chunks = 2;
  return (left + chunks - 1) / chunks;
}

/* Returns true if memory bounds the work. The order of memory accesses then matters most. */
static inline bool has_few_columns(int64_t columns) {
  return columns <= MOST_COLUMNS && TILE_VECTORS_OF(columns) == 4;
}

/* FOR_COLUMNS lists the sizes of chunks for one type of states. FOR_STATES lists all types with all sizes. */
#if VEC_BYTES == 64
#define FOR_COLUMNS(EACH_SIZE, type)                                                                         \
  EACH_SIZE(type, 2)                                                                                         \
  EACH_SIZE(type, 3)                                                                                         \
  EACH_SIZE(type, 4)                                                                                         \
  EACH_SIZE(type, 5)                                                                                         \
  EACH_SIZE(type, 6)                                                                                         \
  EACH_SIZE(type, 7)                                                                                         \
  EACH_SIZE(type, 8)                                                                                         \
  EACH_SIZE(type, 10)                                                                                        \
  EACH_SIZE(type, 12)                                                                                        \
  EACH_SIZE(type, 14)
#else
#define FOR_COLUMNS(EACH_SIZE, type)                                                                         \
  EACH_SIZE(type, 2)                                                                                         \
  EACH_SIZE(type, 3)                                                                                         \
  EACH_SIZE(type, 4)                                                                                         \
  EACH_SIZE(type, 5)                                                                                         \
  EACH_SIZE(type, 6)
#endif
#define FOR_STATES(EACH_SIZE)                                                                                \
  FOR_COLUMNS(EACH_SIZE, CH_F16)                                                                             \
  FOR_COLUMNS(EACH_SIZE, CH_BF16)                                                                            \
  FOR_COLUMNS(EACH_SIZE, CH_Q8_0)                                                                            \
  FOR_COLUMNS(EACH_SIZE, CH_Q4_0)                                                                            \
  FOR_COLUMNS(EACH_SIZE, CH_KERNEL_DTYPE)

/* Prefetching that is spread evenly over the `calls` calls of the innermost loops. A processor drops
   prefetches while too many are outstanding, so with few columns each line is prefetched twice: far ahead and
   nearer. */
enum { FAR_AHEAD = 16 * 1024, NEAR_AHEAD = 8 * 1024 };
typedef struct fetch_stream {
  const char *next, *end; /* rest of the piece of memory that is prefetched now */
  int64_t share;          /* lines per call */
  int64_t lines, calls;   /* lines and calls that are left */
  struct {
    const char *begin, *end;
  } later[CH_MAX_STATE_PARTS]; /* pieces of memory, in order */
  int count, taken;            /* count: pieces in `later`; taken: pieces of `later` already begun */
} fetch_stream;

ALWAYS_INLINE void fetch_step(const bool twice, fetch_stream *stream) {
  for (int64_t i = stream->share; i > 0; i--, stream->next += 64)
    prefetch_line(stream->next, FAR_AHEAD - NEAR_AHEAD, twice);
}

/* Sets the number of lines that each of the next `calls` calls prefetches. */
ALWAYS_INLINE void begin_steps(fetch_stream *stream, int64_t calls) {
  if (stream->next >= stream->end && stream->taken < stream->count) {
    stream->next = stream->later[stream->taken].begin;
    stream->end = stream->later[stream->taken++].end;
  }
  stream->share = stream->next < stream->end && stream->calls > 0
                      ? (stream->lines + stream->calls - 1) / stream->calls
                      : 0;
  stream->lines -= stream->share * calls;
  stream->calls -= calls;
}

#define attend_gqa_allocate KERNEL(attend_gqa_allocate)
#define attend_gqa_start KERNEL(attend_gqa_start)
#define attend_gqa_scores KERNEL(attend_gqa_scores)
#define attend_gqa_sums KERNEL(attend_gqa_sums)
#define attend_gqa_prefetch KERNEL(attend_gqa_prefetch)

void attend_gqa_allocate(const decode_plan *plan, scratch_arena *arena, decode_space *space);
/* Lays out the queries [total, key_padded] for the tiles. */
void attend_gqa_start(const decode_plan *plan, int64_t heads, const decode_space *space);
/* Chooses the memory to prefetch during a block's scores, or during its sums. */
void attend_gqa_prefetch(const ch_attend *args, const decode_plan *plan, const decode_block *block, bool sums,
                         fetch_stream *stream);
/* Computes scores [count, total] of a block's keys and all columns. attend_gqa_sums then computes rows
   [columns, value_padded] += weights [count, total] times the block's values. */
void attend_gqa_scores(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                       const decode_space *space, fetch_stream *stream);
void attend_gqa_sums(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                     const decode_space *space, real *rows, fetch_stream *stream);

#endif
