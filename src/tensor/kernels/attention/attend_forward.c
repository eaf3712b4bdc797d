/* Streaming attention, forward, over many queries: panels of queries against blocks of keys, S^T = K Q^T, a
 * running softmax over the keys, O += P V. */
#include "tensor/kernels/attention/attend_panel.h"

enum { MAX_PANELS = 8 };

/* The division of the work: a task is one key-value head of one sequence and up to `panels` panels of `width`
   columns. */
typedef struct forward_plan {
  int64_t columns, width, panels; /* columns per key-value head; columns per panel; panels per task */
  int64_t tasks_per_head, tasks;
  int64_t chunk; /* tasks that a thread fetches at once */
  bool in_place; /* true if tiles are read in place, without a copy */
  bool bf16_dot; /* true if products are BF16 dot products */
} forward_plan;

/* The working memory of a thread. */
typedef struct forward_space {
  real *tile, *keys, *values, *scores;
  real *key_pairs, *value_pairs; /* BF16 dots: [BLOCK, pairs_of(key_dim)], [BLOCK / 2, value_dim padded] */
  forward_panel panel[MAX_PANELS];
} forward_space;

/* Chooses the panels of a task. Wide panels are fast, and the panels of a task share each produced tile. A
   task gets as many panels as leave enough tasks for all threads and mostly stay in L2. */
static forward_plan plan_forward(const ch_attend *args, int threads) {
  int64_t heads = args->sequences * args->kv_heads, wanted = 4 * (int64_t)threads;
  int64_t columns = args->queries * (args->heads / args->kv_heads);
  int64_t column_bytes = (args->key_dim + args->value_dim) * (int64_t)sizeof(real), cached = 768 * 1024;
  forward_plan plan = {.columns = columns, .width = PANEL, .panels = MAX_PANELS};
  plan.in_place = args->producer->scratch_elements(args, 1, BLOCK) == 0;
  plan.bf16_dot = uses_bf16_dot(args);
  while (plan.width > 16 &&
         (heads * ((columns + plan.width - 1) / plan.width) < wanted || plan.width * column_bytes > cached))
    plan.width /= 2;
  while (plan.panels > 1 &&
         (heads * ((columns + plan.panels * plan.width - 1) / (plan.panels * plan.width)) < wanted ||
          plan.panels * plan.width * column_bytes > cached))
    plan.panels /= 2;
  plan.tasks_per_head = (columns + plan.panels * plan.width - 1) / (plan.panels * plan.width);
  plan.tasks = heads * plan.tasks_per_head;
  plan.chunk = plan.tasks / (16 * threads) > 0 ? plan.tasks / (16 * threads) : 1;
  return plan;
}

static void allocate_forward(const ch_attend *args, const forward_plan *plan, scratch_arena *arena,
                             forward_space *space) {
  space->tile = arena_reals(arena, args->producer->scratch_elements(args, 1, BLOCK));
  space->keys = arena_reals(arena, BLOCK * round_up(args->key_dim, VL));
  space->values = arena_reals(arena, BLOCK * round_up(args->value_dim, VL));
  space->key_pairs = arena_reals(arena, plan->bf16_dot ? BLOCK * pairs_of(args->key_dim) : 0);
  space->value_pairs = arena_reals(arena, plan->bf16_dot ? BLOCK / 2 * round_up(args->value_dim, VL) : 0);
  space->scores = arena_reals(arena, SCORES);
  for (int64_t p = 0; p < plan->panels; p++) allocate_panel(args, arena, &space->panel[p]);
}

/* A task and its columns. Within a head the tasks of the last queries come first, because a causal mask makes
   them the longest. */
typedef struct forward_task {
  int64_t sequence, kv_head, column, columns;
} forward_task;

static forward_task task_number(const ch_attend *args, const forward_plan *plan, int64_t number) {
  int64_t pair = number / plan->tasks_per_head, most = plan->panels * plan->width;
  forward_task task = {.sequence = pair / args->kv_heads, .kv_head = pair % args->kv_heads};
  task.column = (plan->tasks_per_head - 1 - number % plan->tasks_per_head) * most;
  task.columns = plan->columns - task.column < most ? plan->columns - task.column : most;
  return task;
}

