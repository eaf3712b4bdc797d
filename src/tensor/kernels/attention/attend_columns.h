/* Streaming attention's columns: queries side by side, the keys each one sees, their softmax over a block of
 * keys.
 *
 * Scores are stored transposed, S^T [keys, columns], a column being one query of one head. The running maximum
 * and sum over keys are then vertical: a vector holds the same statistic of VL columns, and nothing is ever
 * summed across its lanes. Columns are padded to whole vectors; a padding column sees no key. */
#ifndef CH_KERNELS_ATTENTION_ATTEND_COLUMNS_H
#define CH_KERNELS_ATTENTION_ATTEND_COLUMNS_H

#include "tensor/kernels/vector/lanes.h"
#include "tensor/kernels/vector/math.h"

/* A scratch arena: hands out pieces of the caller's scratch memory, each at the start of a cache line. With
   base NULL it only counts bytes. */
typedef struct scratch_arena {
  char *base;
  size_t used;
} scratch_arena;

static inline void *arena_take(scratch_arena *arena, int64_t count, size_t size) {
  void *piece = arena->base ? arena->base + arena->used : NULL;
  arena->used += ((size_t)count * size + 63) & ~(size_t)63;
  return piece;
}

static inline real *arena_reals(scratch_arena *arena, int64_t count) {
  return arena_take(arena, count, sizeof(real));
}

static inline scratch_arena arena_at(void *scratch) {
  return (scratch_arena){.base = scratch ? (char *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63) : NULL};
}

static inline int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/* The keys that each column sees: first_key … last_key, and before them sinks sink_key … sink_end - 1. ALiBi
   uses `position` and `slope`. All are reals, for vectors; whole numbers are exact to 2^24, or to 2^53 in
   F64. */
typedef struct query_columns {
  int64_t count, padded; /* columns, and their number rounded up to whole vectors */
  real *first_key, *last_key, *position, *slope, *sink_key, *sink_end;
  bool biased;                  /* true with ALiBi */
  const ch_row_places *places;  /* tokens of the sequence's rows, or NULL: row r is token r */
  int64_t first, end;           /* range of the keys that any column sees: first … end-1 */
  int64_t first_sink, end_sink; /* visible sinks: first_sink … end_sink-1 (may be empty) */
  int64_t all_first, all_end;   /* keys that every column sees: all_first … all_end-1 (may be empty) */
  real *max, *sum; /* running maximum and sum per column; the maximum may be up to STALE too low */
} query_columns;

static inline void allocate_columns(scratch_arena *arena, int64_t capacity, query_columns *c) {
  capacity = round_up(capacity, VL);
  c->first_key = arena_reals(arena, capacity);
  c->last_key = arena_reals(arena, capacity);
  c->position = arena_reals(arena, capacity);
  c->slope = arena_reals(arena, capacity);
  c->sink_key = arena_reals(arena, capacity);
  c->sink_end = arena_reals(arena, capacity);
  c->max = arena_reals(arena, capacity);
  c->sum = arena_reals(arena, capacity);
}

static inline void clear_columns(const ch_attend *args, query_columns *c) {
  c->count = c->padded = 0;
  c->biased = args->slopes != NULL;
  c->places = NULL;
  c->first = c->all_end = c->first_sink = INT64_MAX;
  c->end = c->all_first = c->end_sink = 0;
}

static inline int64_t tokens_before(const ch_attend *args, int64_t sequence) {
  return args->past ? args->past[sequence] : 0;
}

/* The keys that a query sees: first … end-1, and sinks sink … end_sink-1 before them. */
typedef struct visible_keys {
  int64_t first, end, sink, end_sink;
} visible_keys;

static inline visible_keys keys_of_query(const ch_attend *args, int64_t sequence, int64_t query) {
  int64_t own = tokens_before(args, sequence) + query;
  int64_t start = args->document_start ? args->document_start[sequence * args->queries + query] : 0;
  if (start < 0) start = 0;
  visible_keys keys = {start, args->causal ? own + 1 : own - query + args->queries, start, start};
  if (args->window > 0 && own - args->window >= start) {
    keys.first = own - args->window + 1;
    keys.end_sink = keys.first - start < args->sinks ? keys.first : start + args->sinks;
  }
  return keys;
}

