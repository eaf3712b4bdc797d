/* Talking-heads attention, forward. All threads share the units of queries. If a sequence has too few units
 * (decoding), every unit's keys are divided into one range per thread. */
#include "tensor/kernels/attention/talking.h"

/* The working memory of a thread. */
typedef struct talking_space {
  state_space states;
  real *q;           /* [heads, rows, key_dim], scaled */
  real *max, *sum;   /* [heads, rows] maximum and sum over this thread's keys */
  real *base, *norm; /* [heads, rows] over all keys: weight = norm e^(logit - base) */
  real *context;     /* [heads, rows, value_padded] */
  real *work, *kept; /* work: one tile; kept: `slots` tiles of logits or weights */
} talking_space;

typedef struct talking_plan {
  talking_shape shape;
  int64_t slots; /* tiles of logits that a thread saves */
  bool split;    /* true if threads share the keys of a unit */
} talking_plan;

/* Plans a call. The shape of a single sequence decides if keys are split, so that a sequence has the same bits in
   every batch. */
static talking_plan plan_talking(const ch_attend *args, int threads) {
  ch_attend alone = *args;
  alone.sequences = 1;
  talking_plan plan = {.shape = shape_units(&alone, 4 * (int64_t)threads)};
  plan.split = plan.shape.units < 2 * threads && plan.shape.units % threads != 0;
  if (!plan.split) plan.shape = shape_units(args, 4 * (int64_t)threads);
  plan.slots = KEPT / (args->heads * plan.shape.plane) + 1;
  return plan;
}

static void allocate_talking(const ch_attend *args, const talking_plan *plan, scratch_arena *arena,
                             talking_space *space) {
  int64_t rows = args->heads * plan->shape.rows, tile = args->heads * plan->shape.plane;
  allocate_state_space(args, &plan->shape, arena, &space->states);
  space->q = arena_reals(arena, rows * args->key_dim);
  space->max = arena_reals(arena, rows);
  space->sum = arena_reals(arena, rows);
  space->base = arena_reals(arena, rows);
  space->norm = arena_reals(arena, rows);
  space->context = arena_reals(arena, rows * plan->shape.value_padded);
  space->work = arena_reals(arena, tile);
  space->kept = arena_reals(arena, plan->slots * tile);
}

/* The keys that a thread processes: blocks first … end-1 of the unit. */
typedef struct block_range {
  int64_t first, end;
} block_range;

/* Returns the memory for the logits of a block. Blocks past the last slot share it. */
static real *slot_of(const ch_attend *args, const talking_plan *plan, const block_range *range, int64_t block,
                     const talking_space *space) {
  int64_t slot = block - range->first;
  if (slot >= plan->slots) slot = plan->slots - 1;
  return space->kept + slot * args->heads * plan->shape.plane;
}

static bool is_kept(const talking_plan *plan, const block_range *range, int64_t block) {
  return range->end - range->first <= plan->slots || block - range->first < plan->slots - 1;
}

/* Adds a row of logits to the running maximum and sum of e^(logit - maximum). */
static void add_logits(const real *row, int64_t ld, real *max, real *sum) {
  vec peaks = splat(*max), added = splat(0);
  for (int64_t j = 0; j < ld; j += VL) peaks = vec_max(load(row + j), peaks);
  real peak = lanes_max(peaks);
  if (peak == -(real)INFINITY) return;
  for (int64_t j = 0; j < ld; j += VL) added += vec_exp(load(row + j) - peak);
  *sum = *sum * real_exp(*max - peak) + lanes_sum(added);
  *max = peak;
}