static int64_t panel_columns(const forward_plan *plan, const forward_task *task, int64_t panel) {
  int64_t left = task->columns - panel * plan->width;
  return left < plan->width ? left : plan->width;
}

static int64_t end_of(const ch_attend *args, int64_t end) {
  return args->end_key > 0 && args->end_key < end ? args->end_key : end;
}

/* Queues the memory that a task uses first: its queries and its outputs. A head's first task also queues a
   block of keys and values if tiles are read in place. */
static void queue_task(const ch_attend *args, const forward_plan *plan, int64_t number, fetch_queue *queue) {
  *queue = (fetch_queue){.count = 0};
  if (number >= plan->tasks) return;
  forward_task task = task_number(args, plan, number);
  int64_t s = task.sequence, g = task.kv_head, panels = (task.columns + plan->width - 1) / plan->width;
  if (plan->in_place && number % plan->tasks_per_head == 0) {
    int64_t tokens = end_of(args, tokens_before(args, s) + args->queries) - args->first_key;
    ch_tile_span span = {.sequence = s, .head = g, .heads = 1, .first = args->first_key, .count = 1};
    ch_tiles tiles;
    args->producer->produce(args, &span, NULL, &tiles);
    queue_piece(queue, upcoming_rows(&tiles.keys, 0, 0, tokens < BLOCK ? tokens : BLOCK,
                                     args->key_dim - tiles.tail_dim));
    queue_piece(queue, upcoming_rows(&tiles.values, 0, 0, tokens < BLOCK ? tokens : BLOCK, args->value_dim));
  }
  for (int64_t p = 0; p < panels; p++)
    queue_piece(queue, upcoming_columns(args, query_rows(args, args->q), s, g, task.column + p * plan->width,
                                        panel_columns(plan, &task, p)));
  for (int64_t p = 0; p < panels; p++)
    queue_piece(queue, upcoming_columns(args, output_rows(args, args->out), s, g,
                                        task.column + p * plan->width, panel_columns(plan, &task, p)));
}

/* Returns a block in the layouts of both products with BF16 dots: rounded rows of keys, and values in pairs
   of rows. */
static block_rows pair_block(const ch_attend *args, const block_rows *block, int64_t count,
                             const forward_space *space) {
  round_rows(block->keys, block->key_stride, count, args->key_dim, space->key_pairs);
  pair_up_rows(block->values, block->value_stride, count, args->value_dim, space->value_pairs);
  return (block_rows){.keys = space->key_pairs,
                      .values = space->value_pairs,
                      .key_stride = pairs_of(args->key_dim),
                      .value_stride = round_up(args->value_dim, VL)};
}

/* Produces the tile of up to BLOCK keys and values from `first` on once, for every panel that sees any of it;
   `left` tokens are visible from `first` on. While the first panel uses the tile, the next tile is prefetched
   if tiles are read in place. At all other times pieces of `later` are prefetched. */
static void run_block(const ch_attend *args, const forward_plan *plan, const forward_task *task,
                      int64_t first, int64_t left, forward_panel *panel, int64_t panels, fetch_queue *later,
                      const forward_space *space) {
  int64_t count = left < BLOCK ? left : BLOCK, coming = left - count < BLOCK ? left - count : BLOCK;
  ch_tile_span span = {
      .sequence = task->sequence, .head = task->kv_head, .heads = 1, .first = first, .count = count};
  ch_tiles tiles;
  args->producer->produce(args, &span, space->tile, &tiles);
  if (!plan->in_place) coming = 0;
  block_rows rows = read_block(&tiles, args->key_dim, args->value_dim, 0, count, space->keys, space->values);
  upcoming next_keys = upcoming_rows(&tiles.keys, 0, count, coming, args->key_dim - tiles.tail_dim);
  upcoming next_values =
      upcoming_rows(&tiles.values, 0, count, rows.values == rows.keys ? 0 : coming, args->value_dim);
  if (plan->bf16_dot) rows = pair_block(args, &rows, count, space);
  for (int64_t p = 0; p < panels; p++) {
    const query_columns *c = &panel[p].columns;
    if (!sees_any(c, first, count)) continue;
    if (next_keys.count <= 0) next_keys = take_piece(later);
    if (next_values.count <= 0) next_values = take_piece(later);
    attend_meet_block(args, &panel[p], first, c->end - first < count ? c->end - first : count, &rows,
                      space->scores, &next_keys, &next_values);
    next_keys.count = next_values.count = 0;
  }
}