static inline void add_column(const ch_attend *args, query_columns *c, int64_t sequence, int64_t query,
                              int64_t head) {
  const visible_keys keys = keys_of_query(args, sequence, query);
  int64_t past = args->first_token ? args->first_token[sequence] : tokens_before(args, sequence);
  int64_t i = c->count++;
  c->first_key[i] = (real)keys.first;
  c->last_key[i] = (real)(keys.end - 1);
  c->sink_key[i] = (real)keys.sink;
  c->sink_end[i] = (real)keys.end_sink;
  c->position[i] = (real)(past + query);
  c->slope[i] = args->slopes ? (real)args->slopes[head] : 0;
  if (args->places) c->places = &args->places[sequence];
  if (keys.first < c->first) c->first = keys.first;
  if (keys.first > c->all_first) c->all_first = keys.first;
  if (keys.end > c->end) c->end = keys.end;
  if (keys.end < c->all_end) c->all_end = keys.end;
  if (keys.sink == keys.end_sink) return;
  if (keys.sink < c->first_sink) c->first_sink = keys.sink;
  if (keys.end_sink > c->end_sink) c->end_sink = keys.end_sink;
}

/* Pads to whole vectors with columns that see nothing, and starts the statistics. */
static inline void finish_columns(query_columns *c) {
  c->padded = round_up(c->count, VL);
  for (int64_t i = c->count; i < c->padded; i++) {
    c->first_key[i] = 1;
    c->last_key[i] = c->position[i] = c->slope[i] = c->sink_key[i] = c->sink_end[i] = 0;
  }
  for (int64_t i = 0; i < c->padded; i++) {
    c->max[i] = -(real)INFINITY;
    c->sum[i] = 0;
  }
}

/* Returns the first key that any column may see. */
static inline int64_t first_seen(const query_columns *c) {
  return c->first_sink < c->first ? c->first_sink : c->first;
}

/* Returns true if any column may see any of the keys first … first+count-1. */
static inline bool sees_any(const query_columns *c, int64_t first, int64_t count) {
  return (first < c->end && first + count > c->first) ||
         (first < c->end_sink && first + count > c->first_sink);
}

/* Returns true if scores of a block need more than the product: a bias, or a mask in some column. */
static inline bool needs_mask(const query_columns *c, int64_t first, int64_t count) {
  return c->biased || first < c->all_first || first + count > c->all_end;
}

/* Returns the number of keys of the block first … first+count-1, up to the last key that any of the columns i … i+n-1
   sees. */
static inline int64_t rows_seen(const query_columns *c, int64_t i, int64_t n, int64_t first, int64_t count) {
  int64_t last = -1;
  for (int64_t end = i + n < c->count ? i + n : c->count; i < end; i++)
    if ((int64_t)c->last_key[i] > last) last = (int64_t)c->last_key[i];
  int64_t seen = last + 1 - first;
  return seen < 0 ? 0 : seen < count ? seen : count;
}

/* Returns the number of keys, from the block's first one on, that all of the columns i … i+n-1 see without
   masks or slopes. */
static inline int64_t rows_clear(const query_columns *c, int64_t i, int64_t n, int64_t first, int64_t count) {
  int64_t end = first + count;
  if (c->biased) return 0;
  for (int64_t last = i + n < c->count ? i + n : c->count; i < last; i++) {
    if ((int64_t)c->first_key[i] > first) return 0;
    if ((int64_t)c->last_key[i] + 1 < end) end = (int64_t)c->last_key[i] + 1;
  }
  return end > first ? end - first : 0;
}

/* The mask and ALiBi of a vector of columns. masked_score applies them to the scores of one key. */
typedef struct column_mask {
  vec first_key, last_key, position, slope, sink_key, sink_end;
  bool sinks;
  const ch_row_places *places;
} column_mask;

