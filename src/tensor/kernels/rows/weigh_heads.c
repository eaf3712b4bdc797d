/* Weights of heads, forward and backward (tensor/head_weights.h). */
#include "tensor/kernels/vector/variant.h"

/* y = scale * softmax(x) of n numbers. */
static void scaled_softmax(int64_t n, const real *x, real scale, real *y) {
  real max = x[0], sum = 0;
  for (int64_t i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
  for (int64_t i = 0; i < n; i++) sum += y[i] = (real)exp((double)(x[i] - max));
  for (int64_t i = 0; i < n; i++) y[i] *= scale / sum;
}

/* Computes the gradient of x from y = scale * softmax(x) and dy. */
static void softmax_back(int64_t n, const real *y, real scale, const real *dy, real *dx, bool accumulate) {
  real inner = 0;
  for (int64_t i = 0; i < n; i++) inner = real_fma(y[i], dy[i], inner);
  for (int64_t i = 0; i < n; i++) {
    real d = y[i] * (dy[i] - inner / scale);
    dx[i] = accumulate ? dx[i] + d : d;
  }
}

/* Computes the weights of the two stages of row r. */
static void find_stages(const ch_head_weights *a, int64_t r, real stage[2]) {
  stage[0] = stage[1] = 1;
  if (a->stage_logits) scaled_softmax(2, (const real *)a->stage_logits + 2 * r, 2, stage);
}

static void find_shared(const ch_head_weights *a, int64_t r, real *u) {
  for (int64_t i = 0; i < a->shared; i++) u[i] = 1;
  if (a->shared_logits)
    scaled_softmax(a->shared, (const real *)a->shared_logits + r * a->shared, (real)a->shared, u);
}

static void weigh_rows(int64_t first, int64_t last, const ch_head_weights *a, real *weights) {
  for (int64_t r = first; r < last; r++) {
    real stage[2], *row = weights + r * (a->shared + a->routed);
    find_stages(a, r, stage);
    find_shared(a, r, row);
    for (int64_t i = 0; i < a->shared; i++) row[i] *= stage[0];
    memset(row + a->shared, 0, (size_t)a->routed * sizeof *row);
    for (int64_t j = 0; j < a->active; j++)
      row[a->shared + a->chosen[r * a->active + j]] =
          stage[1] * ((const real *)a->chosen_weights)[r * a->active + j];
  }
}

void KERNEL(head_weights_forward)(const ch_head_weights *args, void *weights) {
  const ch_team *team = args->team;
  int64_t heads = args->shared + args->routed;
  FOR_RANGE(args->rows, args->rows > 1 && args->rows * heads >= CH_PARALLEL_ELEMENTS,
            weigh_rows(first, last, args, weights));
}

/* Computes the gradient of row r's logits of shared heads. Returns the gradient of the stage's weight. */
static real shared_back(const ch_head_weights *a, const ch_head_weights_gradient *g, int64_t r, real stage,
                        const real *dy) {
  real along = 0, u[CH_MAX_EXPERTS], du[CH_MAX_EXPERTS];
  if (!a->shared) return 0;
  find_shared(a, r, u);
  for (int64_t i = 0; i < a->shared; i++) {
    along += u[i] * dy[i];
    du[i] = stage * dy[i];
  }
  if (g->shared_logits)
    softmax_back(a->shared, u, (real)a->shared, du, (real *)g->shared_logits + r * a->shared,
                 g->accumulate_shared);
  return along;
}

static real chosen_back(const ch_head_weights *a, const ch_head_weights_gradient *g, int64_t r, real stage,
                        const real *dy) {
  real along = 0;
  for (int64_t j = 0; j < a->active; j++) {
    int64_t at = r * a->active + j;
    real d = dy[a->chosen[at]];
    along += ((const real *)a->chosen_weights)[at] * d;
    if (!g->chosen_weights) continue;
    real *to = (real *)g->chosen_weights + at;
    *to = g->accumulate_chosen ? *to + stage * d : stage * d;
  }
  return along;
}

static void weigh_back_rows(int64_t first, int64_t last, const ch_head_weights *a, const real *dweights,
                            const ch_head_weights_gradient *g) {
  for (int64_t r = first; r < last; r++) {
    const real *dy = dweights + r * (a->shared + a->routed);
    real stage[2], dstage[2];
    find_stages(a, r, stage);
    dstage[0] = shared_back(a, g, r, stage[0], dy);
    dstage[1] = chosen_back(a, g, r, stage[1], dy + a->shared);
    if (g->stage_logits)
      softmax_back(2, stage, 2, dstage, (real *)g->stage_logits + 2 * r, g->accumulate_stage);
  }
}

void KERNEL(head_weights_backward)(const ch_head_weights *args, const void *dweights,
                                   const ch_head_weights_gradient *gradient) {
  const ch_team *team = args->team;
  int64_t heads = args->shared + args->routed;
  FOR_RANGE(args->rows, args->rows > 1 && args->rows * heads >= CH_PARALLEL_ELEMENTS,
            weigh_back_rows(first, last, args, dweights, gradient));
}
