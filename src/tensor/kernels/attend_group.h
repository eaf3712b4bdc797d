/* Several columns that share a key-value head: their register tiles, and the next block's memory asked for meanwhile. */
#ifndef CH_KERNELS_ATTEND_GROUP_H
#define CH_KERNELS_ATTEND_GROUP_H

#include "tensor/kernels/asking.h"
#include "tensor/kernels/attend_few.h"

/* A vector holds EACH elements of KEYS keys. */
enum { EACH = VL < 8 ? VL : 8, KEYS = VL / EACH };

/* Columns whose sums are in registers at once, and beside how many of them there is room for how many vectors of keys or
   of values: columns * vectors sums, the vectors, and a register for queries or weights. */
enum { MOST_COLUMNS = VEC_BYTES == 64 ? 14 : 6, MOST_VECTORS = 4, TILE_KEYS = MOST_VECTORS * KEYS };
#define TILE_VECTORS_OF(columns) ((columns) <= (VEC_BYTES == 64 ? 6 : 2) ? 4 : 2)

/* A group's columns in chunks that fit in registers, of sizes that there are tiles for: 2 … 8, 10, 12, 14. */
static inline int64_t chunk_of(int64_t left) {
  int64_t chunks = (left + MOST_COLUMNS - 1) / MOST_COLUMNS;
  if (chunks == 1 && left > 8 && left % 2 != 0) chunks = 2;
  return (left + chunks - 1) / chunks;
}

/* With few columns arithmetic is short of what memory takes, and its order is what counts. */
static inline bool has_few_columns(int64_t columns) {
  return columns <= MOST_COLUMNS && TILE_VECTORS_OF(columns) == 4;
}

/* The sizes of chunks, for a type of states; and the types, all of which have them. */
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

/* Memory that will be needed soon is asked for in even shares over the `calls` calls of the innermost loops. While more is
   under way than the processor keeps track of, it forgets requests: so each is made twice, far ahead and nearer. */
enum { FAR_AHEAD = 16 * 1024, NEAR_AHEAD = 8 * 1024 };
typedef struct fetch_stream {
  const char *next, *end;
  int64_t share;        /* lines a call */
  int64_t lines, calls; /* to go in all */
  struct {
    const char *begin, *end;
  } later[CH_MAX_STATE_PARTS];
  int count, taken;
} fetch_stream;

ALWAYS_INLINE void fetch_step(const bool twice, fetch_stream *stream) {
  for (int64_t i = stream->share; i > 0; i--, stream->next += 64)
    ask_for_line(stream->next, FAR_AHEAD - NEAR_AHEAD, twice);
}

/* Before a loop of so many calls. */
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

#define attend_carve_group KERNEL(attend_carve_group)
#define attend_start_group KERNEL(attend_start_group)
#define attend_group_scores KERNEL(attend_group_scores)
#define attend_group_sums KERNEL(attend_group_sums)
#define attend_group_ask KERNEL(attend_group_ask)

void attend_carve_group(const few_plan *plan, carver *from, few_space *space);
/* Lays out the queries [total, key_padded] for the tiles. */
void attend_start_group(const few_plan *plan, int64_t heads, const few_space *space);
/* What to ask for during a block's scores, or its sums. */
void attend_group_ask(const ch_attend *args, const few_plan *plan, const few_block *block, bool sums,
                      fetch_stream *stream);
/* scores [count, total] of a block's keys and all columns; rows [columns, value_padded] += weights [count, total] times
   its values. */
void attend_group_scores(const ch_attend *args, const few_plan *plan, const few_block *block,
                         const few_space *space, fetch_stream *stream);
void attend_group_sums(const ch_attend *args, const few_plan *plan, const few_block *block,
                       const few_space *space, real *rows, fetch_stream *stream);

#endif
