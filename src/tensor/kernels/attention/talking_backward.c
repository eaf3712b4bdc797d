/* Talking-heads attention, backward: tiles are recomputed from the log-sum-exp (notation of talking.h; A and
 * B are the mixes of logits and weights).
 *
 *   dW_o = dO_o V_o^T      dP_g = sum_o B[o, g] dW_o     delta_g = sum over keys of P_g dP_g
 *   dL_g = P_g (dP_g - delta_g)                          dS_h = sum_g A[g, h] dL_g
 *   dQ_h = scale dS_h K_h  dK_h = scale dS_h^T Q_h       dV_o = W_o^T dO_o
 *   dA[g, h] = sum over pairs of dL_g S_h                dB[o, g] = sum over pairs of dW_o P_g
 *
 * If weights are mixed, delta is known only after a unit has read all its keys, so the unit reads them twice;
 * S, P and dP are saved the first time as far as KEPT allows. Otherwise delta = dO . O, and reading the keys
 * once is enough. A task processes units of one sequence and adds up dK and dV: in place if no other task has
 * that sequence, else in a buffer. The buffers are then added in a fixed order. */
#include "tensor/kernels/attention/talking.h"
#include "tensor/kernels/vector/dot.h"

enum { MOST_PARTS = 16 };

/* One block's tiles. Without a mix of logits, scores are the weights' own memory; without a mix of weights,
   dW is dP. */
typedef struct tile_set {
  real *scores, *weights, *dweights;
} tile_set;

/* The working memory of a thread. */
typedef struct gradient_space {
  state_space states;
  real *q, *dout;    /* [heads, rows, dim]; q scaled */
  real *dq;          /* [heads, rows, key_padded] */
  real *lse, *delta; /* [heads, rows] */
  real *work;        /* one tile */
  real *kept;        /* `slots` tile sets */
} gradient_space;

typedef struct gradient_plan {
  talking_shape shape;
  int64_t tile;         /* reals of a tile */
  int64_t slots, parts; /* tile sets that a thread saves; tasks per sequence */
  int64_t tasks;        /* tasks of all sequences */
  int64_t buffer;       /* reals of a part's own dK and dV; 0: the gradients themselves are used */
} gradient_plan;

/* The sums of a task: rows of tokens of its sequence, and matrices [heads, heads]; NULL: not computed. */
typedef struct task_sums {
  real *dk, *dv, *dlogits, *dweights;
} task_sums;

/* The arguments and the plan of one call. */
typedef struct talking_call {
  const ch_attend *args;
  const ch_attend_gradient *gradient;
  const ch_head_mixes *mixes;
  const ch_head_mixes_gradient *mixes_gradient;
  gradient_plan plan;
} talking_call;

static gradient_plan plan_gradient(const ch_attend *args, int threads) {
  gradient_plan plan = {.shape = shape_units(args, 4 * (int64_t)threads), .parts = 1};
  plan.tile = args->heads * plan.shape.plane;
  plan.slots = KEPT / (3 * plan.tile) + 1;
  if (args->sequences < 2 * threads && args->sequences % threads != 0)
    plan.parts = (2 * threads + args->sequences - 1) / args->sequences;
  if (plan.parts > MOST_PARTS) plan.parts = MOST_PARTS;
  if (plan.parts > plan.shape.units) plan.parts = plan.shape.units;
  plan.tasks = args->sequences * plan.parts;
  if (plan.parts > 1) plan.buffer = args->queries * args->heads * (args->key_dim + args->value_dim);
  return plan;
}

static void allocate_gradient(const ch_attend *args, const gradient_plan *plan, scratch_arena *arena,
                              gradient_space *space) {
  int64_t rows = args->heads * plan->shape.rows;
  allocate_state_space(args, &plan->shape, arena, &space->states);
  space->q = arena_reals(arena, rows * args->key_dim);
  space->dout = arena_reals(arena, rows * args->value_dim);
  space->dq = arena_reals(arena, rows * plan->shape.key_padded);
  space->lse = arena_reals(arena, rows);
  space->delta = arena_reals(arena, rows);
  space->work = arena_reals(arena, plan->tile);
  space->kept = arena_reals(arena, plan->slots * 3 * plan->tile);
}

/* --- products of tiles ---------------------------------------------------------------------------------- */

/* Up to 2 x 4 sums at once: most processors have no registers for more. */
enum { PAIR_ROWS = 2, PAIR_COLUMNS = 4 };

