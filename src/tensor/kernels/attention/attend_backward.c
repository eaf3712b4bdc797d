/* Streaming attention, backward: probabilities are recomputed block by block from the log-sum-exp.
 *
 *   P = e^(scale Q K^T - lse)      dV = P^T dO      dP = dO V^T      delta_i = dO_i . O_i
 *   dS = P (dP - delta)            dQ = scale dS K          dK = scale dS^T Q
 *
 * P and dS are transposed, [keys, columns], 64 x 64 at a time. A task processes panels of queries of one
 * key-value head. dQ is finished panel by panel; dK and dV are added up over the panels, in place if the head
 * has only this task. With fewer heads than threads, several tasks share a head. Each has its own dK and dV,
 * which are then added in a fixed order. */
#include "tensor/kernels/attention/attend_backward.h"

static backward_plan plan_backward(const ch_attend *args, int threads) {
  int64_t heads = args->sequences * args->kv_heads;
  backward_plan plan = {.columns = args->queries * (args->heads / args->kv_heads),
                        .parts = 1,
                        .key_padded = round_up(args->key_dim, VL),
                        .value_padded = round_up(args->value_dim, VL)};
  plan.bf16_dot = uses_bf16_dot(args);
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

/* Returns the addresses of a head's dK and dV. */
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

/* Returns the panel of a part's turn. Parts get panels in turn, forwards and then backwards (0, 1, 2, 2, 1,
   0, …). Later panels are more work under a causal mask, so this order gives every part about equal work. */
static int64_t panel_of_turn(const backward_plan *plan, int64_t part, int64_t turn) {
  return turn * plan->parts + (turn % 2 ? plan->parts - 1 - part : part);
}

/* Queues the memory that this panel reads before any other panel of its task: its queries, and the keys up to
   its last query. */
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

/* Writes or adds the sum of `parts` buffers for a token to its dK and dV. */
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
    attend_backward_panel(&task, panel);
  }
  attend_clear_until(&task, args->queries);
  if (!plan->buffered || plan->parts > 1) return;
  state_gradient place = gradient_of_head(args, gradient, task.sequence, task.kv_head);
  for (int64_t t = 0; t < args->queries; t++) put_token(args, gradient, plan, buffer, 1, t, &place);
}

static size_t backward_bytes(const ch_attend *args, const backward_plan *plan) {
  scratch_arena arena = {0};
  backward_space space;
  attend_backward_allocate(args, plan, &arena, &space);
  return arena.used;
}

static int64_t buffer_count(const backward_plan *plan, int threads) {
  return !plan->buffered ? 0 : plan->parts > 1 ? plan->tasks : threads;
}

void KERNEL(attend_backward)(const ch_attend *args, const ch_attend_gradient *gradient) {
  if (args->sequences <= 0 || args->queries <= 0) return;
  int threads = args->team->threads;
  backward_plan plan = plan_backward(args, threads);
  size_t bytes = backward_bytes(args, &plan);
  scratch_arena arena = arena_at(args->scratch);
  real *buffers = arena_reals(&arena, buffer_count(&plan, threads) * buffer_elements(args, &plan));
  char *spaces = arena.base + arena.used;
#pragma omp parallel num_threads(args->team->workers) if (plan.tasks > 1)
  {
    int thread = omp_get_thread_num();
    scratch_arena own = {.base = spaces + (size_t)thread * bytes};
    backward_space space;
    attend_backward_allocate(args, &plan, &own, &space);
#pragma omp for schedule(dynamic, plan.chunk)
    for (int64_t task = 0; task < plan.tasks; task++)
      if (!ch_team_stops(args->team))
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
  int threads = args->team->threads;
  backward_plan plan = plan_backward(args, threads);
  return (size_t)round_up(buffer_count(&plan, threads) * buffer_elements(args, &plan) * (int64_t)sizeof(real),
                          64) +
         backward_bytes(args, &plan) * (size_t)threads + 64;
}
