/* Streaming attention, backward: probabilities are recomputed block by block from the log-sum-exp.
 *
 *   P = e^(scale Q K^T - lse)      dV = P^T dO      dP = dO V^T      delta_i = dO_i . O_i
 *   dS = P (dP - delta)            dQ = scale dS K          dK = scale dS^T Q
 *
 * P and dS live transposed, [keys, columns], 64 x 64 at a time. A task goes through panels of queries of one key-value
 * head: dQ is finished panel by panel, dK and dV are added up over the panels, in place when the task has the head for
 * itself. With fewer heads than threads, several tasks share a head, each with dK and dV of its own that are then added
 * in a fixed order.
 */
#include "tensor/kernels/attend_panel.h"

/* How the work is cut: `parts` tasks per key-value head and sequence. Where dK and dV cannot be added up in place,
   in whole vectors, they are added up in a buffer [queries, key_padded + value_padded]: one a task where a head has
   several, else one a thread. */
typedef struct backward_plan {
  int64_t columns, panels, parts, tasks;
  int64_t key_padded, value_padded;
  bool buffered;
} backward_plan;

/* What a thread works in; [columns] is PANEL at most. */
typedef struct backward_space {
  query_columns columns;
  real *q_packed, *dout_packed; /* [key_dim, columns] scaled, [value_dim, columns] */
  real *q, *dout;               /* [columns, padded]; q scaled */
  real *dq;                     /* [columns, key_padded] */
  real *lse, *delta;            /* [columns] */
  real *weights, *dscores;      /* P^T, dS^T [BLOCK, columns] */
  real *keys;                   /* [BLOCK, key_padded] */
} backward_space;

/* Where a task adds up dK and dV: rows of tokens. */
typedef struct state_gradient {
  real *dk, *dv;
  int64_t k_stride, v_stride;
} state_gradient;

static backward_plan plan_backward(const ch_attend *args, int threads) {
  int64_t heads = args->sequences * args->kv_heads;
  backward_plan plan = {.columns = args->queries * (args->heads / args->kv_heads),
                        .parts = 1,
                        .key_padded = round_up(args->key_dim, VL),
                        .value_padded = round_up(args->value_dim, VL)};
  plan.panels = (plan.columns + PANEL - 1) / PANEL;
  if (heads < 2 * threads && heads % threads != 0) plan.parts = (2 * threads + heads - 1) / heads;
  if (plan.parts > plan.panels) plan.parts = plan.panels;
  plan.tasks = heads * plan.parts;
  plan.buffered = plan.parts > 1 || args->key_dim != plan.key_padded || args->value_dim != plan.value_padded;
  return plan;
}

static int64_t buffer_elements(const ch_attend *args, const backward_plan *plan) {
  return args->queries * (plan->key_padded + plan->value_padded);
}

static void carve_backward(const ch_attend *args, const backward_plan *plan, carver *from,
                           backward_space *space) {
  carve_columns(from, PANEL, &space->columns);
  space->q_packed = carve_reals(from, args->key_dim * PANEL);
  space->dout_packed = carve_reals(from, args->value_dim * PANEL);
  space->q = carve_reals(from, PANEL * plan->key_padded);
  space->dout = carve_reals(from, PANEL * plan->value_padded);
  space->dq = carve_reals(from, PANEL * plan->key_padded);
  space->lse = carve_reals(from, PANEL);
  space->delta = carve_reals(from, PANEL);
  space->weights = carve_reals(from, SCORES);
  space->dscores = carve_reals(from, SCORES);
  space->keys = carve_reals(from, BLOCK * plan->key_padded);
}

/* --- a panel of queries -------------------------------------------------------------------------------------- */

/* delta_i = dO_i . O_i, VL columns at once. */
static void column_deltas(const row_list *dout, const row_list *out, int64_t count, int64_t dim,
                          real *delta) {
  for (int64_t i = 0; i < count; i += VL) {
    vec lanes[VL];
    for (int64_t j = 0; j < VL; j++) {
      lanes[j] = splat(0);
      for (int64_t k = 0; i + j < count && k < dim; k += VL)
        lanes[j] += load_some(dout->row[i + j] + k, dim - k) * load_some(out->row[i + j] + k, dim - k);
    }
    store(delta + i, sum_lanes(lanes));
  }
}