/* m [heads, heads] += x y^T over n elements (whole vectors) of every head. */
static void add_head_products(int64_t heads, int64_t n, int64_t plane, const real *x, const real *y,
                              real *m) {
  for (int64_t i = 0; i < heads; i += PAIR_ROWS)
    for (int64_t j = 0; j < heads; j += PAIR_COLUMNS) {
      const real *left[PAIR_ROWS], *right[PAIR_COLUMNS];
      vec sum[PAIR_ROWS][PAIR_COLUMNS];
      /* Heads past the last repeat it; their sums are not stored. */
#pragma GCC unroll 8
      for (int a = 0; a < PAIR_ROWS; a++) {
        left[a] = x + (i + a < heads ? i + a : heads - 1) * plane;
#pragma GCC unroll 8
        for (int b = 0; b < PAIR_COLUMNS; b++) sum[a][b] = splat(0);
      }
#pragma GCC unroll 8
      for (int b = 0; b < PAIR_COLUMNS; b++) right[b] = y + (j + b < heads ? j + b : heads - 1) * plane;
      for (int64_t e = 0; e < n; e += VL)
#pragma GCC unroll 8
        for (int a = 0; a < PAIR_ROWS; a++)
#pragma GCC unroll 8
          for (int b = 0; b < PAIR_COLUMNS; b++)
            sum[a][b] = vec_fma(load(left[a] + e), load(right[b] + e), sum[a][b]);
      for (int a = 0; a < PAIR_ROWS && i + a < heads; a++)
        for (int b = 0; b < PAIR_COLUMNS && j + b < heads; b++)
          m[(i + a) * heads + j + b] += lanes_sum(sum[a][b]);
    }
}

/* Adds to the block's rows [token, heads, dim] of dK or dV: tile_h^T X_h for every head, X [heads, rows,
   dim]. */
static void add_to_states(const ch_attend *args, const talking_unit *unit, const talking_block *block,
                          const real *tile, const real *x, int64_t dim, real *into) {
  int64_t stride = args->heads * dim;
  for (int64_t h = 0; h < args->heads; h++) KERNEL(tile_product)
  (block->count, dim, unit->rows, tile + h * block->plane, 1, block->ld, x + h * unit->rows * dim, dim,
   into + block->first * stride + h * dim, stride, true);
}

/* --- a unit --------------------------------------------------------------------------------------------- */

static void start_unit(const talking_call *call, const talking_unit *unit, const gradient_space *space) {
  const ch_attend *args = call->args;
  gather_rows(args, unit, args->q, args->key_dim, (real)args->scale, space->q);
  gather_rows(args, unit, call->gradient->dout, args->value_dim, 1, space->dout);
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++) {
      int64_t i = h * unit->rows + r, query = unit->query + r;
      real lse = ((const real *)args->lse)[(unit->sequence * args->heads + h) * args->queries + query];
      /* If a query sees no key, all its logits are masked. Any finite number then gives weights of 0. */
      space->lse[i] = lse == -(real)INFINITY ? 0 : lse;
      const real *out = (const real *)args->out +
                        ((unit->sequence * args->queries + query) * args->heads + h) * args->value_dim;
      space->delta[i] =
          call->mixes->weights ? 0 : dot(args->value_dim, space->dout + i * args->value_dim, out);
    }
}

static tile_set tiles_of(const talking_call *call, int64_t block, const gradient_space *space) {
  int64_t slot = block < call->plan.slots ? block : call->plan.slots - 1, tile = call->plan.tile;
  real *at = space->kept + slot * 3 * tile;
  return (tile_set){.scores = call->mixes->logits ? at + 2 * tile : at, .weights = at, .dweights = at + tile};
}

static bool is_kept(const talking_call *call, const talking_unit *unit, int64_t block) {
  return unit->blocks <= call->plan.slots || block < call->plan.slots - 1;
}

/* delta_g += the block's P_g . dP_g. */
static void add_deltas(const ch_attend *args, const talking_unit *unit, const talking_block *block,
                       const tile_set *tiles, real *delta) {
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++) {
      int64_t at = h * block->plane + r * block->ld;
      delta[h * unit->rows + r] += dot(block->ld, tiles->weights + at, tiles->dweights + at);
    }
}

/* Computes S, P and dP of a block. If `first`, also adds its part of dV, dB and delta. */
static void meet_block(const talking_call *call, const talking_unit *unit, int64_t number, bool first,
                       const task_sums *sums, const gradient_space *space) {
  const ch_attend *args = call->args;
  const ch_head_mixes *mixes = call->mixes;
  talking_block block = block_number(unit, number);
  tile_set tiles = tiles_of(call, number, space);
  ch_tiles states;
  produce_block(args, unit, &block, &space->states, &states);
  logits_of_block(args, mixes, unit, &block, space->q, &states.keys, &space->states, tiles.scores,
                  tiles.weights);
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++)
      exponentiate_row(tiles.weights + h * block.plane + r * block.ld, block.ld,
                       space->lse[h * unit->rows + r], 1);
  real *dmixed = mixes->weights ? space->work : tiles.dweights; /* dW */
  multiply_states(args, unit, &block, space->dout, &states.values, args->value_dim, &space->states, dmixed);
  if (mixes->weights) mix_heads(args, unit, &block, mixes->weights, true, dmixed, tiles.dweights);
  if (!first) return;
  if (sums->dweights)
    add_head_products(args->heads, unit->rows * block.ld, block.plane, dmixed, tiles.weights, sums->dweights);
  if (mixes->weights) add_deltas(args, unit, &block, &tiles, space->delta);
  if (!sums->dv) return;
  const real *mixed = tiles.weights; /* W */
  if (mixes->weights) {
    mix_heads(args, unit, &block, mixes->weights, false, tiles.weights, space->work);
    mixed = space->work;
  }
  add_to_states(args, unit, &block, mixed, space->dout, args->value_dim, sums->dv);
}

