/* The backward pass of the gated delta rule, from the last chunk to the first (delta_chunk.h has the
 * notation).
 *
 * With u = b e and gradients dO of the output and dS of the state after the chunk:
 *
 *   dU = P^T dO + diag(G_n) K dS,   R = (I + diag(b) M)^-T dU,   dE = diag(b) R
 *   dv = dE,   db_i = R_i . e_i,   dP = dO U^T o G,   dA = -dE U^T o G (below the diagonal)
 *   dQ = dP K + diag(c) dO S_0^T
 *   dK = dA K - diag(c) dE S_0^T  +  dP^T Q + dA^T K + diag(G_n) U dS^T
 *   dS_0 = c_n dS + (diag(c) Q)^T dO - (diag(c) K)^T dE
 *
 * Every entry of G and c is e^(C_i - C_j), where C are the running sums of log a. So the gradient of C_i is
 * q_i . dQ_i + k_i . (the first two terms of dK_i minus the others). The gradient of C_n has the further term
 * dS . S_n. The gradient of log a_i is the sum of these from i on. */
#include "tensor/kernels/delta_rule/delta_parts.h"
#include "tensor/kernels/vector/dot.h"

typedef struct backward_space {
  delta_chunk chunk;
  real *dq, *dk; /* [CHUNK, key_ld] sums over all value heads of the head */
  /* [CHUNK, key_ld] of one value head: dQ, the first two terms of dK, and the other terms of dK */
  real *own_dq, *as_row, *as_column;
  real *weighted;                     /* [CHUNK, key_ld] intermediate results */
  real *mixing, *keys;                /* [CHUNK, CHUNK] dP, dA */
  real *errors, *moved, *dout, *back; /* [CHUNK, value_ld] e, u, dO, and dU, which becomes R and dE */
  real *moved_across;                 /* [value_dim, CHUNK] u^T */
  real *across;                       /* [value_dim, key_ld] S_0^T or dS^T */
  real *states;                       /* [group, key_dim, value_ld] dS */
} backward_space;

static backward_space take_space(const ch_delta_rule *a, const delta_sizes *sizes, delta_arena *at) {
  backward_space space = {.states = NULL};
  take_chunk(a, sizes, at, &space.chunk);
  real **const by_key[] = {&space.dq,     &space.dk,        &space.own_dq,
                           &space.as_row, &space.as_column, &space.weighted};
  real **const by_value[] = {&space.errors, &space.moved, &space.dout, &space.back};
  for (int i = 0; i < 6; i++) *by_key[i] = take_reals(at, CHUNK * sizes->key_ld);
  for (int i = 0; i < 4; i++) *by_value[i] = take_reals(at, CHUNK * sizes->value_ld);
  space.mixing = take_reals(at, CHUNK * CHUNK);
  space.keys = take_reals(at, CHUNK * CHUNK);
  space.moved_across = take_reals(at, a->value_dim * CHUNK);
  space.across = take_reals(at, a->value_dim * sizes->key_ld);
  space.states = take_reals(at, sizes->group * sizes->state);
  return space;
}

size_t delta_backward_bytes(const ch_delta_rule *a, const delta_sizes *sizes) {
  delta_arena at = {.base = NULL};
  take_space(a, sizes, &at);
  return at.used;
}

/* x = (I + diag(b) M)^-T x, strip by strip from the last; `solving` is -diag(b) M. */
static void solve_across(const delta_sizes *sizes, const delta_chunk *c, real *x) {
  const int64_t ld = sizes->value_ld;
  for (int64_t r = (c->count - 1) / STRIP * STRIP; r >= 0; r -= STRIP) {
    const int64_t end = strip_end(c, r);
    if (end < c->count) KERNEL(tile_product)
    (end - r, ld, c->count - end, c->solving + end * CHUNK + r, 1, CHUNK, x + end * ld, ld, x + r * ld, ld,
     true);
    for (int64_t v = 0; v < ld; v += VL)
      for (int64_t i = end - 2; i >= r; i--) {
        vec sum = load(x + i * ld + v);
        for (int64_t j = i + 1; j < end; j++)
          sum = vec_fma(splat(c->solving[j * CHUNK + i]), load(x + j * ld + v), sum);
        store(x + i * ld + v, sum);
      }
  }
}

/* Multiplies A [count, CHUNK] by sign * G entry by entry, on and below the diagonal, or only below it. The
   other entries that products read become zeros. */
static void times_decays(const delta_chunk *c, bool below, real sign, real *a) {
  for (int64_t i = 0; i < c->count; i++) {
    for (int64_t j = 0, end = strip_end(c, i); j < end; j += VL) {
      vec decay = load(c->decays + i * CHUNK + j);
      vec product = sign * decay * load(a + i * CHUNK + j);
      store(a + i * CHUNK + j, choose(decay != splat(0), product, splat(0)));
    }
    if (below) a[i * CHUNK + i] = 0;
  }
}

