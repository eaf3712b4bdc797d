/* Attention over factors of keys and values (tensor/factor_attend.h). Queries are few, so each query's tokens
 * are divided into parts, one for every thread if there are enough. A part processes its tokens in blocks.
 * One product multiplies the rows B_k of a block with the queries of all heads, and each head combines the
 * products into its scores. After a running softmax, another product multiplies the rows B_v with each head's
 * weights. */
#include "tensor/kernels/attention/attend_columns.h"
#include "tensor/kernels/vector/stored_states.h"
#include "tensor/kernels/vector/lanes.h"
#include "tensor/kernels/products/tile_product.h"

enum { TOKENS = 64 };

/* A part's running sums, per head. */
typedef struct factor_sums {
  /* Maximum [padded], sum of weights [padded], and weighted values [padded, dim in whole vectors]. */
  real *max, *sum, *rows;
} factor_sums;

/* A thread's working memory; heads are padded to whole vectors in rows of scores. */
typedef struct factor_space {
  real *q;                  /* [dim, padded], scaled */
  real *factor[CH_FACTORS]; /* [TOKENS, width in whole blocks], used if the cache has another type */
  real *products, *scores;  /* [TOKENS * k_rank, padded], [TOKENS, padded] */
  real *weights;            /* [TOKENS * v_rank, padded] */
} factor_space;

/* Tokens first … end-1 of a sequence, for one of its queries. */
typedef struct factor_part {
  int64_t sequence, query, first, end;
  int64_t first_key, end_sink; /* the query sees the keys from first_key on, and the keys before end_sink */
} factor_part;

static int64_t padded_heads(const ch_factor_attend *a) {
  return round_up(a->heads, VL);
}

/* Returns the number of rows of a product over heads: whole tiles, but at most the padded heads. Rows past
   the last head have weights of zero. */
static int64_t whole_rows(const ch_factor_attend *a) {
  int64_t rows = round_up(a->heads, TILE_ROWS);
  return rows < padded_heads(a) ? rows : padded_heads(a);
}

static int64_t rank_of(const ch_factor_attend *a, int factor) {
  return factor == CH_FACTOR_A_K || factor == CH_FACTOR_B_K ? a->k_rank : a->v_rank;
}

static int64_t width_of(const ch_factor_attend *a, int factor) {
  bool of_heads = factor == CH_FACTOR_A_K || factor == CH_FACTOR_A_V;
  return rank_of(a, factor) * (of_heads ? a->heads : a->dim);
}

static void allocate_sums(const ch_factor_attend *a, scratch_arena *arena, factor_sums *s) {
  s->max = arena_reals(arena, padded_heads(a));
  s->sum = arena_reals(arena, padded_heads(a));
  s->rows = arena_reals(arena, padded_heads(a) * round_up(a->dim, VL));
}

static void allocate_space(const ch_factor_attend *a, scratch_arena *arena, factor_space *s) {
  int64_t padded = padded_heads(a);
  s->q = arena_reals(arena, a->dim * padded);
  for (int f = 0; f < CH_FACTORS; f++)
    s->factor[f] = arena_reals(arena, TOKENS * round_up(width_of(a, f), GROUP) + VL);
  s->products = arena_reals(arena, TOKENS * a->k_rank * padded);
  s->scores = arena_reals(arena, TOKENS * padded);
  s->weights = arena_reals(arena, TOKENS * a->v_rank * padded);
}

/* --- blocks --------------------------------------------------------------------------------------------- */