static void start_columns(const ch_attend *args, const ch_attend_gradient *gradient,
                          const backward_plan *plan, int64_t sequence, int64_t kv_head, int64_t first,
                          int64_t count, backward_space *space) {
  query_columns *c = &space->columns;
  row_list q, dout, out;
  list_rows(args, args->q, args->key_dim, sequence, kv_head, first, count, &q);
  list_rows(args, gradient->dout, args->value_dim, sequence, kv_head, first, count, &dout);
  list_rows(args, args->out, args->value_dim, sequence, kv_head, first, count, &out);
  clear_columns(args, c);
  for (int64_t i = 0; i < count; i++) {
    int64_t query = column_query(args, first + i), head = column_head(args, kv_head, first + i);
    add_column(args, c, sequence, query, head);
    real lse = ((const real *)args->lse)[(sequence * args->heads + head) * args->queries + query];
    /* A query that sees no key: all its scores are masked, so that any finite number gives weights of 0. */
    space->lse[i] = lse == -(real)INFINITY ? 0 : lse;
    copy_row(q.row[i], args->key_dim, (real)args->scale, space->q + i * plan->key_padded);
    copy_row(dout.row[i], args->value_dim, 1, space->dout + i * plan->value_padded);
  }
  finish_columns(c);
  for (int64_t i = count; i < c->padded; i++) space->lse[i] = 0;
  pack_transposed(&q, count, args->key_dim, (real)args->scale, space->q_packed, c->padded);
  pack_transposed(&dout, count, args->value_dim, 1, space->dout_packed, c->padded);
  column_deltas(&dout, &out, count, args->value_dim, space->delta);
}

/* S^T -> P^T in `weights`, dP^T -> dS^T in `dscores`, for `rows` keys of vector v. */
ALWAYS_INLINE void recompute_vector(const bool masked, const backward_space *space, int64_t v, int64_t first,
                                    int64_t rows, int64_t ld) {
  column_mask mask = {0};
  if (masked) mask = load_mask(&space->columns, v);
  vec lse = load(space->lse + v * VL), delta = load(space->delta + v * VL);
  real *weights = space->weights + v * VL, *dscores = space->dscores + v * VL;
  for (int64_t r = 0; r < rows; r++) {
    vec s = load(weights + r * ld);
    if (masked) s = masked_score(&mask, s, splat((real)(first + r)));
    vec p = vec_exp(s - lse);
    store(weights + r * ld, p);
    store(dscores + r * ld, p * (load(dscores + r * ld) - delta));
  }
}

/* Y [rows, dim] += W^T X: for every key the sum of rows X [columns, padded] with weights W^T [rows, ld]. */
static void sum_over_columns(const block_shape *shape, int64_t count, const real *weights, const real *x,
                             int64_t padded, real *y, int64_t stride) {
  for (int64_t v = 0; v * VL < padded; v += TILE_VECTORS)
    for (int64_t r = 0; r < shape->rows; r += TILE_ROWS) {
      int64_t begin = first_vector(shape, r) * VL;
      if (begin < count)
        tile_rows(at_most(padded / VL - v, TILE_VECTORS), at_most(shape->rows - r, TILE_ROWS), count - begin,
                  weights + r * shape->ld + begin, shape->ld, x + begin * padded + v * VL, padded,
                  y + r * stride + v * VL, stride, true);
    }
}

/* The panel meets one block of keys and values; `into`: the block's rows of dK and dV. */
static void meet_block(const ch_attend *args, const ch_attend_gradient *gradient, const backward_plan *plan,
                       int64_t sequence, int64_t kv_head, int64_t first, int64_t rows, bool started,
                       const state_gradient *into, backward_space *space) {
  const ch_state_view *k = &args->parts[0], *v = &args->parts[1];
  ch_tile key_tile = {k->data, CH_KERNEL_DTYPE, k->token_stride, args->key_dim};
  ch_tile value_tile = {v->data, CH_KERNEL_DTYPE, v->token_stride, args->value_dim};
  key_tile.data = (const real *)k->data + sequence * k->sequence_stride + first * k->token_stride;
  value_tile.data = (const real *)v->data + sequence * v->sequence_stride + first * v->token_stride;
  const real *keys = (const real *)key_tile.data + kv_head * args->key_dim;
  const real *values = (const real *)value_tile.data + kv_head * args->value_dim;
  int64_t count = space->columns.count;
  block_shape shape;
  shape_block(&space->columns, first, rows, &shape);
  int64_t left = space->columns.end - first - rows;
  if (left > BLOCK) left = BLOCK;
  upcoming next_keys = upcoming_rows(&key_tile, kv_head, rows, left, args->key_dim);
  upcoming next_values = upcoming_rows(&value_tile, kv_head, rows, left, args->value_dim);
  score_block(&shape, keys, k->token_stride, args->key_dim, space->q_packed, space->weights, &next_keys);
  score_block(&shape, values, v->token_stride, args->value_dim, space->dout_packed, space->dscores,
              &next_values);
  for (int64_t i = 0; i < shape.vectors; i++)
    if (shape.masked)
      recompute_vector(true, space, i, first, shape.seen[i], shape.ld);
    else
      recompute_vector(false, space, i, first, rows, shape.ld);
  if (shape.masked) {
    clear_unseen(&shape, space->weights);
    clear_unseen(&shape, space->dscores);
  }
  if (gradient->dv)
    sum_over_columns(&shape, count, space->weights, space->dout, plan->value_padded, into->dv,
                     into->v_stride);
  if (gradient->dk)
    sum_over_columns(&shape, count, space->dscores, space->q, plan->key_padded, into->dk, into->k_stride);
  if (gradient->dq) {
    int64_t stride;
    const real *readable = head_rows(&key_tile, kv_head, rows, args->key_dim, true, space->keys, &stride);
    sum_over_keys(&shape, count, space->dscores, readable, stride, args->key_dim, space->dq, started,
                  &(upcoming){0});
  }
}

