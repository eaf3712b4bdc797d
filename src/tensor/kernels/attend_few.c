/* Streaming attention, forward, over few queries (decoding): bound by the memory the states are read from.
 *
 * The tokens of all sequences, laid end to end, are cut into one range per thread. A thread reads its tokens once, for
 * all heads, and keeps running sums per sequence it meets; sequences that more than one thread has a part of are put
 * together at the end, in the order of the tokens.
 */
#include "tensor/kernels/attend_panel.h"

/* Up to this many columns of a key-value head are taken as dot products with the keys, more as small matrix
   products. */
enum { DOT_COLUMNS = 10 };

/* Shapes of the work. Columns are numbered key-value head by key-value head, `pitch` apart. */
typedef struct few_plan {
  int64_t group_columns, pitch, total; /* columns of a key-value head; of all, with padding */
  int64_t block;                       /* tokens at once */
  int64_t key_padded, value_padded;
  bool dots;
} few_plan;

/* Running sums of one sequence: per column the maximum, the sum of weights, and that of weighted values. */
typedef struct few_state {
  real *max, *sum, *rows; /* [total], [total], [total, value_padded] */
} few_state;

/* What a thread works in. state[0] is for the sequence its range begins in, state[1] for later ones: when all are
   done, they hold the two that other threads may have parts of too. */
typedef struct few_space {
  few_state state[2];
  real *tile, *keys, *values, *scores, *weights;
  query_columns columns; /* dots: all columns */
  real *q;               /* dots: [total, key_padded], scaled */
  forward_panel *panel;  /* else: one per key-value head */
} few_space;

static int64_t group_columns(const ch_attend *args) {
  return args->queries * (args->heads / args->kv_heads);
}

bool attend_is_few(const ch_attend *args) {
  int64_t columns = group_columns(args), heads = args->sequences * args->kv_heads;
  return columns <= 16 || (columns <= PANEL && heads * ((columns + 15) / 16) < 4 * (int64_t)ch_threads());
}

static few_plan plan_few(const ch_attend *args) {
  few_plan plan = {.group_columns = group_columns(args),
                   .block = BLOCK,
                   .key_padded = round_up(args->key_dim, VL),
                   .value_padded = round_up(args->value_dim, VL)};
  plan.dots = plan.group_columns <= DOT_COLUMNS;
  plan.pitch = plan.dots ? plan.group_columns : round_up(plan.group_columns, VL);
  plan.total = round_up(args->kv_heads * plan.pitch, VL);
  /* Produced tiles of all heads should stay in the second cache. */
  while (plan.block > 8 &&
         args->producer->scratch_elements(args, args->kv_heads, plan.block) * (int64_t)sizeof(real) >
             32 * 1024)
    plan.block /= 2;
  return plan;
}

static void carve_states(const few_plan *plan, carver *from, few_state state[2]) {
  for (int i = 0; i < 2; i++) {
    state[i].max = carve_reals(from, plan->total);
    state[i].sum = carve_reals(from, plan->total);
    state[i].rows = carve_reals(from, plan->total * plan->value_padded);
  }
}

static void carve_few(const ch_attend *args, const few_plan *plan, carver *from, few_space *space) {
  carve_states(plan, from, space->state);
  space->tile = carve_reals(from, args->producer->scratch_elements(args, args->kv_heads, plan->block));
  if (plan->dots) {
    space->scores = carve_reals(from, plan->block * plan->total + VL);
    space->weights = carve_reals(from, plan->block * plan->total);
    space->q = carve_reals(from, plan->total * plan->key_padded);
    carve_columns(from, plan->total, &space->columns);
    return;
  }
  space->keys = carve_reals(from, BLOCK * plan->key_padded);
  space->values = carve_reals(from, BLOCK * plan->value_padded);
  space->scores = carve_reals(from, SCORES);
  space->panel = carve(from, args->kv_heads, sizeof *space->panel);
  for (int64_t g = 0; g < args->kv_heads; g++) {
    forward_panel panel;
    carve_panel(args, from, &panel);
    if (from->base) space->panel[g] = panel;
  }
}

