/* Mixture of experts: chooses each token's experts and their weights, computes the SwiGLU between an expert's
 * matrices, and adds up the experts' results for each token. */
#include "tensor/kernels/vector/math.h"

/* --- routing -------------------------------------------------------------------------------------------- */

static void softmax(int64_t n, const real *logits, real *p) {
  real most = logits[0], sum = 0;
  for (int64_t e = 1; e < n; e++)
    if (logits[e] > most) most = logits[e];
  for (int64_t e = 0; e < n; e += VL) store_some(p + e, vec_exp(load_some(logits + e, n - e) - most), n - e);
  for (int64_t e = 0; e < n; e++) sum += p[e];
  for (int64_t e = 0; e < n; e++) p[e] /= sum;
}

/* Chooses the `active` largest of n scores, largest first. The first of equal scores wins. */
static void choose_row(int64_t n, int64_t active, const real *score, int32_t *chosen) {
  bool taken[CH_MAX_EXPERTS] = {false};
  for (int64_t j = 0; j < active; j++) {
    int64_t best = -1;
    for (int64_t e = 0; e < n; e++)
      if (!taken[e] && (best < 0 || score[e] > score[best])) best = e;
    taken[best] = true;
    chosen[j] = (int32_t)best;
  }
}

static void sigmoid(int64_t n, const real *logits, real *p) {
  for (int64_t e = 0; e < n; e += VL) store_some(p + e, vec_sigmoid(load_some(logits + e, n - e)), n - e);
}

/* Computes the scores of a row of logits. */
static void score_row(const ch_routing_rule *rule, const real *logits, real *score) {
  (rule->sigmoid ? sigmoid : softmax)(rule->experts, logits, score);
}

/* Returns the best score of a group, or the sum of its best two. */
static real score_of_group(int64_t size, const real *score, bool of_two) {
  real best = score[0], second = -INFINITY;
  for (int64_t e = 1; e < size; e++)
    if (score[e] > best) {
      second = best;
      best = score[e];
    } else if (score[e] > second)
      second = score[e];
  return of_two ? best + second : best;
}

/* Excludes experts outside of the best groups. */
static void keep_best_groups(const ch_routing_rule *rule, real *score) {
  real of_group[CH_MAX_EXPERTS];
  int32_t best[CH_MAX_EXPERTS];
  bool kept[CH_MAX_EXPERTS] = {false};
  int64_t size = rule->experts / rule->groups;
  for (int64_t g = 0; g < rule->groups; g++)
    of_group[g] = score_of_group(size, score + g * size, rule->sigmoid);
  choose_row(rule->groups, rule->active_groups, of_group, best);
  for (int64_t g = 0; g < rule->active_groups; g++) kept[best[g]] = true;
  for (int64_t e = 0; e < rule->experts; e++)
    if (!kept[e / size]) score[e] = -INFINITY;
}

static void choose_range(int64_t first, int64_t last, const ch_routing_rule *rule, const real *logits,
                         const real *bias, int32_t *chosen) {
  int64_t experts = rule->experts, active = rule->active;
  bool scored = bias || rule->groups > 1; /* if false, scores would have the order of the logits */
  for (int64_t r = first; r < last; r++) {
    real score[CH_MAX_EXPERTS];
    if (scored) score_row(rule, logits + r * experts, score);
    for (int64_t e = 0; e < experts && bias; e++) score[e] += bias[e];
    if (rule->groups > 1) keep_best_groups(rule, score);
    choose_row(experts, active, scored ? score : logits + r * experts, chosen + r * active);
  }
}

void KERNEL(choose_experts)(const ch_team *team, int64_t rows, const ch_routing_rule *rule,
                            const void *logits, const void *bias, int32_t *chosen) {
  FOR_RANGE(rows, rows > 1 && rows * rule->experts * rule->active >= CH_PARALLEL_ELEMENTS,
            choose_range(first, last, rule, logits, bias, chosen));
}

/* Avoids a division by zero if all sigmoids are zero. DeepSeek's code has it too. */
#define TINY ((real)1e-20)