ALWAYS_INLINE column_mask load_mask(const query_columns *c, int64_t v) {
  return (column_mask){.first_key = load(c->first_key + v * VL),
                       .last_key = load(c->last_key + v * VL),
                       .position = load(c->position + v * VL),
                       .slope = load(c->slope + v * VL),
                       .sink_key = load(c->sink_key + v * VL),
                       .sink_end = load(c->sink_end + v * VL),
                       .sinks = c->end_sink > 0,
                       .places = c->places};
}

ALWAYS_INLINE vec masked_score(const column_mask *mask, vec score, int64_t row) {
  const vec key = splat((real)row),
            token = mask->places ? splat((real)ch_token_of_row(mask->places, row)) : key;
  score = vec_fnma(mask->slope, mask->position - token, score);
  ivec visible = (key >= mask->first_key) & (key <= mask->last_key);
  if (mask->sinks) visible |= (key >= mask->sink_key) & (key < mask->sink_end);
  return choose(visible, score, splat(-(real)INFINITY));
}

/* The largest lag of the running maximum behind the true one. Beyond it, sums are rescaled. Weights
   are at most e^STALE, and almost no block after the first needs rescaling. */
#define STALE 8

/* Writes the weights e^(score - base) of rows begin … end-1 of a vector of columns. Returns their sum added
   to `sum`. */
ALWAYS_INLINE vec weigh_rows(int64_t begin, int64_t end, const real *in, int64_t ld_in, real *out,
                             int64_t ld_out, vec base, vec sum) {
  for (int64_t r = begin; r < end; r++) {
    vec p = vec_exp_distance(load(in + r * ld_in), base);
    store(out + r * ld_out, p);
    sum += p;
  }
  return sum;
}

/* Online softmax over `rows` keys for vector v of columns: reads scores (row stride ld_scores), writes
   e^(score - max) as weights (row stride ld_weights; may be the same memory), and updates max and sum. The
   first `clear` rows need no mask. Returns true if the maximum moved. All sums so far must then be multiplied
   by `correction` (VL reals). */
ALWAYS_INLINE bool softmax_vector(const query_columns *c, int64_t v, int64_t first, int64_t clear,
                                  int64_t rows, const real *scores, int64_t ld_scores, real *weights,
                                  int64_t ld_weights, real *correction) {
  const real *in = scores + v * VL;
  real *out = weights + v * VL;
  vec lowest = splat(-(real)INFINITY), even = lowest, odd = lowest; /* maxima in two chains */
  int64_t row = 0;
  for (; row + 2 <= clear; row += 2) {
    even = vec_max(load(in + row * ld_scores), even);
    odd = vec_max(load(in + (row + 1) * ld_scores), odd);
  }
  if (row < clear) even = vec_max(load(in + row * ld_scores), even);
  if (clear < rows) {
    const column_mask mask = load_mask(c, v);
    for (row = clear; row < rows; row++) { /* masked scores are written where the weights will be */
      vec score = masked_score(&mask, load(in + row * ld_scores), first + row);
      store(out + row * ld_weights, score);
      even = vec_max(score, even);
    }
  }
  vec peak = vec_max(even, odd);
  vec old = load(c->max + v * VL), sum = load(c->sum + v * VL);
  ivec moved = peak > old + STALE;
  vec max = choose(moved, peak, old);
  /* A column that has seen no key yet has no maximum; any number will do. */
  vec base = choose(max == lowest, splat(0), max);
  bool any = any_lane(moved);
  if (any) {
    vec factor = vec_exp(old - base);
    store(correction, factor);
    store(c->max + v * VL, max);
    sum *= factor;
  }
  vec added = weigh_rows(0, clear, in, ld_scores, out, ld_weights, base, splat(0));
  added = weigh_rows(clear, rows, out, ld_weights, out, ld_weights, base, added);
  store(c->sum + v * VL, sum + added);
  return any;
}

/* Replaces maxima by log-sum-exps, and sums by the factors for the weighted sums. A column that saw nothing
   gets -infinity and 0. */
static inline void finish_sums(int64_t padded, real *max, real *sum) {
  for (int64_t i = 0; i < padded; i += VL) {
    vec total = load(sum + i);
    store(max + i, load(max + i) + vec_log(total));
    store(sum + i, choose(total == splat(0), splat(0), 1 / total));
  }
}

#endif