/* --- few columns a head: dot products ------------------------------------------------------------------------ */

/* The processor asks for memory ahead of a loop as far as it sees; work on several columns a key keeps it from seeing
   far enough. So the loops ask themselves: keys AHEAD bytes before their turn, values four tokens. */
enum { AHEAD = 4096 };

/* The products of a key and a query, VL partial sums. */
ALWAYS_INLINE vec dot_lanes(const ch_dtype dtype, const int64_t dim, const real *q, const char *key) {
  vec sum = splat(0);
  int64_t k = 0;
#pragma GCC unroll 8
  for (; k + VL <= dim; k += VL) sum += load(q + k) * load_state(dtype, key, k, VL);
  if (k < dim) sum += load(q + k) * load_state(dtype, key, k, dim - k);
  return sum;
}

/* scores [count, columns] = keys q^T, in the order in which the keys lie in memory; VL dot products are summed at
   once. Writes up to VL - 1 elements past the last. (Shapes are copied to locals here and below: stores of vectors
   could change them, for all the compiler knows.) */
ALWAYS_INLINE void dot_scores(const ch_dtype dtype, const int64_t dim, const few_plan *plan, int64_t heads,
                              int64_t count, const ch_tile *keys, const real *q, real *scores) {
  const int64_t group = plan->group_columns, padded = plan->key_padded, size = state_size(dtype);
  const int64_t stride = keys->stride * size, head_stride = keys->head_stride * size;
  const char *token = keys->data, *key = token;
  const real *query = q;
  int64_t c = 0, g = 0, left = count * heads * group;
  while (left > 0) {
    vec lanes[VL];
    for (int i = 0; i < VL; i++) {
      if (c == 0) fetch(key + AHEAD, dim * size);
      lanes[i] = i < left ? dot_lanes(dtype, dim, query, key) : splat(0);
      query += padded;
      if (++c < group) continue;
      c = 0;
      key += head_stride;
      if (++g < heads) continue;
      g = 0;
      token += stride;
      key = token;
      query = q;
    }
    store(scores, sum_lanes(lanes));
    scores += VL;
    left -= VL;
  }
}

/* out += a vector of `tokens` (a constant) values, weighted; `left` elements are left in their rows. */
ALWAYS_INLINE void add_vector(const ch_dtype dtype, const int tokens, const char *values, int64_t stride,
                              int64_t left, const vec weight[4], real *out) {
  vec sum = load(out);
#pragma GCC unroll 4
  for (int t = 0; t < tokens; t++) sum += load_state(dtype, values + t * stride, 0, left) * weight[t];
  store(out, sum);
}

/* rows [columns] += weights [count, columns] times values, for `tokens` (a constant) tokens at a time. */
ALWAYS_INLINE void add_values(const ch_dtype dtype, const int64_t dim, const int tokens, const few_plan *plan,
                              int64_t heads, const real *weights, const char *values, const ch_tile *tile,
                              real *rows) {
  const int64_t group = plan->group_columns, padded = plan->value_padded, total = plan->total;
  const int64_t size = state_size(dtype), stride = tile->stride * size,
                head_stride = tile->head_stride * size;
  for (int64_t g = 0; g < heads; g++, values += head_stride)
    for (int64_t c = 0; c < group; c++, rows += padded, weights++) {
      if (c == 0 && group * (int64_t)sizeof(real) > size) /* else the processor sees far enough */
        for (int t = 0; t < tokens; t++) fetch(values + (tokens + t) * stride, dim * size);
      vec weight[4];
#pragma GCC unroll 4
      for (int t = 0; t < tokens; t++) weight[t] = splat(weights[t * total]);
      int64_t k = 0;
#pragma GCC unroll 8
      for (; k + VL <= dim; k += VL)
        add_vector(dtype, tokens, values + k * size, stride, VL, weight, rows + k);
      if (k < dim) add_vector(dtype, tokens, values + k * size, stride, dim - k, weight, rows + k);
    }
}