/* Returns `count` rows of a factor as reals, *stride apart: in place, or widened. */
static const real *take_rows(const ch_factor_attend *a, int factor, int64_t sequence, int64_t first,
                             int64_t count, const factor_space *s, int64_t *stride) {
  const ch_state_view *view = &a->factor[factor];
  int64_t width = width_of(a, factor), at = ch_state_at(view, sequence, first);
  const char *rows = (const char *)view->data + ch_dtype_bytes(view->dtype, at);
  *stride = view->token_stride;
  if (view->dtype == CH_KERNEL_DTYPE) return (const real *)(const void *)rows;
  real *wide = s->factor[factor];
  if (ch_dtype_is_block_quantised(view->dtype)) { /* unpacks blocks, then closes the gaps between rows */
    int64_t stored = round_up(width, GROUP);
    KERNEL(unpack_states)
    (count, stored, rows, (int64_t)ch_dtype_bytes(view->dtype, view->token_stride), view->dtype, wide);
    for (int64_t t = 1; t < count && stored != width; t++)
      memmove(wide + t * width, wide + t * stored, (size_t)width * sizeof(real));
  } else {
    int64_t elements = count * width; /* rows are adjacent */
    for (int64_t i = 0; i < elements; i += VL)
      store(wide + i, view->dtype == CH_F16 ? load_state(CH_F16, rows, i, elements - i)
                                            : load_state(CH_BF16, rows, i, elements - i));
  }
  *stride = width;
  return wide;
}

/* Prefetches a token's rows of two factors. The loops over a block call it for each token of the next block. */
static inline void fetch_token(const ch_factor_attend *a, const factor_part *part, int64_t token, int first,
                               int second) {
  const int factors[] = {first, second};
  if (token >= part->end) return;
  for (int i = 0; i < 2; i++) {
    const ch_state_view *view = &a->factor[factors[i]];
    int64_t at = ch_state_at(view, part->sequence, token);
    fetch((const char *)view->data + ch_dtype_bytes(view->dtype, at),
          (int64_t)ch_dtype_bytes(view->dtype, view->token_stride));
  }
}

/* Loads the factors of `rank` (a constant) products for heads h … h + VL - 1: lane j of vector r is take[h +
   j, r]. */
ALWAYS_INLINE void split_take(const int64_t rank, const real *take, int64_t h, int64_t heads, vec part[4]) {
  const int64_t left = (heads - h) * rank;
  const real *from = take + h * rank;
  vec whole[4];
#pragma GCC unroll 4
  for (int64_t r = 0; r < rank; r++)
    whole[r] = left > r * VL ? load_some(from + r * VL, left - r * VL) : splat(0);
  if (rank == 1) part[0] = whole[0];
  if (rank == 2) {
    part[0] = even_lanes(whole[0], whole[1]);
    part[1] = odd_lanes(whole[0], whole[1]);
  }
  if (rank == 4) {
    const vec low = even_lanes(whole[0], whole[1]), high = even_lanes(whole[2], whole[3]);
    const vec second = odd_lanes(whole[0], whole[1]), last = odd_lanes(whole[2], whole[3]);
    part[0] = even_lanes(low, high);
    part[2] = odd_lanes(low, high);
    part[1] = even_lanes(second, last);
    part[3] = odd_lanes(second, last);
  }
}

/* scores[h] = sum over r of take[h, r] products[r, h]; zeros after the last head. */
ALWAYS_INLINE void combine_scores(const int64_t rank, int64_t heads, int64_t padded, const real *take,
                                  const real *products, real *restrict scores) {
  for (int64_t h = 0; h < padded; h += VL) {
    vec part[4], sum = splat(0);
    split_take(rank, take, h, heads, part);
#pragma GCC unroll 4
    for (int64_t r = 0; r < rank; r++) sum = vec_fma(part[r], load(products + r * padded + h), sum);
    store(scores + h, sum);
  }
}

/* weights[r, h] = take[h, r] p[h]; zeros after the last head. */
ALWAYS_INLINE void spread_weights(const int64_t rank, int64_t heads, int64_t padded, const real *take,
                                  const real *p, real *restrict weights) {
  for (int64_t h = 0; h < padded; h += VL) {
    vec part[4];
    split_take(rank, take, h, heads, part);
#pragma GCC unroll 4
    for (int64_t r = 0; r < rank; r++) store(weights + r * padded + h, part[r] * load(p + h));
  }
}

/* Like combine_scores, for any rank, head by head. */
static void combine_any(int64_t rank, int64_t heads, int64_t padded, const real *take, const real *products,
                        real *restrict scores) {
  memset(scores, 0, (size_t)padded * sizeof(real));
  for (int64_t r = 0; r < rank; r++)
    for (int64_t h = 0; h < heads; h++)
      scores[h] = real_fma(take[h * rank + r], products[r * padded + h], scores[h]);
}

