/* A panel of the backward pass of attention: its start, its step for a block of keys and values, its end. */
#include "tensor/kernels/attention/attend_backward.h"

void attend_backward_allocate(const ch_attend *args, const backward_plan *plan, scratch_arena *arena,
                              backward_space *space) {
  allocate_columns(arena, PANEL, &space->columns);
  space->q_packed = arena_reals(arena, args->key_dim * PANEL);
  space->dout_packed = arena_reals(arena, args->value_dim * PANEL);
  space->q = arena_reals(arena, PANEL * plan->key_padded);
  space->dout = arena_reals(arena, PANEL * plan->value_padded);
  space->dq = arena_reals(arena, PANEL * plan->key_padded);
  space->lse = arena_reals(arena, PANEL);
  space->delta = arena_reals(arena, PANEL);
  space->weights = arena_reals(arena, SCORES);
  space->dscores = arena_reals(arena, SCORES);
  space->keys = arena_reals(arena, BLOCK * plan->key_padded);
  space->key_rows = arena_reals(arena, plan->bf16_dot ? BLOCK * pairs_of(args->key_dim) : 0);
  space->value_rows = arena_reals(arena, plan->bf16_dot ? BLOCK * pairs_of(args->value_dim) : 0);
  space->dscore_pairs = arena_reals(arena, plan->bf16_dot ? BLOCK / 2 * PANEL + TILE_ROWS : 0);
}

/* Writes delta_i = dO_i . O_i for VL columns at once. If dP is computed from rounded dO, delta uses the
   rounded dO too, so that the rounding error common to all dP of a query cancels. */
ALWAYS_INLINE void column_deltas(const bool bf16_dot, const row_list *dout, const row_list *out,
                                 int64_t count, int64_t dim, real *delta) {
  for (int64_t i = 0; i < count; i += VL) {
    vec lanes[VL];
    for (int64_t j = 0; j < VL; j++) {
      lanes[j] = splat(0);
      for (int64_t k = 0; i + j < count && k < dim; k += VL)
        lanes[j] = vec_fma(bf16_dot ? rounded(load_narrow(dout->row[i + j] + k, dim - k))
                                    : load_narrow(dout->row[i + j] + k, dim - k),
                           load_narrow(out->row[i + j] + k, dim - k), lanes[j]);
    }
    store(delta + i, sum_lanes(lanes));
  }
}

/* Writes the columns' queries and output gradients in the layouts of both products, and delta. */
ALWAYS_INLINE void lay_out_columns(const bool bf16_dot, const backward_task *task, const row_list *q,
                                   const row_list *dout, const row_list *out) {
  const ch_attend *args = task->args;
  backward_space *space = task->space;
  int64_t count = space->columns.count, ld = space->columns.padded;
  real scale = (real)args->scale;
  copy_columns(bf16_dot, q, count, args->key_dim, scale, space->q);
  copy_columns(bf16_dot, dout, count, args->value_dim, 1, space->dout);
  pack_transposed(bf16_dot, q, count, args->key_dim, scale, space->q_packed, ld);
  pack_transposed(bf16_dot, dout, count, args->value_dim, 1, space->dout_packed, ld);
  column_deltas(bf16_dot, dout, out, count, args->value_dim, space->delta);
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
    /* If a query sees no key, all its scores are masked. Any finite number then gives weights of 0. */
    space->lse[i] = lse == -(real)INFINITY ? 0 : lse;
  }
  finish_columns(c);
  for (int64_t i = count; i < c->padded; i++) space->lse[i] = 0;
  if (task->plan->bf16_dot)
    lay_out_columns(true, task, &q, &dout, &out);
  else
    lay_out_columns(false, task, &q, &dout, &out);
}

/* Applies the soft cap to S, and scales dP about delta so that dS gets the cap's slopes: recompute_row
   multiplies P by (dP - delta). */
static void cap_backward(const block_shape *shape, real cap, const backward_space *space) {
  for (int64_t v = 0; v < shape->vectors; v++) {
    vec delta = load(space->delta + v * VL);
    for (int64_t r = 0; r < shape->seen[v]; r++) {
      real *s = space->weights + r * shape->ld + v * VL, *dp = space->dscores + r * shape->ld + v * VL;
      vec capped = soft_capped(load(s), cap);
      store(s, capped);
      store(dp, delta + (load(dp) - delta) * soft_cap_slope(capped, cap));
    }
  }
}

