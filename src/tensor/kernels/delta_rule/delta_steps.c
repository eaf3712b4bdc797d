/* The gated delta rule token by token, for decoding. It updates the states in place. */
#include "tensor/kernels/delta_rule/delta_parts.h"

enum { STEP_VECTORS = VEC_BYTES == 64 ? 8 : 4 };

/* The work of one token on some columns of a state. */
typedef struct delta_step {
  int64_t key_dim, ld; /* key_dim: elements of q and k; ld: elements between rows of the state */
  const real *q, *k;
  real decay, beta;
} delta_step;

/* Computes `vectors` (a constant) whole vectors of columns. It reads the state's rows twice, the second time
   from the nearest cache. */
ALWAYS_INLINE void step_columns(const int vectors, const delta_step *step, const real *v, real *state,
                                real *out) {
  vec held[STEP_VECTORS], sum[STEP_VECTORS];
#pragma GCC unroll 8
  for (int j = 0; j < vectors; j++) held[j] = sum[j] = splat(0);
  for (int64_t i = 0; i < step->key_dim; i++) {
    vec key = splat(step->k[i]);
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) held[j] = vec_fma(key, load(state + i * step->ld + j * VL), held[j]);
  }
#pragma GCC unroll 8
  for (int j = 0; j < vectors; j++) held[j] = step->beta * (load(v + j * VL) - step->decay * held[j]);
  for (int64_t i = 0; i < step->key_dim; i++) {
    vec key = splat(step->k[i]), query = splat(step->q[i]);
    real *row = state + i * step->ld;
#pragma GCC unroll 8
    for (int j = 0; j < vectors; j++) {
      vec now = vec_fma(key, held[j], step->decay * load(row + j * VL));
      store(row + j * VL, now);
      sum[j] = vec_fma(query, now, sum[j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < vectors; j++) store(out + j * VL, sum[j]);
}

/* Computes the last columns, fewer than a vector. */
static void step_some(const delta_step *step, int64_t columns, const real *v, real *state, real *out) {
  vec held = splat(0), sum = splat(0);
  for (int64_t i = 0; i < step->key_dim; i++)
    held = vec_fma(splat(step->k[i]), load_part(state + i * step->ld, columns), held);
  held = step->beta * (load_part(v, columns) - step->decay * held);
  for (int64_t i = 0; i < step->key_dim; i++) {
    real *row = state + i * step->ld;
    vec now = vec_fma(splat(step->k[i]), held, step->decay * load_part(row, columns));
    store_part(row, now, columns);
    sum = vec_fma(splat(step->q[i]), now, sum);
  }
  store_part(out, sum, columns);
}

static void step_state(const delta_step *step, int64_t dim, const real *v, real *state, real *out) {
  int64_t i = 0;
  for (; i + STEP_VECTORS * VL <= dim; i += STEP_VECTORS * VL)
    step_columns(STEP_VECTORS, step, v + i, state + i, out + i);
  for (; i + 2 * VL <= dim; i += 2 * VL) step_columns(2, step, v + i, state + i, out + i);
  for (; i + VL <= dim; i += VL) step_columns(1, step, v + i, state + i, out + i);
  if (i < dim) step_some(step, dim - i, v + i, state + i, out + i);
}

static void run_head(const ch_delta_rule *a, int64_t sequence, int64_t value_head, real *own) {
  const int64_t head = value_head / (a->value_heads / a->heads);
  real *state = a->states ? state_of(a, sequence, value_head) : own;
  if (begins_at_zero(a, sequence)) memset(state, 0, (size_t)(a->key_dim * a->value_dim) * sizeof(real));
  for (int64_t t = 0; t < a->length; t++) {
    const int64_t token = sequence * a->length + t, gate = token * a->value_heads + value_head,
                  key = (token * a->heads + head) * a->key_dim, value = gate * a->value_dim;
    const bool begins = a->document_start && a->document_start[token] == t;
    const delta_step step = {.key_dim = a->key_dim,
                             .ld = a->value_dim,
                             .q = (const real *)a->q + key,
                             .k = (const real *)a->k + key,
                             .decay = begins ? 0 : real_exp(((const real *)a->decay)[gate]),
                             .beta = ((const real *)a->beta)[gate]};
    step_state(&step, a->value_dim, (const real *)a->v + value, state, (real *)a->out + value);
  }
}

static void run_heads(const ch_delta_rule *a, int64_t first, int64_t last) {
  real *own =
      (real *)(void *)aligned(a->scratch) + omp_get_thread_num() * whole_vectors(a->key_dim * a->value_dim);
  for (int64_t task = first; task < last; task++)
    run_head(a, task / a->value_heads, task % a->value_heads, own);
}

void delta_steps(const ch_delta_rule *a) {
  const ch_team *team = a->team;
  const int64_t tasks = a->sequences * a->value_heads;
  FOR_RANGE(tasks, tasks > 1 && tasks * a->length * a->key_dim * a->value_dim >= CH_PARALLEL_ELEMENTS,
            run_heads(a, first, last));
}