static void spread_any(int64_t rank, int64_t heads, int64_t padded, const real *take, const real *p,
                       real *restrict weights) {
  memset(weights, 0, (size_t)(rank * padded) * sizeof(real));
  for (int64_t r = 0; r < rank; r++)
    for (int64_t h = 0; h < heads; h++) weights[r * padded + h] = take[h * rank + r] * p[h];
}

static void combine(const ch_factor_attend *a, const real *take, const real *products, real *scores) {
  const int64_t padded = padded_heads(a);
  switch (a->k_rank) {
  case 1:
    combine_scores(1, a->heads, padded, take, products, scores);
    break;
  case 2:
    combine_scores(2, a->heads, padded, take, products, scores);
    break;
  case 4:
    combine_scores(4, a->heads, padded, take, products, scores);
    break;
  default:
    combine_any(a->k_rank, a->heads, padded, take, products, scores);
  }
}

static void spread(const ch_factor_attend *a, const real *take, const real *p, real *weights) {
  const int64_t padded = padded_heads(a);
  switch (a->v_rank) {
  case 1:
    spread_weights(1, a->heads, padded, take, p, weights);
    break;
  case 2:
    spread_weights(2, a->heads, padded, take, p, weights);
    break;
  case 4:
    spread_weights(4, a->heads, padded, take, p, weights);
    break;
  default:
    spread_any(a->v_rank, a->heads, padded, take, p, weights);
  }
}

static void score_block(const ch_factor_attend *a, const factor_part *part, int64_t first, int64_t count,
                        const factor_space *s) {
  int64_t padded = padded_heads(a), taken, stride;
  const real *take = take_rows(a, CH_FACTOR_A_K, part->sequence, first, count, s, &taken),
             *shared = take_rows(a, CH_FACTOR_B_K, part->sequence, first, count, s, &stride);
  KERNEL(tile_product)
  (count * a->k_rank, padded, a->dim, shared, a->dim, 1, s->q, padded, s->products, padded, false);
  const ch_row_places *places = a->places ? &a->places[part->sequence] : NULL;
  int64_t position = (a->first_token ? a->first_token : a->past)[part->sequence] + part->query;
  for (int64_t t = 0; t < count; t++) {
    real *scores = s->scores + t * padded;
    const real *products = s->products + t * a->k_rank * padded;
    fetch_token(a, part, first + TOKENS + t, CH_FACTOR_A_K, CH_FACTOR_B_K);
    combine(a, take + t * taken, products, scores);
    for (int64_t h = 0; a->soft_cap > 0 && h < padded; h += VL)
      store(scores + h, soft_capped(load(scores + h), (real)a->soft_cap));
    for (int64_t h = 0; a->slopes && h < a->heads; h++)
      scores[h] -= (real)a->slopes[h] * (real)(position - ch_token_of_row(places, first + t));
    for (int64_t h = 0; first + t >= part->end_sink && first + t < part->first_key && h < a->heads; h++)
      scores[h] = -(real)INFINITY;
  }
}

/* Turns scores into weights on the scale of the running maximum, and rescales the sums so far if the maximum
   has grown. */
static void weigh_block(const ch_factor_attend *a, int64_t count, const factor_space *s,
                        const factor_sums *sums) {
  int64_t padded = padded_heads(a), width = round_up(a->dim, VL);
  for (int64_t v = 0; v < padded; v += VL) {
    vec before = load(sums->max + v), peak = before;
    for (int64_t t = 0; t < count; t++) peak = vec_max(load(s->scores + t * padded + v), peak);
    vec factor = vec_exp(before - peak), sum = load(sums->sum + v) * factor;
    for (int64_t t = 0; t < count; t++) {
      vec weight = vec_exp(load(s->scores + t * padded + v) - peak);
      store(s->scores + t * padded + v, weight);
      sum += weight;
    }
    store(sums->max + v, peak);
    store(sums->sum + v, sum);
    for (int64_t j = 0; j < VL && v + j < a->heads; j++) {
      if (factor[j] == 1) continue;
      real *row = sums->rows + (v + j) * width;
      for (int64_t i = 0; i < width; i += VL) store(row + i, load(row + i) * factor[j]);
    }
  }
}