ALWAYS_INLINE void sum_values(const ch_dtype dtype, const int64_t dim, const few_plan *plan, int64_t heads,
                              int64_t count, const real *weights, const ch_tile *tile, real *rows) {
  int64_t t = 0;
  for (; t + 4 <= count; t += 4)
    add_values(dtype, dim, 4, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile, rows);
  for (; t < count; t++)
    add_values(dtype, dim, 1, plan, heads, weights + t * plan->total, tile_row(tile, 0, t), tile, rows);
}

/* The usual sizes of a head get loops of a known length. */
#define FOR_DIM(dtype, dim, call, ...)                                                                       \
  ((dim) == 64    ? call(dtype, 64, __VA_ARGS__)                                                             \
   : (dim) == 128 ? call(dtype, 128, __VA_ARGS__)                                                            \
                  : call(dtype, dim, __VA_ARGS__))
#define FOR_TYPE_AND_DIM(type, dim, call, ...)                                                               \
  ((type) == CH_F16    ? FOR_DIM(CH_F16, dim, call, __VA_ARGS__)                                             \
   : (type) == CH_BF16 ? FOR_DIM(CH_BF16, dim, call, __VA_ARGS__)                                            \
                       : FOR_DIM(CH_KERNEL_DTYPE, dim, call, __VA_ARGS__))

/* A block of tokens, all heads. */
static void dot_block(const ch_attend *args, const few_plan *plan, int64_t first, int64_t count,
                      const ch_tile *keys, const ch_tile *values, const few_space *space,
                      const few_state *state) {
  const query_columns *c = &space->columns;
  FOR_TYPE_AND_DIM(keys->dtype, args->key_dim, dot_scores, plan, args->kv_heads, count, keys, space->q,
                   space->scores);
  bool masked = needs_mask(c, first, count);
  for (int64_t v = 0; v < c->padded / VL; v++) {
    real factors[VL];
    bool moved = masked ? softmax_vector(true, c, v, first, count, space->scores, c->count, space->weights,
                                         plan->total, factors)
                        : softmax_vector(false, c, v, first, count, space->scores, c->count, space->weights,
                                         plan->total, factors);
    if (moved)
      attend_rescale(state->rows + v * VL * plan->value_padded, plan->value_padded, factors,
                     c->count - v * VL);
  }
  FOR_TYPE_AND_DIM(values->dtype, args->value_dim, sum_values, plan, args->kv_heads, count, space->weights,
                   values, state->rows);
}

static void start_dots(const ch_attend *args, const few_plan *plan, int64_t sequence, few_space *space,
                       const few_state *state) {
  query_columns *c = &space->columns;
  c->max = state->max;
  c->sum = state->sum;
  clear_columns(args, c);
  token_rows q = query_rows(args, args->q);
  for (int64_t g = 0; g < args->kv_heads; g++) {
    column_place at = place_of(args, g, 0);
    for (int64_t i = 0; i < plan->group_columns; i++, next_column(&at)) {
      copy_row(row_of(args, &q, sequence, &at), args->key_dim, (real)args->scale,
               space->q + c->count * plan->key_padded);
      add_column(args, c, sequence, at.query, at.head);
    }
  }
  finish_columns(c);
  memset(state->rows, 0, (size_t)(c->count * plan->value_padded) * sizeof(real));
}

/* --- more columns: panels ------------------------------------------------------------------------------------ */

static void start_panels(const ch_attend *args, const few_plan *plan, int64_t sequence, few_space *space,
                         const few_state *state) {
  for (int64_t g = 0; g < args->kv_heads; g++) {
    forward_panel *panel = &space->panel[g];
    panel->columns.max = state->max + g * plan->pitch;
    panel->columns.sum = state->sum + g * plan->pitch;
    panel->sum = state->rows + g * plan->pitch * plan->value_padded;
    attend_start_panel(args, sequence, g, 0, plan->group_columns, panel);
  }
}

