/* The gated delta rule over whole sequences, chunk by chunk (delta_chunk.h). */
#include "tensor/kernels/delta_rule/delta_chunk.h"
#include "tensor/kernels/delta_rule/delta_parts.h"

typedef struct forward_space {
  delta_chunk chunk;
  real *weighted;     /* [CHUNK, key_ld] keys or queries, each times a factor */
  real *errors, *out; /* [CHUNK, value_ld] */
  real *states;       /* [group, key_dim, value_ld] */
} forward_space;

static forward_space take_space(const ch_delta_rule *a, const delta_sizes *sizes, delta_arena *at) {
  forward_space space = {.states = NULL};
  take_chunk(a, sizes, at, &space.chunk);
  space.weighted = take_reals(at, CHUNK * sizes->key_ld);
  space.errors = take_reals(at, CHUNK * sizes->value_ld);
  space.out = take_reals(at, CHUNK * sizes->value_ld);
  space.states = take_reals(at, sizes->group * sizes->state);
  return space;
}

static size_t space_bytes(const ch_delta_rule *a, const delta_sizes *sizes) {
  delta_arena at = {.base = NULL};
  take_space(a, sizes, &at);
  return at.used;
}

/* E = (I + M diag(b))^-1 E, strip by strip. */
static void solve(const delta_sizes *sizes, const delta_chunk *c, real *errors) {
  const int64_t ld = sizes->value_ld;
  for (int64_t r = 0; r < c->count; r += STRIP) {
    const int64_t end = strip_end(c, r);
    if (r > 0) KERNEL(tile_product)
    (end - r, ld, r, c->solving + r * CHUNK, CHUNK, 1, errors, ld, errors + r * ld, ld, true);
    for (int64_t v = 0; v < ld; v += VL)
      for (int64_t i = r + 1; i < end; i++) {
        vec sum = load(errors + i * ld + v);
        for (int64_t j = r; j < i; j++)
          sum = vec_fma(splat(c->solving[i * CHUNK + j]), load(errors + j * ld + v), sum);
        store(errors + i * ld + v, sum);
      }
  }
}

/* S = c_n S + sum over j of G_nj k_j (b_j e_j)^T. space->errors is b e. */
static void advance(const ch_delta_rule *a, const delta_sizes *sizes, forward_space *space, bool empty,
                    real *state) {
  const delta_chunk *c = &space->chunk;
  const int64_t last = c->count - 1;
  const real kept = empty ? 0 : c->since[last];
  for (int64_t i = 0; kept > 0 && i < sizes->state; i += VL) store(state + i, kept * load(state + i));
  scale_rows(c->count, sizes->key_ld, c->decays + last * CHUNK, 1, c->keys, space->weighted);
  KERNEL(tile_product)
  (a->key_dim, sizes->value_ld, c->count, space->weighted, 1, sizes->key_ld, space->errors, sizes->value_ld,
   state, sizes->value_ld, kept > 0);
}

/* Computes one chunk of one value head. If `empty`, the state is zero, and its memory is not initialised. */
static void run_chunk(const ch_delta_rule *a, const delta_sizes *sizes, forward_space *space,
                      int64_t value_head, bool empty, real *state) {
  delta_chunk *c = &space->chunk;
  const int64_t stride = a->value_heads * a->value_dim, ld = sizes->value_ld,
                at = token_of(a, c, 0) * stride + value_head * a->value_dim;
  read_decays(a, c, value_head);
  weigh_chunk(c, false);
  gather_rows(c->count, a->value_dim, (const real *)a->v + at, stride, space->errors, ld);
  if (!empty) {
    scale_rows(c->count, sizes->key_ld, c->since, -1, c->keys, space->weighted);
    KERNEL(tile_product)
    (c->count, ld, a->key_dim, space->weighted, sizes->key_ld, 1, state, ld, space->errors, ld, true);
    scale_rows(c->count, sizes->key_ld, c->since, 1, c->queries, space->weighted);
    KERNEL(tile_product)
    (c->count, ld, a->key_dim, space->weighted, sizes->key_ld, 1, state, ld, space->out, ld, false);
  }
  solve(sizes, c, space->errors);
  if (a->kept_errors)
    scatter_rows(c->count, a->value_dim, space->errors, ld, (real *)a->kept_errors + at, stride, false);
  scale_rows(c->count, ld, c->steps, 1, space->errors, space->errors);
  lower_times(c->count, ld, c->mixing, space->errors, ld, space->out, ld, !empty);
  scatter_rows(c->count, a->value_dim, space->out, ld, (real *)a->out + at, stride, false);
  const bool more = c->first + c->count < a->length;
  if (more || a->states) advance(a, sizes, space, empty, state);
  if (more && a->kept_states)
    scatter_rows(a->key_dim, a->value_dim, state, ld,
                 kept_state(a, c->sequence, value_head, c->first / CHUNK + 1), a->value_dim, false);
}

static void run_head(const ch_delta_rule *a, const delta_sizes *sizes, forward_space *space, int64_t sequence,
                     int64_t head) {
  const bool fresh = begins_at_zero(a, sequence);
  space->chunk.sequence = sequence;
  space->chunk.head = head;
  for (int64_t g = 0; g < sizes->group && !fresh; g++)
    gather_rows(a->key_dim, a->value_dim, state_of(a, sequence, head * sizes->group + g), a->value_dim,
                space->states + g * sizes->state, sizes->value_ld);
  for (int64_t first = 0; first < a->length; first += CHUNK) {
    space->chunk.first = first;
    space->chunk.count = a->length - first < CHUNK ? a->length - first : CHUNK;
    read_chunk(a, sizes, &space->chunk);
    for (int64_t g = 0; g < sizes->group; g++)
      run_chunk(a, sizes, space, head * sizes->group + g, fresh && first == 0,
                space->states + g * sizes->state);
  }
  for (int64_t g = 0; g < sizes->group && a->states; g++)
    scatter_rows(a->key_dim, a->value_dim, space->states + g * sizes->state, sizes->value_ld,
                 state_of(a, sequence, head * sizes->group + g), a->value_dim, false);
}

/* Returns true if there are too few tokens for matrix products to pay, and no backward pass follows. */
static bool goes_step_by_step(const ch_delta_rule *a) {
  return a->length < CH_DELTA_CHUNK / 8 && !a->kept_errors;
}

size_t KERNEL(delta_rule_scratch)(const ch_delta_rule *a, bool backward) {
  const delta_sizes sizes = delta_sizes_of(a);
  const size_t bytes = backward ? delta_backward_bytes(a, &sizes) : space_bytes(a, &sizes);
  return (size_t)a->team->threads * bytes + 64;
}

void KERNEL(delta_rule_forward)(const ch_delta_rule *a) {
  const delta_sizes sizes = delta_sizes_of(a);
  const size_t bytes = space_bytes(a, &sizes);
  const int64_t tasks = a->sequences * a->heads;
  if (goes_step_by_step(a)) {
    delta_steps(a);
    return;
  }
#pragma omp parallel num_threads(a->team->workers) if (tasks > 1)
  {
    delta_arena at = {.base = aligned(a->scratch) + (size_t)omp_get_thread_num() * bytes};
    forward_space space = take_space(a, &sizes, &at);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < tasks; task++)
      if (!ch_team_stops(a->team)) run_head(a, &sizes, &space, task / a->heads, task % a->heads);
  }
}