/* Replaces S by P and dP by dS for one key and vector v of columns. Rounded rows start at the address of their
   reals. Returns dS. */
ALWAYS_INLINE vec recompute_row(const bool masked, const bool bf16_dot, const column_mask *mask, vec lse,
                                vec delta, int64_t key, int64_t v, real *weights, real *dscores) {
  vec s = load(weights + v * VL);
  if (masked) s = masked_score(mask, s, key);
  vec p = bf16_dot ? vec_exp_distance(s, lse) : vec_exp_distance(s - lse, splat(0)),
      ds = p * (load(dscores + v * VL) - delta);
  if (bf16_dot) {
    store_rounded(weights + v * VL / 2, p);
    store_rounded(dscores + v * VL / 2, ds);
  } else {
    store(weights + v * VL, p);
    store(dscores + v * VL, ds);
  }
  return ds;
}

/* Recomputes weights and score gradients of rows begin … end-1 of vector v of columns; begin is even. */
ALWAYS_INLINE void recompute_rows(const bool masked, const bool bf16_dot, const backward_space *space,
                                  int64_t v, int64_t first, int64_t begin, int64_t end, int64_t ld) {
  column_mask mask = {0};
  if (masked) mask = load_mask(&space->columns, v);
  vec lse = load(space->lse + v * VL), delta = load(space->delta + v * VL);
  real *weights = space->weights + begin * ld, *dscores = space->dscores + begin * ld,
       *to = space->dscore_pairs + begin / 2 * ld + v * VL;
  for (int64_t r = begin; r < end; r += 2, weights += 2 * ld, dscores += 2 * ld, to += ld) {
    vec even = recompute_row(masked, bf16_dot, &mask, lse, delta, first + r, v, weights, dscores);
    vec odd = splat(0);
    if (r + 1 < end)
      odd = recompute_row(masked, bf16_dot, &mask, lse, delta, first + r + 1, v, weights + ld, dscores + ld);
    if (bf16_dot) store(to, (vec)paired(even, odd));
  }
}

/* Replaces S^T by P^T in `weights` and dP^T by dS^T in `dscores`, for vector v of columns. Keys that none of its
   columns sees get zeros. Call it for the vectors in order: the rounded rows of later vectors overwrite the reals of
   earlier ones. */
ALWAYS_INLINE void recompute_vector(const bool bf16_dot, const backward_space *space, int64_t v,
                                    int64_t first, const block_shape *shape) {
  const int64_t ld = shape->ld, seen = shape->seen[v],
                clear = shape->clear[v] < seen ? shape->clear[v] / 2 * 2 : seen;
  recompute_rows(false, bf16_dot, space, v, first, 0, clear, ld);
  if (clear < seen) recompute_rows(true, bf16_dot, space, v, first, clear, seen, ld);
  for (int64_t r = seen; r < shape->rows; r++)
    if (bf16_dot) {
      store_rounded(space->weights + r * ld + v * VL / 2, splat(0));
      store_rounded(space->dscores + r * ld + v * VL / 2, splat(0));
      if (r % 2 == 0) store(space->dscore_pairs + r / 2 * ld + v * VL, splat(0));
    } else {
      store(space->weights + r * ld + v * VL, splat(0));
      store(space->dscores + r * ld + v * VL, splat(0));
    }
}

/* Like recompute_vector, for all vectors. */
ALWAYS_INLINE void recompute_block(const bool bf16_dot, const backward_space *space, int64_t first,
                                   const block_shape *shape) {
  for (int64_t v = 0; v < shape->vectors; v++) recompute_vector(bf16_dot, space, v, first, shape);
}

/* Y [rows, dim] += W^T X: for every key, the sum of rows X [columns, padded] with weights W^T [rows, ld]. For
   BF16 dot products, two columns share a lane. */
