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
  int64_t chunk; /* tasks that a thread takes at once */
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
  plan.chunk = plan.tasks / (16 * threads) > 0 ? plan.tasks / (16 * threads) : 1;
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

/* One task: a key-value head of a sequence, or a part of its panels. */
typedef struct backward_task {
  const ch_attend *args;
  const ch_attend_gradient *gradient;
  const backward_plan *plan;
  backward_space *space;
  int64_t sequence, kv_head, part;
  state_gradient into;
  int64_t cleared;   /* rows of `into` that have been set to what is added to */
  fetch_queue later; /* what the next panel will touch */
} backward_task;

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

static void start_columns(const backward_task *task, int64_t first, int64_t count) {
  const ch_attend *args = task->args;
  backward_space *space = task->space;
  query_columns *c = &space->columns;
  token_rows q_rows = query_rows(args, args->q), dout_rows = output_rows(args, task->gradient->dout),
             out_rows = output_rows(args, args->out);
  row_list q, dout, out;
  column_place begin = place_of(args, task->kv_head, first), at = begin;
  list_rows(args, &q_rows, task->sequence, begin, count, &q);
  list_rows(args, &dout_rows, task->sequence, begin, count, &dout);
  list_rows(args, &out_rows, task->sequence, begin, count, &out);
  clear_columns(args, c);
  for (int64_t i = 0; i < count; i++, next_column(&at)) {
    add_column(args, c, task->sequence, at.query, at.head);
    real lse = ((const real *)args->lse)[lse_of(args, task->sequence, &at)];
    /* A query that sees no key: all its scores are masked, so that any finite number gives weights of 0. */
    space->lse[i] = lse == -(real)INFINITY ? 0 : lse;
    copy_row(q.row[i], args->key_dim, (real)args->scale, space->q + i * task->plan->key_padded);
    copy_row(dout.row[i], args->value_dim, 1, space->dout + i * task->plan->value_padded);
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
                             int64_t padded, real *y, int64_t stride, upcoming next) {
  for (int64_t v = 0; v * VL < padded; v += TILE_VECTORS)
    for (int64_t r = 0; r < shape->rows; r += TILE_ROWS) {
      if (v == 0) fetch_share(&next, r / TILE_ROWS, (shape->rows + TILE_ROWS - 1) / TILE_ROWS);
      int64_t begin = first_vector(shape, r) * VL;
      if (begin < count)
        tile_rows(at_most(padded / VL - v, TILE_VECTORS), at_most(shape->rows - r, TILE_ROWS), count - begin,
                  weights + r * shape->ld + begin, shape->ld, x + begin * padded + v * VL, padded,
                  y + r * stride + v * VL, stride, true);
    }
}

/* The tokens from `first` on of a part of the states, as a tile. */
static ch_tile state_tile(const ch_state_view *part, int64_t sequence, int64_t first, int64_t dim) {
  int64_t at = sequence * part->sequence_stride + first * part->token_stride;
  return (ch_tile){(const real *)part->data + at, CH_KERNEL_DTYPE, part->token_stride,
                   ch_head_stride(part, dim)};
}

/* The panel meets the keys and values first … first+rows-1. */
static void meet_block(backward_task *task, int64_t first, int64_t rows, bool started) {
  const ch_attend *args = task->args;
  const state_gradient *into = &task->into;
  backward_space *space = task->space;
  fetch_queue *later = &task->later;
  int64_t count = space->columns.count, left = space->columns.end - first - rows;
  ch_tile keys = state_tile(&args->parts[0], task->sequence, first, args->key_dim);
  ch_tile values = state_tile(&args->parts[1], task->sequence, first, args->value_dim);
  upcoming next_keys, next_values;
  if (left > 0) {
    next_keys = upcoming_rows(&keys, task->kv_head, rows, left < BLOCK ? left : BLOCK, args->key_dim);
    next_values = upcoming_rows(&values, task->kv_head, rows, left < BLOCK ? left : BLOCK, args->value_dim);
  } else {
    next_keys = take_piece(later);
    next_values = take_piece(later);
  }
  block_shape shape;
  shape_block(&space->columns, first, rows, &shape);
  score_block(&shape, (const real *)keys.data + task->kv_head * keys.head_stride, keys.stride, args->key_dim,
              space->q_packed, space->weights, &next_keys);
  score_block(&shape, (const real *)values.data + task->kv_head * values.head_stride, values.stride,
              args->value_dim, space->dout_packed, space->dscores, &next_values);
  for (int64_t i = 0; i < shape.vectors; i++)
    if (shape.masked)
      recompute_vector(true, space, i, first, shape.seen[i], shape.ld);
    else
      recompute_vector(false, space, i, first, rows, shape.ld);
  if (shape.masked) {
    clear_unseen(&shape, space->weights);
    clear_unseen(&shape, space->dscores);
  }
  if (into->dv)
    sum_over_columns(&shape, count, space->weights, space->dout, task->plan->value_padded,
                     into->dv + first * into->v_stride, into->v_stride, take_piece(later));
  if (into->dk)
    sum_over_columns(&shape, count, space->dscores, space->q, task->plan->key_padded,
                     into->dk + first * into->k_stride, into->k_stride, take_piece(later));
  if (task->gradient->dq) {
    int64_t stride;
    const real *readable = head_rows(&keys, task->kv_head, rows, args->key_dim, true, space->keys, &stride);
    upcoming next = take_piece(later);
    sum_over_keys(&shape, count, space->dscores, readable, stride, args->key_dim, space->dq, started, &next);
  }
}

static void put_queries(const backward_task *task, int64_t first, bool started) {
  const ch_attend *args = task->args;
  bool accumulate = task->gradient->accumulate_q;
  token_rows rows = query_rows(args, task->gradient->dq);
  column_place at = place_of(args, task->kv_head, first);
  for (int64_t i = 0; i < task->space->columns.count; i++, next_column(&at)) {
    real *dq = (real *)(uintptr_t)row_of(args, &rows, task->sequence, &at);
    if (started)
      put_row(task->space->dq + i * task->plan->key_padded, args->key_dim, (real)args->scale, dq, accumulate);
    else if (!accumulate)
      memset(dq, 0, (size_t)args->key_dim * sizeof(real));
  }
}

static int64_t panel_columns(const backward_plan *plan, int64_t panel) {
  return plan->columns - panel * PANEL < PANEL ? plan->columns - panel * PANEL : PANEL;
}

/* --- tasks --------------------------------------------------------------------------------------------------- */

/* dK and dV of a head, where they belong. */
static state_gradient gradient_of_head(const ch_attend *args, const ch_attend_gradient *gradient,
                                       int64_t sequence, int64_t kv_head) {
  const ch_state_view *k = &args->parts[0], *v = &args->parts[1];
  state_gradient of = {.k_stride = k->token_stride, .v_stride = v->token_stride};
  if (gradient->dk)
    of.dk = (real *)gradient->dk + sequence * k->sequence_stride + kv_head * ch_head_stride(k, args->key_dim);
  if (gradient->dv)
    of.dv =
        (real *)gradient->dv + sequence * v->sequence_stride + kv_head * ch_head_stride(v, args->value_dim);
  return of;
}

static state_gradient gradient_in_buffer(const ch_attend *args, const ch_attend_gradient *gradient,
                                         const backward_plan *plan, real *buffer) {
  return (state_gradient){.dk = gradient->dk ? buffer : NULL,
                          .dv = gradient->dv ? buffer + args->queries * plan->key_padded : NULL,
                          .k_stride = plan->key_padded,
                          .v_stride = plan->value_padded};
}

static void clear_rows(real *rows, int64_t first, int64_t end, int64_t dim, int64_t stride) {
  for (int64_t r = first; r < end; r++) memset(rows + r * stride, 0, (size_t)dim * sizeof(real));
}

/* Before rows up to `end` of dK and dV are added to. Not all at once: the next ones come while others are computed. */
static void clear_until(backward_task *task, int64_t end) {
  const backward_plan *plan = task->plan;
  const ch_attend_gradient *gradient = task->gradient;
  if (end <= task->cleared) return;
  if (task->into.dk && (plan->buffered || !gradient->accumulate_k))
    clear_rows(task->into.dk, task->cleared, end, plan->buffered ? plan->key_padded : task->args->key_dim,
               task->into.k_stride);
  if (task->into.dv && (plan->buffered || !gradient->accumulate_v))
    clear_rows(task->into.dv, task->cleared, end, plan->buffered ? plan->value_padded : task->args->value_dim,
               task->into.v_stride);
  task->cleared = end;
}

/* A part's panels in its turns, forth and back: under a causal mask later panels are more work. */
static int64_t panel_of_turn(const backward_plan *plan, int64_t part, int64_t turn) {
  return turn * plan->parts + (turn % 2 ? plan->parts - 1 - part : part);
}

/* What the panel will touch that none before it in its task has: its queries, and the keys up to its last query. */
static void queue_panel(const backward_task *of, int64_t panel, int64_t seen, fetch_queue *queue) {
  const ch_attend *args = of->args;
  int64_t first = panel * PANEL, count = panel_columns(of->plan, panel);
  int64_t s = of->sequence, g = of->kv_head, end = place_of(args, g, first + count - 1).query + 1;
  *queue = (fetch_queue){.count = 0};
  queue_piece(queue, upcoming_columns(args, query_rows(args, args->q), s, g, first, count));
  queue_piece(queue, upcoming_columns(args, output_rows(args, of->gradient->dout), s, g, first, count));
  queue_piece(queue, upcoming_columns(args, output_rows(args, args->out), s, g, first, count));
  if (end > seen) {
    ch_tile keys = state_tile(&args->parts[0], s, seen, args->key_dim);
    ch_tile values = state_tile(&args->parts[1], s, seen, args->value_dim);
    queue_piece(queue, upcoming_rows(&keys, g, 0, end - seen, args->key_dim));
    queue_piece(queue, upcoming_rows(&values, g, 0, end - seen, args->value_dim));
    if (of->into.dk && !of->plan->buffered)
      queue_piece(queue, upcoming_part(of->into.dk, seen, end, of->into.k_stride, args->key_dim));
    if (of->into.dv && !of->plan->buffered)
      queue_piece(queue, upcoming_part(of->into.dv, seen, end, of->into.v_stride, args->value_dim));
  }
  if (of->gradient->dq)
    queue_piece(queue, upcoming_columns(args, query_rows(args, of->gradient->dq), s, g, first, count));
}

static void run_panel(backward_task *task, int64_t panel) {
  const query_columns *c = &task->space->columns;
  start_columns(task, panel * PANEL, panel_columns(task->plan, panel));
  clear_until(task, c->end);
  bool started = false;
  for (int64_t first = c->first; first < c->end; first += BLOCK, started = true)
    meet_block(task, first, c->end - first < BLOCK ? c->end - first : BLOCK, started);
  if (task->gradient->dq) put_queries(task, panel * PANEL, started);
}

static backward_task task_number(const ch_attend *args, const ch_attend_gradient *gradient,
                                 const backward_plan *plan, int64_t number, real *buffer,
                                 backward_space *space) {
  int64_t pair = number / plan->parts;
  backward_task task = {.args = args,
                        .gradient = gradient,
                        .plan = plan,
                        .space = space,
                        .sequence = pair / args->kv_heads,
                        .kv_head = pair % args->kv_heads,
                        .part = number % plan->parts};
  task.into = plan->buffered ? gradient_in_buffer(args, gradient, plan, buffer)
                             : gradient_of_head(args, gradient, task.sequence, task.kv_head);
  return task;
}

/* Token `token` of the sum of `parts` buffers to its place. */
static void put_token(const ch_attend *args, const ch_attend_gradient *gradient, const backward_plan *plan,
                      real *buffers, int64_t parts, int64_t token, const state_gradient *into) {
  for (int64_t part = 0; part < parts; part++) {
    state_gradient from =
        gradient_in_buffer(args, gradient, plan, buffers + part * buffer_elements(args, plan));
    if (into->dk)
      put_row(from.dk + token * from.k_stride, args->key_dim, 1, into->dk + token * into->k_stride,
              part > 0 || gradient->accumulate_k);
    if (into->dv)
      put_row(from.dv + token * from.v_stride, args->value_dim, 1, into->dv + token * into->v_stride,
              part > 0 || gradient->accumulate_v);
  }
}

static void run_task(const ch_attend *args, const ch_attend_gradient *gradient, const backward_plan *plan,
                     int64_t number, real *buffer, backward_space *space) {
  backward_task task = task_number(args, gradient, plan, number, buffer, space);
  for (int64_t turn = 0, next; turn * plan->parts < plan->panels; turn++) {
    int64_t panel = panel_of_turn(plan, task.part, turn);
    if (panel >= plan->panels) continue;
    next = panel_of_turn(plan, task.part, turn + 1);
    if (next < plan->panels) {
      queue_panel(&task, next, place_of(args, task.kv_head, panel * PANEL + PANEL - 1).query + 1,
                  &task.later);
    } else if (number + 1 < plan->tasks) {
      backward_task after = task_number(args, gradient, plan, number + 1, buffer, space);
      queue_panel(&after, panel_of_turn(plan, after.part, 0), 0, &task.later);
    }
    run_panel(&task, panel);
  }
  clear_until(&task, args->queries);
  if (!plan->buffered || plan->parts > 1) return;
  state_gradient place = gradient_of_head(args, gradient, task.sequence, task.kv_head);
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
#pragma omp for schedule(dynamic, plan.chunk)
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