/* to [rows, ld] += sign * factor[r] * from. */
static void add_scaled_rows(int64_t rows, int64_t ld, const real *factor, real sign, const real *from,
                            real *to) {
  for (int64_t r = 0; r < rows; r++) {
    vec by = splat(sign * factor[r]);
    for (int64_t i = 0; i < ld; i += VL)
      store(to + r * ld + i, vec_fma(by, load(from + r * ld + i), load(to + r * ld + i)));
  }
}

/* Adds the gradients through the state after the chunk: the terms of dU and dK with dS, which is `state`. */
static void from_state(const ch_delta_rule *a, const delta_sizes *sizes, backward_space *s,
                       const real *state) {
  const delta_chunk *c = &s->chunk;
  const real *kept = c->decays + (c->count - 1) * CHUNK;
  scale_rows(c->count, sizes->key_ld, kept, 1, c->keys, s->weighted);
  KERNEL(tile_product)
  (c->count, sizes->value_ld, a->key_dim, s->weighted, sizes->key_ld, 1, state, sizes->value_ld, s->back,
   sizes->value_ld, true);
  transpose(a->key_dim, a->value_dim, state, sizes->value_ld, s->across, sizes->key_ld);
  KERNEL(tile_product)
  (c->count, sizes->key_ld, a->value_dim, s->moved, sizes->value_ld, 1, s->across, sizes->key_ld, s->weighted,
   sizes->key_ld, false);
  add_scaled_rows(c->count, sizes->key_ld, kept, 1, s->weighted, s->as_column);
}

/* Adds the gradients through the state before the chunk: the terms of dQ and dK with S_0, which is `start`. */
static void through_state(const ch_delta_rule *a, const delta_sizes *sizes, backward_space *s,
                          const real *start) {
  const delta_chunk *c = &s->chunk;
  transpose(a->key_dim, a->value_dim, start, a->value_dim, s->across, sizes->key_ld);
  KERNEL(tile_product)
  (c->count, sizes->key_ld, a->value_dim, s->dout, sizes->value_ld, 1, s->across, sizes->key_ld, s->weighted,
   sizes->key_ld, false);
  add_scaled_rows(c->count, sizes->key_ld, c->since, 1, s->weighted, s->own_dq);
  KERNEL(tile_product)
  (c->count, sizes->key_ld, a->value_dim, s->back, sizes->value_ld, 1, s->across, sizes->key_ld, s->weighted,
   sizes->key_ld, false);
  add_scaled_rows(c->count, sizes->key_ld, c->since, -1, s->weighted, s->as_row);
}

/* Replaces dS by the gradient of the state before the chunk. */
static void go_back(const ch_delta_rule *a, const delta_sizes *sizes, backward_space *s, bool last,
                    real *state) {
  const delta_chunk *c = &s->chunk;
  const real kept = last ? 0 : c->since[c->count - 1];
  for (int64_t i = 0; kept > 0 && i < sizes->state; i += VL) store(state + i, kept * load(state + i));
  scale_rows(c->count, sizes->key_ld, c->since, 1, c->queries, s->weighted);
  KERNEL(tile_product)
  (a->key_dim, sizes->value_ld, c->count, s->weighted, 1, sizes->key_ld, s->dout, sizes->value_ld, state,
   sizes->value_ld, kept > 0);
  scale_rows(c->count, sizes->key_ld, c->since, -1, c->keys, s->weighted);
  KERNEL(tile_product)
  (a->key_dim, sizes->value_ld, c->count, s->weighted, 1, sizes->key_ld, s->back, sizes->value_ld, state,
   sizes->value_ld, true);
}

/* Writes the gradients of log a: the gradients of C, added up from the end of each document. `whole` is
   dS . S_n. */
static void write_decays(const ch_delta_rule *a, const ch_delta_rule_gradient *g, const delta_sizes *sizes,
                         const backward_space *s, int64_t value_head, double whole) {
  const delta_chunk *c = &s->chunk;
  for (int64_t i = c->count - 1; i >= 0; i--) {
    const int64_t row = i * sizes->key_ld;
    const bool begins = begins_document(a, c, i);
    real *to = (real *)g->decay + token_of(a, c, i) * a->value_heads + value_head;
    whole += (double)(dot(sizes->key_ld, c->queries + row, s->own_dq + row) +
                      dot(sizes->key_ld, c->keys + row, s->as_row + row) -
                      dot(sizes->key_ld, c->keys + row, s->as_column + row));
    const real d = begins ? 0 : (real)whole;
    *to = g->add_decay ? *to + d : d;
    if (begins) whole = 0;
  }
}

static void write_steps(const ch_delta_rule *a, const ch_delta_rule_gradient *g, const delta_sizes *sizes,
                        const backward_space *s, int64_t value_head) {
  const delta_chunk *c = &s->chunk;
  for (int64_t i = 0; i < c->count; i++) {
    real *to = (real *)g->beta + token_of(a, c, i) * a->value_heads + value_head;
    const real d = dot(sizes->value_ld, s->back + i * sizes->value_ld, s->errors + i * sizes->value_ld);
    *to = g->add_beta ? *to + d : d;
  }
}