/* Computes dL of a block and adds its part of dA, dQ and dK. */
static void leave_block(const talking_call *call, const talking_unit *unit, int64_t number,
                        const task_sums *sums, const gradient_space *space) {
  const ch_attend *args = call->args;
  talking_block block = block_number(unit, number);
  tile_set tiles = tiles_of(call, number, space);
  real *dscores = tiles.dweights; /* dL, then dS */
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++) {
      int64_t at = h * block.plane + r * block.ld;
      real delta = space->delta[h * unit->rows + r];
      for (int64_t j = at; j < at + block.ld; j += VL)
        store(dscores + j, load(tiles.weights + j) * (load(dscores + j) - delta));
    }
  if (sums->dlogits)
    add_head_products(args->heads, unit->rows * block.ld, block.plane, dscores, tiles.scores, sums->dlogits);
  if (call->mixes->logits) {
    mix_heads(args, unit, &block, call->mixes->logits, true, dscores, space->work);
    dscores = space->work;
  }
  if (sums->dk) add_to_states(args, unit, &block, dscores, space->q, args->key_dim, sums->dk);
  if (!call->gradient->dq) return;
  ch_tiles states;
  produce_block(args, unit, &block, &space->states, &states);
  sum_states(args, unit, &block, dscores, &states.keys, args->key_dim, &space->states, space->dq, number > 0);
}

static void write_dq(const talking_call *call, const talking_unit *unit, const gradient_space *space) {
  const ch_attend *args = call->args;
  int64_t padded = call->plan.shape.key_padded;
  if (unit->blocks == 0) memset(space->dq, 0, (size_t)(args->heads * unit->rows * padded) * sizeof(real));
  for (int64_t h = 0; h < args->heads; h++)
    for (int64_t r = 0; r < unit->rows; r++) {
      real *dq = (real *)call->gradient->dq +
                 ((unit->sequence * args->queries + unit->query + r) * args->heads + h) * args->key_dim;
      put_row(space->dq + (h * unit->rows + r) * padded, args->key_dim, (real)args->scale, dq,
              call->gradient->accumulate_q);
    }
}

static void run_unit(const talking_call *call, const talking_unit *unit, const task_sums *sums,
                     const gradient_space *space) {
  start_unit(call, unit, space);
  for (int64_t b = 0; call->mixes->weights && b < unit->blocks; b++)
    meet_block(call, unit, b, true, sums, space);
  for (int64_t b = 0; b < unit->blocks; b++) {
    if (!call->mixes->weights)
      meet_block(call, unit, b, true, sums, space);
    else if (!is_kept(call, unit, b))
      meet_block(call, unit, b, false, sums, space);
    leave_block(call, unit, b, sums, space);
  }
  if (call->gradient->dq) write_dq(call, unit, space);
}

/* --- tasks ---------------------------------------------------------------------------------------------- */

/* Returns the addresses of a sequence's dK and dV. */
static task_sums sums_in_place(const talking_call *call, int64_t sequence) {
  const ch_attend *args = call->args;
  int64_t tokens = sequence * args->queries * args->heads;
  task_sums place = {0};
  if (call->gradient->dk) place.dk = (real *)call->gradient->dk + tokens * args->key_dim;
  if (call->gradient->dv) place.dv = (real *)call->gradient->dv + tokens * args->value_dim;
  return place;
}

/* Returns the addresses of a part's dK and dV in its buffer. */
static task_sums sums_in_buffer(const talking_call *call, int64_t task, real *buffers) {
  const ch_attend *args = call->args;
  real *buffer = buffers + task * call->plan.buffer;
  task_sums sums = {0};
  if (call->gradient->dk) sums.dk = buffer;
  if (call->gradient->dv) sums.dv = buffer + args->queries * args->heads * args->key_dim;
  return sums;
}

static void clear(real *x, int64_t count) {
  if (x) memset(x, 0, (size_t)count * sizeof *x);
}