static void add_block(const ch_factor_attend *a, const factor_part *part, int64_t first, int64_t count,
                      const factor_space *s, const factor_sums *sums) {
  int64_t padded = padded_heads(a), taken, stride;
  const real *take = take_rows(a, CH_FACTOR_A_V, part->sequence, first, count, s, &taken),
             *shared = take_rows(a, CH_FACTOR_B_V, part->sequence, first, count, s, &stride);
  for (int64_t t = 0; t < count; t++) {
    fetch_token(a, part, first + TOKENS + t, CH_FACTOR_A_V, CH_FACTOR_B_V);
    spread(a, take + t * taken, s->scores + t * padded, s->weights + t * a->v_rank * padded);
  }
  KERNEL(tile_product)
  (whole_rows(a), a->dim, count * a->v_rank, s->weights, 1, padded, shared, a->dim, sums->rows,
   round_up(a->dim, VL), true);
}

/* --- parts ---------------------------------------------------------------------------------------------- */

static void start_part(const ch_factor_attend *a, const factor_part *part, const factor_space *s,
                       const factor_sums *sums) {
  int64_t padded = padded_heads(a);
  const real *q = (const real *)a->q + (part->sequence * a->queries + part->query) * a->heads * a->dim;
  memset(s->q, 0, (size_t)(a->dim * padded) * sizeof(real));
  for (int64_t h = 0; h < a->heads; h++)
    for (int64_t i = 0; i < a->dim; i++) s->q[i * padded + h] = q[h * a->dim + i] * (real)a->scale;
  memset(sums->rows, 0, (size_t)(padded * round_up(a->dim, VL)) * sizeof(real));
  for (int64_t h = 0; h < padded; h++) {
    sums->max[h] = -(real)INFINITY;
    sums->sum[h] = 0;
  }
}

static void read_part(const ch_factor_attend *a, const factor_part *part, const factor_space *s,
                      const factor_sums *sums) {
  start_part(a, part, s, sums);
  for (int64_t first = part->first; first < part->end; first += TOKENS) {
    int64_t count = part->end - first < TOKENS ? part->end - first : TOKENS;
    if (first >= part->end_sink && first + count <= part->first_key) continue;
    score_block(a, part, first, count, s);
    weigh_block(a, count, s, sums);
    add_block(a, part, first, count, s, sums);
  }
}

/* Returns the tokens that a query sees. */
static factor_part tokens_of(const ch_factor_attend *a, int64_t sequence, int64_t query) {
  int64_t start = a->document_start ? a->document_start[sequence * a->queries + query] : 0;
  if (start < 0) start = 0;
  factor_part part = {sequence, query, start, a->past[sequence] + query + 1, start, start};
  if (a->window == 0 || part.end - a->window <= start) return part;
  part.first_key = part.end - a->window;
  part.end_sink = start + a->sinks < part.first_key ? start + a->sinks : part.first_key;
  if (a->sinks == 0) part.first = part.end_sink = part.first_key;
  return part;
}

/* Returns the number of parts that a query's tokens are divided into. The number depends only on the query's
   own work and the planned number of threads, so that the query's result does not depend on other queries. */
static int64_t parts_of(const ch_factor_attend *a, const factor_part *all) {
  int64_t tokens = all->end - all->first, most = a->team->threads;
  int64_t parts = tokens * a->heads * (a->k_rank + a->v_rank) * a->dim / CH_PARALLEL_ELEMENTS;
  if (parts > tokens / 16) parts = tokens / 16;
  return parts < 2 ? 1 : parts < most ? parts : most;
}

static size_t bytes_of_space(const ch_factor_attend *a) {
  scratch_arena arena = {0};
  factor_space space;
  allocate_space(a, &arena, &space);
  return arena.used;
}