/* The first pass: computes the softmax's maxima and sums, and saves logits. */
static void scan_keys(const ch_attend *args, const ch_head_mixes *mixes, const talking_plan *plan,
                      const talking_unit *unit, const block_range *range, const talking_space *space) {
  for (int64_t i = 0; i < args->heads * unit->rows; i++) {
    space->max[i] = -(real)INFINITY;
    space->sum[i] = 0;
  }
  for (int64_t b = range->first; b < range->end; b++) {
    talking_block block = block_number(unit, b);
    real *logits = slot_of(args, plan, range, b, space);
    ch_tiles tiles;
    produce_block(args, unit, &block, &space->states, &tiles);
    logits_of_block(args, mixes, unit, &block, space->q, &tiles.keys, &space->states, space->work, logits);
    for (int64_t h = 0; h < args->heads; h++)
      for (int64_t r = 0; r < unit->rows; r++)
        add_logits(logits + h * block.plane + r * block.ld, block.ld, &space->max[h * unit->rows + r],
                   &space->sum[h * unit->rows + r]);
  }
}

/* Merges the maxima and sums of all parts. A query that sees no key gets weights of 0. */
static void merge_sums(int64_t rows, const talking_space *team, int parts, const talking_space *space) {
  for (int64_t i = 0; i < rows; i++) {
    real max = -(real)INFINITY, sum = 0;
    for (int p = 0; p < parts; p++)
      if (team[p].max[i] > max) max = team[p].max[i];
    if (max == -(real)INFINITY) max = 0;
    for (int p = 0; p < parts; p++) sum += team[p].sum[i] * real_exp(team[p].max[i] - max);
    space->base[i] = max;
    space->norm[i] = sum == 0 ? 0 : 1 / sum;
  }
}

/* The second pass: computes the weights, mixes them and adds the weighted values. */
static void weigh_values(const ch_attend *args, const ch_head_mixes *mixes, const talking_plan *plan,
                         const talking_unit *unit, const block_range *range, const talking_space *space) {
  if (range->first >= range->end)
    memset(space->context, 0, (size_t)(args->heads * unit->rows * plan->shape.value_padded) * sizeof(real));
  for (int64_t b = range->first; b < range->end; b++) {
    talking_block block = block_number(unit, b);
    real *weights = slot_of(args, plan, range, b, space), *mixed = weights;
    ch_tiles tiles;
    produce_block(args, unit, &block, &space->states, &tiles);
    if (!is_kept(plan, range, b))
      logits_of_block(args, mixes, unit, &block, space->q, &tiles.keys, &space->states, space->work, weights);
    for (int64_t h = 0; h < args->heads; h++)
      for (int64_t r = 0; r < unit->rows; r++)
        exponentiate_row(weights + h * block.plane + r * block.ld, block.ld, space->base[h * unit->rows + r],
                         space->norm[h * unit->rows + r]);
    if (mixes->weights) {
      mixed = space->work;
      mix_heads(args, unit, &block, mixes->weights, false, weights, mixed);
    }
    sum_states(args, unit, &block, mixed, &tiles.values, args->value_dim, &space->states, space->context,
               b > range->first);
  }
}

/* Writes rows first … end-1 of [heads, rows]: the sums of the parts to the output, and log-sum-exps. */
static void write_rows(const ch_attend *args, const talking_unit *unit, const talking_space *team, int parts,
                       int64_t first, int64_t end) {
  int64_t dim = args->value_dim, padded = round_up(dim, VL);
  for (int64_t i = first; i < end; i++) {
    int64_t h = i / unit->rows, query = unit->query + i % unit->rows;
    real *out = (real *)args->out + ((unit->sequence * args->queries + query) * args->heads + h) * dim;
    for (int64_t k = 0; k < dim; k += VL) {
      vec sum = load(team[0].context + i * padded + k);
      for (int p = 1; p < parts; p++) sum += load(team[p].context + i * padded + k);
      store_some(out + k, sum, dim - k);
    }
    if (!args->lse) continue;
    real norm = team[0].norm[i];
    ((real *)args->lse)[(unit->sequence * args->heads + h) * args->queries + query] =
        norm == 0 ? -(real)INFINITY : team[0].base[i] - real_log(norm);
  }
}

/* Returns the blocks of a part of a unit. A unit is computed in three passes over its parts: scan_part,
   weigh_part and write_part. A part of a pass needs all parts of the pass before. */
static block_range blocks_of_part(const talking_unit *unit, int part, int parts) {
  block_range range;
  thread_range(unit->blocks, part, parts, &range.first, &range.end);
  return range;
}