static void panel_block(const ch_attend *args, int64_t first, int64_t count, int64_t left,
                        const ch_tile *keys, const ch_tile *values, const few_space *space) {
  for (int64_t g = 0; g < args->kv_heads; g++) {
    block_rows rows =
        read_block(keys, args->key_dim, values, args->value_dim, g, count, space->keys, space->values);
    upcoming next_keys = upcoming_rows(keys, g, count, left, args->key_dim);
    upcoming next_values =
        upcoming_rows(values, g, count, rows.values == rows.keys ? 0 : left, args->value_dim);
    attend_meet_block(args, &space->panel[g], first, count, &rows, space->scores, &next_keys, &next_values);
  }
}

/* --- ranges of tokens ---------------------------------------------------------------------------------------- */

/* The tokens that any query of a sequence sees. */
static int64_t visible_tokens(const ch_attend *args, int64_t sequence, int64_t *first) {
  int64_t end = tokens_before(args, sequence) + args->queries;
  *first = 0;
  if (args->document_start) {
    const int32_t *start = args->document_start + sequence * args->queries;
    *first = start[0];
    for (int64_t i = 1; i < args->queries; i++)
      if (start[i] < *first) *first = start[i];
    if (*first < 0) *first = 0;
  }
  return end > *first ? end - *first : 0;
}

static void read_tokens(const ch_attend *args, const few_plan *plan, int64_t sequence, int64_t first,
                        int64_t end, few_space *space, const few_state *state) {
  if (plan->dots)
    start_dots(args, plan, sequence, space, state);
  else
    start_panels(args, plan, sequence, space, state);
  bool in_place = args->producer->scratch_elements(args, args->kv_heads, plan->block) == 0;
  for (int64_t count; first < end; first += count) {
    count = end - first < plan->block ? end - first : plan->block;
    ch_tile_span span = {
        .sequence = sequence, .head = 0, .heads = args->kv_heads, .first = first, .count = count};
    ch_tile keys, values;
    args->producer->produce(args, &span, space->tile, &keys, &values);
    if (plan->dots)
      dot_block(args, plan, first, count, &keys, &values, space, state);
    else
      panel_block(args, first, count,
                  in_place ? (end - first - count < BLOCK ? end - first - count : BLOCK) : 0, &keys, &values,
                  space);
  }
}

static void write_all(const ch_attend *args, const few_plan *plan, int64_t sequence, const few_state *state,
                      int64_t begin, int64_t end) {
  for (int64_t column = begin; column < end; column++) {
    int64_t g = column / plan->group_columns, i = column % plan->group_columns, at = g * plan->pitch + i;
    column_place place = place_of(args, g, i);
    real sum = state->sum[at];
    attend_write(args, sequence, &place, state->rows + at * plan->value_padded, sum == 0 ? 0 : 1 / sum,
                 args->lse ? state->max[at] + real_log(sum) : 0);
  }
}

/* Adds a later part of the same sequence to `into`, for one column. */
static void merge_column(const few_plan *plan, int64_t at, const few_state *into, const few_state *part) {
  if (part->sum[at] == 0) return;
  real *row = into->rows + at * plan->value_padded;
  const real *other = part->rows + at * plan->value_padded;
  bool empty = into->sum[at] == 0;
  real max = empty || part->max[at] > into->max[at] ? part->max[at] : into->max[at];
  real keep = empty ? 0 : real_exp(into->max[at] - max), add = real_exp(part->max[at] - max);
  for (int64_t k = 0; k < plan->value_padded; k += VL)
    store(row + k, empty ? load(other + k) : load(row + k) * keep + load(other + k) * add);
  into->sum[at] = (empty ? 0 : into->sum[at] * keep) + part->sum[at] * add;
  into->max[at] = max;
}

static size_t few_bytes(const ch_attend *args, const few_plan *plan) {
  carver from = {0};
  few_space space;
  carve_few(args, plan, &from, &space);
  return from.used;
}

static carver scratch_of_thread(const ch_attend *args, size_t bytes, int thread) {
  carver from = carver_at(args->scratch);
  from.base += (size_t)thread * bytes;
  return from;
}

/* First pass: the tokens of all sequences, end to end, from `begin` to `end`. Sequences that lie in the range as a
   whole are done with; parts of sequences stay in space->state. */