static size_t bytes_of_sums(const ch_factor_attend *a) {
  scratch_arena arena = {0};
  factor_sums sums;
  allocate_sums(a, &arena, &sums);
  return arena.used;
}

/* Returns the sums of part `part` of query `unit`. They follow the threads' working memory. */
static factor_sums sums_at(const ch_factor_attend *a, int64_t unit, int64_t part) {
  scratch_arena arena = arena_at(a->scratch);
  arena.base += (size_t)a->team->threads * bytes_of_space(a) +
                (size_t)(unit * a->team->threads + part) * bytes_of_sums(a);
  factor_sums sums;
  allocate_sums(a, &arena, &sums);
  return sums;
}

static void read_number(const ch_factor_attend *a, int64_t unit, int64_t part, int thread) {
  factor_part all = tokens_of(a, unit / a->queries, unit % a->queries), own = all;
  int64_t parts = parts_of(a, &all), begin, end;
  if (part >= parts) return;
  thread_range(all.end - all.first, (int)part, (int)parts, &begin, &end);
  own.first = all.first + begin;
  own.end = all.first + end;
  scratch_arena arena = arena_at(a->scratch);
  arena.base += (size_t)thread * bytes_of_space(a);
  factor_space space;
  allocate_space(a, &arena, &space);
  factor_sums sums = sums_at(a, unit, part);
  read_part(a, &own, &space, &sums);
}

/* Adds up the parts of a query in the order of their tokens, and writes its output. */
static void write_number(const ch_factor_attend *a, int64_t unit) {
  factor_part all = tokens_of(a, unit / a->queries, unit % a->queries);
  int64_t parts = parts_of(a, &all), width = round_up(a->dim, VL);
  for (int64_t h = 0; h < a->heads; h++) {
    real *out = (real *)a->out + (unit * a->heads + h) * a->dim, max = -(real)INFINITY, sum = 0;
    memset(out, 0, (size_t)a->dim * sizeof(real));
    for (int64_t p = 0; p < parts; p++) max = (real)fmax((double)max, (double)sums_at(a, unit, p).max[h]);
    if (a->sink_logits) {
      real z = ((const real *)a->sink_logits)[h];
      if (z > max) max = z;
      sum = real_exp(z - max);
    }
    for (int64_t p = 0; p < parts && max > -(real)INFINITY; p++) {
      factor_sums part = sums_at(a, unit, p);
      real factor = real_exp(part.max[h] - max);
      const real *row = part.rows + h * width;
      sum = real_fma(part.sum[h], factor, sum);
      for (int64_t i = 0; i < a->dim; i += VL) {
        vec more = load(row + i), so_far = load_some(out + i, a->dim - i);
        store_some(out + i, vec_fma(more, splat(factor), so_far), a->dim - i);
      }
    }
    for (int64_t i = 0; i < a->dim && sum > 0; i++) out[i] /= sum;
  }
}

void KERNEL(factor_attend)(const ch_factor_attend *a) {
  int64_t units = a->sequences * a->queries, threads = a->team->threads, work = 0;
  for (int64_t u = 0; u < units; u++) {
    factor_part all = tokens_of(a, u / a->queries, u % a->queries);
    work += (all.end - all.first) * a->heads * (a->k_rank + a->v_rank) * a->dim;
  }
  const int parts = parts_of_team(a->team, work >= CH_PARALLEL_ELEMENTS);
#pragma omp parallel num_threads(a->team->workers) if (parts > 1)
  {
    EACH_PART(thread, parts)
    for (int64_t u = 0; u < units; u++) /* no thread gets the first parts of all queries */
      for (int64_t p = 0; p < threads; p++)
        if ((u + p) % parts == thread) read_number(a, u, p, thread);
#pragma omp barrier
    EACH_PART(thread, parts)
    for (int64_t u = thread; u < units; u += parts) write_number(a, u);
  }
}

size_t KERNEL(factor_attend_scratch)(const ch_factor_attend *a) {
  size_t threads = (size_t)a->team->threads;
  return threads * (bytes_of_space(a) + (size_t)(a->sequences * a->queries) * bytes_of_sums(a)) + 64;
}