static void sum_over_columns(const block_shape *shape, bool bf16_dot, int64_t count, const real *weights,
                             const real *x, int64_t padded, real *y, int64_t stride, upcoming next) {
  tile_function *tile = bf16_dot ? tile_bf16_dot_rows : tile_rows;
  const int64_t together = bf16_dot ? 2 : 1;
  count = (count + together - 1) / together;
  for (int64_t v = 0; v * VL < padded; v += TILE_VECTORS)
    for (int64_t r = 0; r < shape->rows; r += TILE_ROWS) {
      if (v == 0) fetch_share(&next, r / TILE_ROWS, (shape->rows + TILE_ROWS - 1) / TILE_ROWS);
      int64_t begin = first_vector(shape, r) * VL / together;
      if (begin < count)
        tile(at_most(padded / VL - v, TILE_VECTORS), at_most(shape->rows - r, TILE_ROWS), count - begin,
             weights + r * shape->ld + begin, shape->ld, x + begin * padded + v * VL, padded,
             y + r * stride + v * VL, stride, true);
    }
}

/* Rows of a head, as reals or rounded. */
typedef struct state_rows {
  const real *data;
  int64_t stride;
} state_rows;

static state_rows whole_rows(const ch_tile *tile, int64_t head) {
  return (state_rows){(const real *)tile->data + head * tile->head_stride, tile->stride};
}

static state_rows factor_rows(bool bf16_dot, const ch_tile *tile, int64_t head, int64_t count, int64_t dim,
                              real *space) {
  state_rows rows = whole_rows(tile, head);
  if (!bf16_dot) return rows;
  round_rows(rows.data, rows.stride, count, dim, space);
  return (state_rows){space, pairs_of(dim)};
}

/* Processes the keys and values first … first+rows-1 for the panel. */
static void meet_block(backward_task *task, int64_t first, int64_t rows, bool started) {
  const ch_attend *args = task->args;
  const state_gradient *into = &task->into;
  backward_space *space = task->space;
  fetch_queue *later = &task->later;
  const bool bf16_dot = task->plan->bf16_dot;
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
  state_rows k = factor_rows(bf16_dot, &keys, task->kv_head, rows, args->key_dim, space->key_rows),
             v = factor_rows(bf16_dot, &values, task->kv_head, rows, args->value_dim, space->value_rows);
  score_block(&shape, bf16_dot, k.data, k.stride, args->key_dim, space->q_packed, space->weights, &next_keys);
  score_block(&shape, bf16_dot, v.data, v.stride, args->value_dim, space->dout_packed, space->dscores,
              &next_values);
  if (args->soft_cap > 0) cap_backward(&shape, (real)args->soft_cap, space);
  if (bf16_dot)
    recompute_block(true, space, first, &shape);
  else
    recompute_block(false, space, first, &shape);
  if (into->dv)
    sum_over_columns(&shape, bf16_dot, count, space->weights, space->dout, task->plan->value_padded,
                     into->dv + first * into->v_stride, into->v_stride, take_piece(later));
  if (into->dk)
    sum_over_columns(&shape, bf16_dot, count, space->dscores, space->q, task->plan->key_padded,
                     into->dk + first * into->k_stride, into->k_stride, take_piece(later));
  if (task->gradient->dq) {
    upcoming next = take_piece(later);
    if (bf16_dot) {
      k = whole_rows(&keys, task->kv_head);
      pair_up_rows(k.data, k.stride, rows, args->key_dim, space->keys);
      sum_over_keys(&shape, true, count, space->dscore_pairs, space->keys, task->plan->key_padded,
                    args->key_dim, space->dq, started, &next);
    } else {
      k.data = head_rows(&keys, task->kv_head, rows, args->key_dim, true, space->keys, &k.stride);
      sum_over_keys(&shape, false, count, space->dscores, k.data, k.stride, args->key_dim, space->dq, started,
                    &next);
    }
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

static void clear_rows(real *rows, int64_t first, int64_t end, int64_t dim, int64_t stride) {
  for (int64_t r = first; r < end; r++) memset(rows + r * stride, 0, (size_t)dim * sizeof(real));
}

void attend_clear_until(backward_task *task, int64_t end) {
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

void attend_backward_panel(backward_task *task, int64_t panel) {
  const query_columns *c = &task->space->columns;
  start_columns(task, panel * PANEL, panel_columns(task->plan, panel));
  attend_clear_until(task, c->end);
  bool started = false;
  for (int64_t first = first_seen(c); first < c->end; first += BLOCK) {
    if (!sees_any(c, first, BLOCK)) continue;
    meet_block(task, first, c->end - first < BLOCK ? c->end - first : BLOCK, started);
    started = true;
  }
  if (task->gradient->dq) put_queries(task, panel * PANEL, started);
}
