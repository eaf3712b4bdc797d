/* Softmax cross entropy over logits in memory: loss and gradient, row by row in cache. Also the ranks of targets
 * among the logits. */
#include "tensor/kernels/vector/math.h"

static real row_max(const real *x, int64_t n) {
  vec max[4];
  for (int j = 0; j < 4; j++) max[j] = splat(-(real)INFINITY);
  int64_t i = 0;
  for (; i + 4 * VL <= n; i += 4 * VL)
    for (int j = 0; j < 4; j++) max[j] = vec_max(load(x + i + j * VL), max[j]);
  for (; i + VL <= n; i += VL) max[0] = vec_max(load(x + i), max[0]);
  real result = lanes_max(vec_max(vec_max(max[0], max[1]), vec_max(max[2], max[3])));
  for (; i < n; i++) result = x[i] > result ? x[i] : result;
  return result;
}

/* Returns the sum of e^(x - max), and stores the terms in `terms` unless it is NULL. */
ALWAYS_INLINE real row_exp_sum(const real *x, int64_t n, real max, real *terms) {
  vec sum[2] = {{0}, {0}};
  int64_t i = 0;
  for (; i + 2 * VL <= n; i += 2 * VL)
    for (int j = 0; j < 2; j++) {
      vec e = vec_exp_distance(load(x + i + j * VL) - max, splat(0));
      if (terms) store(terms + i + j * VL, e);
      sum[j] += e;
    }
  real total = lanes_sum(sum[0] + sum[1]);
  for (; i < n; i++) {
    real e = vec_exp_distance(splat(x[i] - max), splat(0))[0];
    if (terms) terms[i] = e;
    total += e;
  }
  return total;
}

/* Returns the mean, for targets that are not one-hot. */
static real row_mean(const real *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i];
  return (real)(sum / (double)n);
}

/* Replaces each x by e^(x - max) times the slope of the soft cap at x. Returns the slope at element `at`. */
static real cap_row(real *x, int64_t n, real max, real cap, int64_t at) {
  const real slope = soft_cap_slope(splat(x[at]), cap)[0];
  for (int64_t i = 0; i < n; i += VL) {
    vec capped = load_some(x + i, n - i);
    store_some(x + i, vec_exp(capped - max) * soft_cap_slope(capped, cap), n - i);
  }
  return slope;
}

void KERNEL(cross_entropy)(const ch_team *team, int64_t rows, int64_t vocabulary, double smoothing,
                           double cap, void *logits, const int32_t *targets, void *loss, const void *dscale) {
#pragma omp parallel for schedule(static)                                                                    \
    num_threads(team->workers) if (rows > 1 && rows * vocabulary >= CH_PARALLEL_ELEMENTS)
  for (int64_t r = 0; r < rows; r++) {
    real *row = (real *)logits + r * vocabulary, *loss_of = (real *)loss + r;
    int32_t target = targets[r];
    if (target < 0) {
      *loss_of = 0;
      if (dscale) memset(row, 0, (size_t)vocabulary * sizeof(real));
      continue;
    }
    real max = row_max(row, vocabulary), chosen = row[target];
    if (smoothing > 0) chosen += (real)smoothing * (row_mean(row, vocabulary) - chosen);
    real sum =
        dscale && cap <= 0 ? row_exp_sum(row, vocabulary, max, row) : row_exp_sum(row, vocabulary, max, NULL);
    *loss_of = (real)log((double)sum) - (chosen - max);
    if (!dscale) continue;
    real slope = cap > 0 ? cap_row(row, vocabulary, max, (real)cap, target) : 1;
    real scale = ((const real *)dscale)[r], share = scale / sum, kept = (real)(1 - smoothing) * scale;
    for (int64_t i = 0; i < vocabulary; i++) row[i] *= share;
    row[target] -= kept * slope;
    if (smoothing <= 0) continue;
    real spread = (scale - kept) / (real)vocabulary;
    for (int64_t i = 0; i < vocabulary; i++) row[i] -= spread;
  }
}

void KERNEL(target_ranks)(const ch_team *team, int64_t rows, int64_t vocabulary, const void *logits,
                          const int32_t *targets, void *ranks) {
#pragma omp parallel for schedule(static)                                                                    \
    num_threads(team->workers) if (rows > 1 && rows * vocabulary >= CH_PARALLEL_ELEMENTS)
  for (int64_t r = 0; r < rows; r++) {
    const real *row = (const real *)logits + r * vocabulary;
    int32_t target = targets[r];
    int64_t before = target < 0 ? -1 : 0;
    for (int64_t i = 0; target >= 0 && i < vocabulary; i++)
      before += row[i] > row[target] || (row[i] == row[target] && i < target);
    ((real *)ranks)[r] = (real)before;
  }
}