/* y [dim] = (or +=) scale * x. */
ALWAYS_INLINE void put_row(const real *x, int64_t dim, real scale, real *y, bool accumulate) {
  for (int64_t k = 0; k < dim; k += VL) {
    vec value = load(x + k) * scale;
    store_some(y + k, accumulate ? load_some(y + k, dim - k) + value : value, dim - k);
  }
}

static void finish_columns_gradient(const ch_attend *args, const ch_attend_gradient *gradient,
                                    const backward_plan *plan, int64_t sequence, int64_t kv_head,
                                    int64_t first, bool started, const backward_space *space) {
  for (int64_t i = 0; i < space->columns.count; i++) {
    int64_t query = column_query(args, first + i), head = column_head(args, kv_head, first + i);
    real *dq =
        (real *)gradient->dq + ((sequence * args->queries + query) * args->heads + head) * args->key_dim;
    if (started)
      put_row(space->dq + i * plan->key_padded, args->key_dim, (real)args->scale, dq, gradient->accumulate_q);
    else if (!gradient->accumulate_q)
      memset(dq, 0, (size_t)args->key_dim * sizeof(real));
  }
}

static void run_panel(const ch_attend *args, const ch_attend_gradient *gradient, const backward_plan *plan,
                      int64_t sequence, int64_t kv_head, int64_t panel, const state_gradient *into,
                      backward_space *space) {
  int64_t begin = panel * PANEL, count = plan->columns - begin < PANEL ? plan->columns - begin : PANEL;
  start_columns(args, gradient, plan, sequence, kv_head, begin, count, space);
  bool started = false;
  for (int64_t first = space->columns.first; first < space->columns.end; first += BLOCK) {
    int64_t rows = space->columns.end - first < BLOCK ? space->columns.end - first : BLOCK;
    state_gradient block = *into;
    if (block.dk) block.dk += first * block.k_stride;
    if (block.dv) block.dv += first * block.v_stride;
    meet_block(args, gradient, plan, sequence, kv_head, first, rows, started, &block, space);
    started = true;
  }
  if (gradient->dq) finish_columns_gradient(args, gradient, plan, sequence, kv_head, begin, started, space);
}

/* --- tasks --------------------------------------------------------------------------------------------------- */

/* dK and dV of a head, where they belong. */
static state_gradient gradient_of_head(const ch_attend *args, const ch_attend_gradient *gradient,
                                       int64_t sequence, int64_t kv_head) {
  state_gradient of = {.k_stride = args->kv_heads * args->key_dim,
                       .v_stride = args->kv_heads * args->value_dim};
  if (gradient->dk)
    of.dk = (real *)gradient->dk + sequence * args->queries * of.k_stride + kv_head * args->key_dim;
  if (gradient->dv)
    of.dv = (real *)gradient->dv + sequence * args->queries * of.v_stride + kv_head * args->value_dim;
  return of;
}

static state_gradient gradient_in_buffer(const ch_attend *args, const backward_plan *plan, real *buffer) {
  return (state_gradient){.dk = buffer,
                          .dv = buffer + args->queries * plan->key_padded,
                          .k_stride = plan->key_padded,
                          .v_stride = plan->value_padded};
}

