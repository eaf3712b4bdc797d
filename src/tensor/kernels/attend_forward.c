/* Streaming attention, forward, over many queries: panels of queries against blocks of keys, S^T = K Q^T, a running
 * softmax over the keys, O += P V. */
#include "tensor/kernels/attend_panel.h"

enum { MAX_PANELS = 4 };

/* How the work is cut: a task is one key-value head of one sequence and `panels` panels of `width` columns. */
typedef struct forward_plan {
  int64_t columns, width, panels, tasks_per_head, tasks;
} forward_plan;

/* What a thread works in. */
typedef struct forward_space {
  real *tile, *keys, *values, *scores;
  forward_panel panel[MAX_PANELS];
} forward_space;

/* Wide panels are fast, several panels make use of a produced tile: as many as leave enough tasks to share out and
   stay in the second cache. */
static forward_plan plan_forward(const ch_attend *args, int threads) {
  int64_t heads = args->sequences * args->kv_heads, wanted = 4 * (int64_t)threads;
  int64_t columns = args->queries * (args->heads / args->kv_heads);
  int64_t column_bytes = (args->key_dim + args->value_dim) * (int64_t)sizeof(real), cached = 384 * 1024;
  forward_plan plan = {.columns = columns, .width = PANEL, .panels = MAX_PANELS};
  while (plan.width > 16 &&
         (heads * ((columns + plan.width - 1) / plan.width) < wanted || plan.width * column_bytes > cached))
    plan.width /= 2;
  while (plan.panels > 1 &&
         (heads * ((columns + plan.panels * plan.width - 1) / (plan.panels * plan.width)) < wanted ||
          plan.panels * plan.width * column_bytes > cached))
    plan.panels /= 2;
  plan.tasks_per_head = (columns + plan.panels * plan.width - 1) / (plan.panels * plan.width);
  plan.tasks = heads * plan.tasks_per_head;
  return plan;
}

static void carve_forward(const ch_attend *args, const forward_plan *plan, carver *from,
                          forward_space *space) {
  space->tile = carve_reals(from, args->producer->scratch_elements(args, 1, BLOCK));
  space->keys = carve_reals(from, BLOCK * round_up(args->key_dim, VL));
  space->values = carve_reals(from, BLOCK * round_up(args->value_dim, VL));
  space->scores = carve_reals(from, SCORES);
  for (int64_t p = 0; p < plan->panels; p++) carve_panel(args, from, &space->panel[p]);
}

static void finish_panel(const ch_attend *args, int64_t sequence, int64_t kv_head,
                         const forward_panel *panel) {
  int64_t padded = round_up(args->value_dim, VL);
  const query_columns *c = &panel->columns;
  finish_sums(c->padded, c->max, c->sum);
  for (int64_t i = 0; i < c->count; i++)
    attend_write(args, sequence, column_query(args, panel->first_column + i),
                 column_head(args, kv_head, panel->first_column + i), panel->sum + i * padded, c->sum[i],
                 c->max[i]);
}

/* All blocks of keys that the task's panels see, each tile produced once for all of them. */
static void run_task(const ch_attend *args, const forward_plan *plan, int64_t task,
                     const forward_space *space) {
  forward_panel panel[MAX_PANELS];
  int64_t pair = task / plan->tasks_per_head, sequence = pair / args->kv_heads,
          kv_head = pair % args->kv_heads;
  /* The last queries first: under a causal mask theirs is the longest work. */
  int64_t column = (plan->tasks_per_head - 1 - task % plan->tasks_per_head) * plan->panels * plan->width;
  int64_t first = INT64_MAX, end = 0;
  int panels = 0;
  bool in_place = args->producer->scratch_elements(args, 1, BLOCK) == 0;
  for (; panels < plan->panels && column < plan->columns; panels++, column += plan->width) {
    int64_t count = plan->columns - column < plan->width ? plan->columns - column : plan->width;
    panel[panels] = space->panel[panels];
    attend_start_panel(args, sequence, kv_head, column, count, &panel[panels]);
    if (panel[panels].columns.first < first) first = panel[panels].columns.first;
    if (panel[panels].columns.end > end) end = panel[panels].columns.end;
  }
  for (; first < end; first += BLOCK) {
    int64_t count = end - first < BLOCK ? end - first : BLOCK;
    ch_tile_span span = {.sequence = sequence, .head = kv_head, .heads = 1, .first = first, .count = count};
    ch_tile keys, values;
    args->producer->produce(args, &span, space->tile, &keys, &values);
    int64_t key_stride, value_stride;
    const real *key_rows = head_rows(&keys, 0, count, args->key_dim, false, space->keys, &key_stride);
    const real *value_rows =
        head_rows(&values, 0, count, args->value_dim, true, space->values, &value_stride);
    /* The next block is asked for while the first panel meets this one. */
    int64_t coming = !in_place ? 0 : end - first - count < BLOCK ? end - first - count : BLOCK;
    upcoming next_keys = upcoming_rows(&keys, 0, count, coming, args->key_dim);
    upcoming next_values = upcoming_rows(&values, 0, count, coming, args->value_dim);
    for (int p = 0; p < panels; p++) {
      const query_columns *c = &panel[p].columns;
      if (first >= c->end || first + count <= c->first) continue;
      int64_t rows = c->end - first < count ? c->end - first : count;
      attend_meet_block(args, &panel[p], first, rows, key_rows, key_stride, value_rows, value_stride,
                        space->scores, &next_keys, &next_values);
      next_keys.count = next_values.count = 0;
    }
  }
  for (int p = 0; p < panels; p++) finish_panel(args, sequence, kv_head, &panel[p]);
}

static size_t forward_bytes(const ch_attend *args, int threads) {
  forward_plan plan = plan_forward(args, threads);
  carver from = {0};
  forward_space space;
  carve_forward(args, &plan, &from, &space);
  return from.used;
}

static void attend_many(const ch_attend *args) {
  int threads = ch_threads();
  forward_plan plan = plan_forward(args, threads);
  size_t bytes = forward_bytes(args, threads);
#pragma omp parallel num_threads(threads) if (plan.tasks > 1)
  {
    carver from = carver_at((char *)args->scratch + (size_t)omp_get_thread_num() * bytes);
    forward_space space;
    carve_forward(args, &plan, &from, &space);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < plan.tasks; task++) run_task(args, &plan, task, &space);
  }
}

static size_t attend_many_scratch(const ch_attend *args) {
  int threads = ch_threads();
  return forward_bytes(args, threads) * (size_t)threads + 64;
}

void KERNEL(attend_forward)(const ch_attend *args) {
  if (args->sequences <= 0 || args->queries <= 0) return;
  if (attend_is_few(args))
    attend_few(args);
  else
    attend_many(args);
}

size_t KERNEL(attend_scratch)(const ch_attend *args, bool backward) {
  if (args->sequences <= 0 || args->queries <= 0) return 0;
  if (backward) return attend_backward_scratch(args);
  return attend_is_few(args) ? attend_few_scratch(args) : attend_many_scratch(args);
}