static void run_chunk(const ch_delta_rule *a, const ch_delta_rule_gradient *g, const delta_sizes *sizes,
                      backward_space *s, int64_t value_head, real *state) {
  delta_chunk *c = &s->chunk;
  const int64_t number = c->first / CHUNK, stride = a->value_heads * a->value_dim, rows = c->count,
                ld = sizes->value_ld, key_ld = sizes->key_ld,
                at = token_of(a, c, 0) * stride + value_head * a->value_dim;
  const bool last = number + 1 == ch_delta_chunks(a->length);
  const real *start = number ? kept_state(a, c->sequence, value_head, number) : NULL;
  read_decays(a, c, value_head);
  weigh_chunk(c, true);
  gather_rows(rows, a->value_dim, (const real *)a->kept_errors + at, stride, s->errors, ld);
  gather_rows(rows, a->value_dim, (const real *)g->out + at, stride, s->dout, ld);
  scale_rows(rows, ld, c->steps, 1, s->errors, s->moved);
  memset(s->as_column, 0, (size_t)(rows * key_ld) * sizeof(real));
  lower_across_times(rows, ld, c->mixing, s->dout, ld, s->back, ld, false);
  if (!last) from_state(a, sizes, s, state);
  solve_across(sizes, c, s->back);
  if (g->beta) write_steps(a, g, sizes, s, value_head);
  scale_rows(rows, ld, c->steps, 1, s->back, s->back);
  if (g->v) scatter_rows(rows, a->value_dim, s->back, ld, (real *)g->v + at, stride, g->add_v);
  transpose(rows, a->value_dim, s->moved, ld, s->moved_across, CHUNK);
  lower_product(rows, a->value_dim, s->dout, ld, s->moved_across, s->mixing);
  lower_product(rows, a->value_dim, s->back, ld, s->moved_across, s->keys);
  times_decays(c, false, 1, s->mixing);
  times_decays(c, true, -1, s->keys);
  lower_times(rows, key_ld, s->mixing, c->keys, key_ld, s->own_dq, key_ld, false);
  lower_times(rows, key_ld, s->keys, c->keys, key_ld, s->as_row, key_ld, false);
  lower_across_times(rows, key_ld, s->mixing, c->queries, key_ld, s->as_column, key_ld, true);
  lower_across_times(rows, key_ld, s->keys, c->keys, key_ld, s->as_column, key_ld, true);
  if (start) through_state(a, sizes, s, start);
  if (g->decay) {
    double whole = 0;
    const real *end = last ? NULL : kept_state(a, c->sequence, value_head, number + 1);
    for (int64_t i = 0; !last && i < a->key_dim; i++)
      whole += (double)dot(a->value_dim, state + i * ld, end + i * a->value_dim);
    write_decays(a, g, sizes, s, value_head, whole);
  }
  if (start) go_back(a, sizes, s, last, state);
}

/* Adds the gradients of one value head to dk and dq, or overwrites them if it is the first. */
static void add_value_head(const delta_sizes *sizes, backward_space *s, bool first) {
  for (int64_t i = 0; i < s->chunk.count * sizes->key_ld; i += VL) {
    vec dk = load(s->as_row + i) + load(s->as_column + i), dq = load(s->own_dq + i);
    store(s->dk + i, first ? dk : load(s->dk + i) + dk);
    store(s->dq + i, first ? dq : load(s->dq + i) + dq);
  }
}

static void run_head(const ch_delta_rule *a, const ch_delta_rule_gradient *g, const delta_sizes *sizes,
                     backward_space *s, int64_t sequence, int64_t head) {
  const int64_t stride = a->heads * a->key_dim;
  s->chunk.sequence = sequence;
  s->chunk.head = head;
  for (int64_t number = ch_delta_chunks(a->length) - 1; number >= 0; number--) {
    delta_chunk *c = &s->chunk;
    c->first = number * CHUNK;
    c->count = a->length - c->first < CHUNK ? a->length - c->first : CHUNK;
    const int64_t at = token_of(a, c, 0) * stride + head * a->key_dim;
    read_chunk(a, sizes, c);
    for (int64_t v = 0; v < sizes->group; v++) {
      run_chunk(a, g, sizes, s, head * sizes->group + v, s->states + v * sizes->state);
      add_value_head(sizes, s, v == 0);
    }
    if (g->q) scatter_rows(c->count, a->key_dim, s->dq, sizes->key_ld, (real *)g->q + at, stride, g->add_q);
    if (g->k) scatter_rows(c->count, a->key_dim, s->dk, sizes->key_ld, (real *)g->k + at, stride, g->add_k);
  }
}

void KERNEL(delta_rule_backward)(const ch_delta_rule *a, const ch_delta_rule_gradient *g) {
  const delta_sizes sizes = delta_sizes_of(a);
  const size_t bytes = delta_backward_bytes(a, &sizes);
  const int64_t tasks = a->sequences * a->heads;
#pragma omp parallel num_threads(a->team->workers) if (tasks > 1)
  {
    delta_arena at = {.base = aligned(a->scratch) + (size_t)omp_get_thread_num() * bytes};
    backward_space space = take_space(a, &sizes, &at);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < tasks; task++)
      if (!ch_team_stops(a->team)) run_head(a, g, &sizes, &space, task / a->heads, task % a->heads);
  }
}