/* Computes the weights of the chosen experts, without the scale. */
static void route_row(const ch_routing_rule *rule, const real *logits, const int32_t *chosen, real *weights) {
  real all[CH_MAX_EXPERTS];
  for (int64_t j = 0; j < rule->active; j++) weights[j] = logits[chosen[j]];
  if (rule->sigmoid) {
    real sum = 0;
    sigmoid(rule->active, weights, weights);
    for (int64_t j = 0; j < rule->active; j++) sum += weights[j];
    for (int64_t j = 0; j < rule->active && rule->renormalise; j++) weights[j] /= sum + TINY;
    return;
  }
  if (rule->renormalise) { /* the experts that were not chosen cancel */
    softmax(rule->active, weights, weights);
    return;
  }
  softmax(rule->experts, logits, all);
  for (int64_t j = 0; j < rule->active; j++) weights[j] = all[chosen[j]];
}

static void route_range(int64_t first, int64_t last, const ch_routing_rule *rule, const real *logits,
                        const int32_t *chosen, real *weights) {
  for (int64_t r = first; r < last; r++) {
    real *row = weights + r * rule->active;
    route_row(rule, logits + r * rule->experts, chosen + r * rule->active, row);
    for (int64_t j = 0; j < rule->active; j++) row[j] *= (real)rule->scale;
  }
}

void KERNEL(route_forward)(const ch_team *team, int64_t rows, const ch_routing_rule *rule, const void *logits,
                           const int32_t *chosen, void *weights) {
  FOR_RANGE(rows, rows > 1 && rows * rule->experts >= CH_PARALLEL_ELEMENTS,
            route_range(first, last, rule, logits, chosen, weights));
}

/* Adds p (d - p . d), the gradient of logits whose softmax p has the gradient d; returns p . d. */
static real add_softmax_gradient(int64_t n, const real *p, const real *d, real *into) {
  real inner = 0;
  for (int64_t e = 0; e < n; e++) inner = real_fma(p[e], d[e], inner);
  for (int64_t e = 0; e < n; e++) into[e] += p[e] * (d[e] - inner);
  return inner;
}

/* Computes the gradients of the chosen logits if their sigmoids s, or s / (sum of s), have the gradients
   d. */
static void sigmoid_gradient(const ch_routing_rule *rule, const real *logits, const int32_t *chosen,
                             const real *d, real *gradient) {
  real s[CH_MAX_EXPERTS], sum = 0, inner = 0;
  for (int64_t j = 0; j < rule->active; j++) s[j] = logits[chosen[j]];
  sigmoid(rule->active, s, s);
  for (int64_t j = 0; j < rule->active; j++) sum += s[j];
  for (int64_t j = 0; j < rule->active; j++) inner = real_fma(d[j], s[j], inner);
  sum += TINY;
  for (int64_t j = 0; j < rule->active; j++) {
    real of_score = rule->renormalise ? (d[j] - inner / sum) / sum : d[j];
    gradient[chosen[j]] += of_score * s[j] * (1 - s[j]);
  }
}

/* Computes the gradient of one row's logits from the gradients of its weights, and from `pull` on every
   expert's probability (or NULL). Returns the sum of the pulls, each times its probability. */
static real route_gradient(const ch_routing_rule *rule, const real *logits, const int32_t *chosen,
                           const real *dweights, const real *pull, real *gradient) {
  int64_t experts = rule->experts, active = rule->active;
  real p[CH_MAX_EXPERTS], d[CH_MAX_EXPERTS], pulled = 0;
  const real scale = (real)rule->scale;
  memset(gradient, 0, (size_t)experts * sizeof *gradient);
  if (pull || !(rule->renormalise || rule->sigmoid)) softmax(experts, logits, p);
  if (pull) pulled = add_softmax_gradient(experts, p, pull, gradient);
  if (rule->sigmoid) {
    for (int64_t j = 0; j < active; j++) d[j] = scale * dweights[j];
    sigmoid_gradient(rule, logits, chosen, d, gradient);
  } else if (rule->renormalise) {
    real among[CH_MAX_EXPERTS], back[CH_MAX_EXPERTS] = {0};
    route_row(rule, logits, chosen, among);
    for (int64_t j = 0; j < active; j++) d[j] = scale * dweights[j];
    add_softmax_gradient(active, among, d, back);
    for (int64_t j = 0; j < active; j++) gradient[chosen[j]] += back[j];
  } else {
    memset(d, 0, (size_t)experts * sizeof *d);
    for (int64_t j = 0; j < active; j++) d[chosen[j]] = scale * dweights[j];
    add_softmax_gradient(experts, p, d, gradient);
  }
  return pulled;
}