static void finish_panel(const ch_attend *args, const forward_task *task, const forward_panel *panel) {
  int64_t padded = round_up(args->value_dim, VL);
  const query_columns *c = &panel->columns;
  finish_sums(c->padded, c->max, c->sum);
  column_place at = place_of(args, task->kv_head, panel->first_column);
  for (int64_t i = 0; i < c->count; i++, next_column(&at))
    attend_write(args, task->sequence, &at, panel->sum + i * padded, c->sum[i], c->max[i]);
}

static void run_task(const ch_attend *args, const forward_plan *plan, int64_t number,
                     const forward_space *space) {
  forward_panel panel[MAX_PANELS];
  forward_task task = task_number(args, plan, number);
  fetch_queue later;
  queue_task(args, plan, number + 1, &later);
  int64_t first = INT64_MAX, end = 0, panels = (task.columns + plan->width - 1) / plan->width;
  for (int64_t p = 0; p < panels; p++) {
    panel[p] = space->panel[p];
    attend_start_panel(args, task.sequence, task.kv_head, task.column + p * plan->width,
                       panel_columns(plan, &task, p), &panel[p]);
    if (first_seen(&panel[p].columns) < first) first = first_seen(&panel[p].columns);
    if (panel[p].columns.end > end) end = panel[p].columns.end;
  }
  if (first < args->first_key) first = args->first_key;
  for (end = end_of(args, end); first < end; first += BLOCK) {
    bool seen = false;
    for (int64_t p = 0; p < panels; p++) seen |= sees_any(&panel[p].columns, first, BLOCK);
    if (seen) run_block(args, plan, &task, first, end - first, panel, panels, &later, space);
  }
  for (int64_t p = 0; p < panels; p++) finish_panel(args, &task, &panel[p]);
}

static size_t forward_bytes(const ch_attend *args, int threads) {
  forward_plan plan = plan_forward(args, threads);
  scratch_arena arena = {0};
  forward_space space;
  allocate_forward(args, &plan, &arena, &space);
  return arena.used;
}

static void attend_many(const ch_attend *args) {
  int threads = args->team->threads;
  forward_plan plan = plan_forward(args, threads);
  size_t bytes = forward_bytes(args, threads);
#pragma omp parallel num_threads(args->team->workers) if (plan.tasks > 1)
  {
    scratch_arena arena = arena_at((char *)args->scratch + (size_t)omp_get_thread_num() * bytes);
    forward_space space;
    allocate_forward(args, &plan, &arena, &space);
#pragma omp for schedule(dynamic, plan.chunk)
    for (int64_t task = 0; task < plan.tasks; task++)
      if (!ch_team_stops(args->team)) run_task(args, &plan, task, &space);
  }
}

static size_t attend_many_scratch(const ch_attend *args) {
  int threads = args->team->threads;
  return forward_bytes(args, threads) * (size_t)threads + 64;
}

void KERNEL(attend_forward)(const ch_attend *args) {
  if (args->sequences <= 0 || args->queries <= 0) return;
  if (attend_is_split_kv(args))
    attend_split_kv(args);
  else
    attend_many(args);
}

size_t KERNEL(attend_scratch)(const ch_attend *args, bool backward) {
  if (args->sequences <= 0 || args->queries <= 0) return 0;
  if (backward) return attend_backward_scratch(args);
  return attend_is_split_kv(args) ? attend_split_kv_scratch(args) : attend_many_scratch(args);
}