static void clear_rows(real *rows, int64_t count, int64_t dim, int64_t stride) {
  for (int64_t r = 0; rows && r < count; r++) memset(rows + r * stride, 0, (size_t)dim * sizeof(real));
}

/* Token `token` of the sum of `parts` buffers to its place. */
static void put_token(const ch_attend *args, const ch_attend_gradient *gradient, const backward_plan *plan,
                      const real *buffers, int64_t parts, int64_t token, const state_gradient *into) {
  for (int64_t part = 0; part < parts; part++) {
    state_gradient from =
        gradient_in_buffer(args, plan, (real *)(uintptr_t)buffers + part * buffer_elements(args, plan));
    if (into->dk)
      put_row(from.dk + token * from.k_stride, args->key_dim, 1, into->dk + token * into->k_stride,
              part > 0 || gradient->accumulate_k);
    if (into->dv)
      put_row(from.dv + token * from.v_stride, args->value_dim, 1, into->dv + token * into->v_stride,
              part > 0 || gradient->accumulate_v);
  }
}

static void run_task(const ch_attend *args, const ch_attend_gradient *gradient, const backward_plan *plan,
                     int64_t task, real *buffer, backward_space *space) {
  int64_t pair = task / plan->parts, part = task % plan->parts;
  int64_t sequence = pair / args->kv_heads, kv_head = pair % args->kv_heads;
  state_gradient place = gradient_of_head(args, gradient, sequence, kv_head), into = place;
  if (plan->buffered) {
    into = gradient_in_buffer(args, plan, buffer);
    memset(buffer, 0, (size_t)buffer_elements(args, plan) * sizeof(real));
  } else {
    if (!gradient->accumulate_k) clear_rows(into.dk, args->queries, args->key_dim, into.k_stride);
    if (!gradient->accumulate_v) clear_rows(into.dv, args->queries, args->value_dim, into.v_stride);
  }
  /* Parts take panels in turn, forth and back: under a causal mask later panels are more work. */
  for (int64_t turn = 0; turn * plan->parts < plan->panels; turn++) {
    int64_t panel = turn * plan->parts + (turn % 2 ? plan->parts - 1 - part : part);
    if (panel < plan->panels) run_panel(args, gradient, plan, sequence, kv_head, panel, &into, space);
  }
  if (plan->buffered && plan->parts == 1)
    for (int64_t t = 0; t < args->queries; t++) put_token(args, gradient, plan, buffer, 1, t, &place);
}

static size_t backward_bytes(const ch_attend *args, const backward_plan *plan) {
  carver from = {0};
  backward_space space;
  carve_backward(args, plan, &from, &space);
  return from.used;
}

static int64_t buffer_count(const backward_plan *plan, int threads) {
  return !plan->buffered ? 0 : plan->parts > 1 ? plan->tasks : threads;
}

void KERNEL(attend_backward)(const ch_attend *args, const ch_attend_gradient *gradient) {
  if (args->sequences <= 0 || args->queries <= 0) return;
  int threads = ch_threads();
  backward_plan plan = plan_backward(args, threads);
  size_t bytes = backward_bytes(args, &plan);
  carver from = carver_at(args->scratch);
  real *buffers = carve_reals(&from, buffer_count(&plan, threads) * buffer_elements(args, &plan));
  char *spaces = from.base + from.used;
#pragma omp parallel num_threads(threads) if (plan.tasks > 1)
  {
    int thread = omp_get_thread_num();
    carver own = {.base = spaces + (size_t)thread * bytes};
    backward_space space;
    carve_backward(args, &plan, &own, &space);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < plan.tasks; task++)
      run_task(args, gradient, &plan, task,
               buffers + (plan.parts > 1 ? task : thread) * buffer_elements(args, &plan), &space);
    if (plan.parts > 1) {
#pragma omp for schedule(static)
      for (int64_t row = 0; row < args->sequences * args->kv_heads * args->queries; row++) {
        int64_t pair = row / args->queries;
        state_gradient into = gradient_of_head(args, gradient, pair / args->kv_heads, pair % args->kv_heads);
        put_token(args, gradient, &plan, buffers + pair * plan.parts * buffer_elements(args, &plan),
                  plan.parts, row % args->queries, &into);
      }
    }
  }
}

size_t attend_backward_scratch(const ch_attend *args) {
  int threads = ch_threads();
  backward_plan plan = plan_backward(args, threads);
  return (size_t)round_up(buffer_count(&plan, threads) * buffer_elements(args, &plan) * (int64_t)sizeof(real),
                          64) +
         backward_bytes(args, &plan) * (size_t)threads + 64;
}