static void route_back_range(int64_t first, int64_t last, const ch_routing_rule *rule, const real *logits,
                             const int32_t *chosen, const real *dweights, const real *pull, int64_t pull_rows,
                             real *pulled, real *dlogits, bool accumulate) {
  for (int64_t r = first; r < last; r++) {
    real gradient[CH_MAX_EXPERTS], *out = dlogits + r * rule->experts;
    real sum = route_gradient(rule, logits + r * rule->experts, chosen + r * rule->active,
                              dweights + r * rule->active, pull ? pull + r / pull_rows * rule->experts : NULL,
                              gradient);
    if (pull) pulled[r] = sum;
    for (int64_t e = 0; e < rule->experts; e++) out[e] = accumulate ? out[e] + gradient[e] : gradient[e];
  }
}

void KERNEL(route_backward)(const ch_team *team, int64_t rows, const ch_routing_rule *rule,
                            const void *logits, const int32_t *chosen, const void *dweights, const void *pull,
                            int64_t pull_rows, void *pulled, void *dlogits, bool accumulate) {
  FOR_RANGE(rows, rows > 1 && rows * rule->experts >= CH_PARALLEL_ELEMENTS,
            route_back_range(first, last, rule, logits, chosen, dweights, pull, pull_rows, pulled, dlogits,
                             accumulate));
}

/* --- SwiGLU between an expert's matrices ---------------------------------------------------------------- */

static void swiglu_rows(int64_t first, int64_t last, int64_t n, const real *gate, const real *up,
                        const real *scale, real *y) {
  for (int64_t r = first; r < last; r++)
    for (int64_t i = 0; i < n; i += VL) {
      vec g = load_some(gate + r * n + i, n - i), u = load_some(up + r * n + i, n - i);
      store_some(y + r * n + i, scale[r] * (g * vec_sigmoid(g) * u), n - i);
    }
}

void KERNEL(swiglu_rows_forward)(const ch_team *team, int64_t rows, int64_t n, const void *gate,
                                 const void *up, const void *scale, void *y) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            swiglu_rows(first, last, n, gate, up, scale, y));
}

static void swiglu_rows_back(int64_t first, int64_t last, int64_t n, const real *gate, const real *up,
                             const real *scale, const real *dy, real *dgate, real *dup, real *dscale) {
  for (int64_t r = first; r < last; r++) {
    vec sum = splat(0);
    for (int64_t i = 0; i < n; i += VL) {
      int64_t at = r * n + i, left = n - i;
      vec g = load_some(gate + at, left), u = load_some(up + at, left), d = load_some(dy + at, left);
      vec s = vec_sigmoid(g), silu = g * s;
      sum = vec_fma(d, silu * u, sum);
      d *= scale[r];
      store_some(dgate + at, d * u * silu_slope(g, s), left);
      store_some(dup + at, d * silu, left);
    }
    dscale[r] = lanes_sum(sum);
  }
}

void KERNEL(swiglu_rows_backward)(const ch_team *team, int64_t rows, int64_t n, const void *gate,
                                  const void *up, const void *scale, const void *dy, void *dgate, void *dup,
                                  void *dscale) {
  FOR_RANGE(rows, rows > 1 && rows * n >= CH_PARALLEL_ELEMENTS,
            swiglu_rows_back(first, last, n, gate, up, scale, dy, dgate, dup, dscale));
}

/* --- sums of the experts' results ----------------------------------------------------------------------- */

static void sum_places(int64_t first, int64_t last, int64_t count, int64_t n, const int32_t *places,
                       const real *x, real *y, bool accumulate) {
  for (int64_t r = first; r < last; r++)
    for (int64_t i = 0; i < n; i += VL) {
      vec sum = accumulate ? load_some(y + r * n + i, n - i) : splat(0);
      for (int64_t j = 0; j < count; j++) sum += load_some(x + places[r * count + j] * n + i, n - i);
      store_some(y + r * n + i, sum, n - i);
    }
}

void KERNEL(sum_places)(const ch_team *team, int64_t rows, int64_t count, int64_t n, const int32_t *places,
                        const void *x, void *y, bool accumulate) {
  FOR_RANGE(rows, rows > 1 && rows * count * n >= CH_PARALLEL_ELEMENTS,
            sum_places(first, last, count, n, places, x, y, accumulate));
}