static void scan_part(const ch_attend *args, const ch_head_mixes *mixes, const talking_plan *plan,
                      const talking_unit *unit, const talking_space *team, int part, int parts) {
  block_range range = blocks_of_part(unit, part, parts);
  gather_rows(args, unit, args->q, args->key_dim, (real)args->scale, team[part].q);
  scan_keys(args, mixes, plan, unit, &range, &team[part]);
}

static void weigh_part(const ch_attend *args, const ch_head_mixes *mixes, const talking_plan *plan,
                       const talking_unit *unit, const talking_space *team, int part, int parts) {
  block_range range = blocks_of_part(unit, part, parts);
  merge_sums(args->heads * unit->rows, team, parts, &team[part]);
  weigh_values(args, mixes, plan, unit, &range, &team[part]);
}

static void write_part(const ch_attend *args, const talking_unit *unit, const talking_space *team, int part,
                       int parts) {
  int64_t first, end;
  thread_range(args->heads * unit->rows, part, parts, &first, &end);
  write_rows(args, unit, team, parts, first, end);
}

/* Computes a unit with all threads of a parallel region. */
static void run_split(const ch_attend *args, const ch_head_mixes *mixes, const talking_plan *plan,
                      const talking_unit *unit, const talking_space *team, int parts) {
  EACH_PART(part, parts) scan_part(args, mixes, plan, unit, team, part, parts);
#pragma omp barrier
  EACH_PART(part, parts) weigh_part(args, mixes, plan, unit, team, part, parts);
#pragma omp barrier
  EACH_PART(part, parts) write_part(args, unit, team, part, parts);
#pragma omp barrier
}

/* Computes a unit with one thread. */
static void run_whole(const ch_attend *args, const ch_head_mixes *mixes, const talking_plan *plan,
                      const talking_unit *unit, const talking_space *own) {
  scan_part(args, mixes, plan, unit, own, 0, 1);
  weigh_part(args, mixes, plan, unit, own, 0, 1);
  write_part(args, unit, own, 0, 1);
}

static talking_space *allocate_team(const ch_attend *args, const talking_plan *plan, int threads,
                                    scratch_arena *arena) {
  talking_space *team = arena_take(arena, threads, sizeof *team), unused;
  for (int t = 0; t < threads; t++) allocate_talking(args, plan, arena, arena->base ? &team[t] : &unused);
  return team;
}

void KERNEL(talking_forward)(const ch_attend *args, const ch_head_mixes *mixes) {
  if (args->sequences <= 0 || args->queries <= 0) return;
  int threads = args->team->threads;
  talking_plan plan = plan_talking(args, threads);
  scratch_arena arena = arena_at(args->scratch);
  const talking_space *team = allocate_team(args, &plan, threads, &arena);
  int64_t units = args->sequences * plan.shape.units;
  const int parts = parts_of_team(args->team, true);
#pragma omp parallel num_threads(args->team->workers)
  if (plan.split) {
    for (int64_t u = 0; u < units; u++) {
      talking_unit unit = unit_number(args, &plan.shape, u / plan.shape.units, u % plan.shape.units);
      run_split(args, mixes, &plan, &unit, team, parts);
    }
  } else {
    /* The last queries come first: under a causal mask they are the most work. */
#pragma omp for schedule(dynamic, 1)
    for (int64_t u = 0; u < units; u++) {
      if (ch_team_stops(args->team)) continue;
      int64_t number = plan.shape.units - 1 - u / args->sequences;
      talking_unit unit = unit_number(args, &plan.shape, u % args->sequences, number);
      run_whole(args, mixes, &plan, &unit, team + omp_get_thread_num());
    }
  }
}

size_t KERNEL(talking_scratch)(const ch_attend *args, bool backward) {
  if (args->sequences <= 0 || args->queries <= 0) return 0;
  if (backward) return talking_backward_scratch(args);
  int threads = args->team->threads;
  talking_plan plan = plan_talking(args, threads);
  scratch_arena arena = {0};
  allocate_team(args, &plan, threads, &arena);
  return arena.used + 64;
}