static void read_range(const ch_attend *args, const few_plan *plan, int64_t begin, int64_t end,
                       few_space *space) {
  int64_t at = 0; /* where the sequence begins */
  const few_state *state = &space->state[0];
  for (int64_t s = 0; s < args->sequences && at < end; s++) {
    int64_t first, tokens = visible_tokens(args, s, &first);
    int64_t from = begin > at ? begin - at : 0, to = end - at < tokens ? end - at : tokens;
    if (from < to) {
      read_tokens(args, plan, s, first + from, first + to, space, state);
      if (to - from == tokens) write_all(args, plan, s, state, 0, args->kv_heads * plan->group_columns);
      state = &space->state[1];
    }
    at += tokens;
  }
}

/* Second pass, for this thread's share of the columns of every sequence that was cut. */
static void merge_parts(const ch_attend *args, const few_plan *plan, int64_t tokens_in_all, size_t bytes,
                        int thread, int threads) {
  int64_t at = 0, begin, end, columns = args->kv_heads * plan->group_columns;
  thread_range(columns, thread, threads, &begin, &end);
  for (int64_t s = 0; s < args->sequences; s++) {
    int64_t first, tokens = visible_tokens(args, s, &first);
    few_state whole[2], *into = NULL;
    bool cut = false;
    for (int t = 0; t < threads; t++) {
      int64_t range_begin, range_end;
      thread_range(tokens_in_all, t, threads, &range_begin, &range_end);
      if (range_begin >= at + tokens || range_end <= at || range_begin == range_end) continue;
      carver from = scratch_of_thread(args, bytes, t);
      few_state part[2];
      carve_states(plan, &from, part);
      const few_state *state = &part[range_begin >= at ? 0 : 1];
      if (!into) {
        whole[0] = *state;
        into = &whole[0];
        continue;
      }
      cut = true;
      for (int64_t c = begin; c < end; c++)
        merge_column(plan, c / plan->group_columns * plan->pitch + c % plan->group_columns, into, state);
    }
    if (cut) write_all(args, plan, s, into, begin, end);
    at += tokens;
  }
}

static void write_unseen(const ch_attend *args, const few_plan *plan) {
  for (int64_t s = 0; s < args->sequences; s++) {
    int64_t first;
    if (visible_tokens(args, s, &first) > 0) continue;
    for (int64_t c = 0; c < args->kv_heads * plan->group_columns; c++) {
      int64_t g = c / plan->group_columns, i = c % plan->group_columns;
      column_place place = place_of(args, g, i);
      attend_write(args, s, &place, NULL, 0, -(real)INFINITY);
    }
  }
}

/* What one of `threads` threads does. */
static void run_thread(const ch_attend *args, const few_plan *plan, int64_t tokens, size_t bytes, int thread,
                       int threads) {
  carver from = scratch_of_thread(args, bytes, thread);
  few_space space;
  carve_few(args, plan, &from, &space);
  int64_t begin, end;
  thread_range(tokens, thread, threads, &begin, &end);
  read_range(args, plan, begin, end, &space);
  if (threads == 1) return;
#pragma omp barrier
  merge_parts(args, plan, tokens, bytes, thread, threads);
}

void attend_few(const ch_attend *args) {
  few_plan plan = plan_few(args);
  size_t bytes = few_bytes(args, &plan);
  int64_t tokens = 0, first;
  for (int64_t s = 0; s < args->sequences; s++) tokens += visible_tokens(args, s, &first);
  int64_t work = tokens * args->kv_heads * plan.group_columns * (args->key_dim + args->value_dim);
  write_unseen(args, &plan);
  if (work < CH_PARALLEL_ELEMENTS) { /* not `omp parallel if`: a team of one takes longer than this */
    run_thread(args, &plan, tokens, bytes, 0, 1);
    return;
  }
#pragma omp parallel num_threads(ch_threads())
  run_thread(args, &plan, tokens, bytes, omp_get_thread_num(), omp_get_num_threads());
}

size_t attend_few_scratch(const ch_attend *args) {
  few_plan plan = plan_few(args);
  return few_bytes(args, &plan) * (size_t)ch_threads() + 64;
}