static void run_task(const talking_call *call, int64_t task, real *buffers, real *matrices,
                     const gradient_space *space) {
  const ch_attend *args = call->args;
  const gradient_plan *plan = &call->plan;
  int64_t sequence = task / plan->parts, part = task % plan->parts, square = args->heads * args->heads;
  task_sums sums = plan->buffer ? sums_in_buffer(call, task, buffers) : sums_in_place(call, sequence);
  if (call->mixes_gradient->dlogits) sums.dlogits = matrices + 2 * task * square;
  if (call->mixes_gradient->dweights) sums.dweights = matrices + (2 * task + 1) * square;
  clear(sums.dlogits, square);
  clear(sums.dweights, square);
  if (plan->buffer || !call->gradient->accumulate_k)
    clear(sums.dk, args->queries * args->heads * args->key_dim);
  if (plan->buffer || !call->gradient->accumulate_v)
    clear(sums.dv, args->queries * args->heads * args->value_dim);
  /* Parts get units in turn, forwards and then backwards: later units are more work under a causal mask. */
  for (int64_t turn = 0; turn * plan->parts < plan->shape.units; turn++) {
    int64_t number = turn * plan->parts + (turn % 2 ? plan->parts - 1 - part : part);
    if (number >= plan->shape.units) continue;
    talking_unit unit = unit_number(args, &plan->shape, sequence, number);
    run_unit(call, &unit, &sums, space);
  }
}

/* Writes or adds the sum of the parts' buffers for a token of a sequence to its dK and dV. */
static void put_token(const talking_call *call, int64_t sequence, int64_t token, real *buffers) {
  const ch_attend *args = call->args;
  int64_t keys = args->heads * args->key_dim, values = args->heads * args->value_dim;
  task_sums place = sums_in_place(call, sequence);
  for (int64_t part = 0; part < call->plan.parts; part++) {
    task_sums from = sums_in_buffer(call, sequence * call->plan.parts + part, buffers);
    if (place.dk)
      put_row(from.dk + token * keys, keys, 1, place.dk + token * keys,
              part > 0 || call->gradient->accumulate_k);
    if (place.dv)
      put_row(from.dv + token * values, values, 1, place.dv + token * values,
              part > 0 || call->gradient->accumulate_v);
  }
}

/* Writes or adds the sum of all tasks' matrices to `into`, in the order of the tasks. */
static void put_matrix(const talking_call *call, const real *matrices, void *into, bool accumulate) {
  int64_t square = call->args->heads * call->args->heads;
  for (int64_t task = 0; into && task < call->plan.tasks; task++)
    put_row(matrices + 2 * task * square, square, 1, into, task > 0 || accumulate);
}

void KERNEL(talking_backward)(const ch_attend *args, const ch_attend_gradient *gradient,
                              const ch_head_mixes *mixes, const ch_head_mixes_gradient *mixes_gradient) {
  if (args->sequences <= 0 || args->queries <= 0) return;
  int threads = args->team->threads;
  talking_call call = {args, gradient, mixes, mixes_gradient, plan_gradient(args, threads)};
  scratch_arena arena = arena_at(args->scratch), count = {0};
  gradient_space unused;
  allocate_gradient(args, &call.plan, &count, &unused);
  int64_t square = args->heads * args->heads;
  real *matrices = arena_reals(&arena, 2 * call.plan.tasks * square);
  real *buffers = arena_reals(&arena, call.plan.tasks * call.plan.buffer);
  char *spaces = arena.base + arena.used;
#pragma omp parallel num_threads(args->team->workers) if (call.plan.tasks > 1)
  {
    scratch_arena own = {.base = spaces + (size_t)omp_get_thread_num() * count.used};
    gradient_space space;
    allocate_gradient(args, &call.plan, &own, &space);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < call.plan.tasks; task++)
      if (!ch_team_stops(args->team)) run_task(&call, task, buffers, matrices, &space);
    if (call.plan.buffer) {
#pragma omp for schedule(static)
      for (int64_t row = 0; row < args->sequences * args->queries; row++)
        put_token(&call, row / args->queries, row % args->queries, buffers);
    }
  }
  put_matrix(&call, matrices, mixes_gradient->dlogits, mixes_gradient->accumulate_logits);
  put_matrix(&call, matrices + square, mixes_gradient->dweights, mixes_gradient->accumulate_weights);
}

size_t talking_backward_scratch(const ch_attend *args) {
  int threads = args->team->threads;
  gradient_plan plan = plan_gradient(args, threads);
  scratch_arena shared = {0}, own = {0};
  gradient_space unused;
  arena_reals(&shared, 2 * plan.tasks * args->heads * args->heads);
  arena_reals(&shared, plan.tasks * plan.buffer);
  allocate_gradient(args, &plan, &own, &unused);
  return shared.used + own.used * (size_t)threads + 64;
}
