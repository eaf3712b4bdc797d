/* Weighted least squares over groups and blocks, and moderated variances. */
#include "laws/block_means.h"

#include <math.h>
#include <string.h>

/* Weights and variances depend on each other; few rounds suffice. */
enum { ROUNDS = 3, PRIORS = 7, SCALES = 49, NODES = PRIORS * SCALES };

/* The prior of the spread of groups' variances: d0 and weights. Small d0 are favoured, so that a few groups
 * alone do not count as proof of equal noise. s0^2 is tried around the pooled variance, SCALES factors from
 * e^-3 to e^9. */
static const double prior_degrees[PRIORS] = {1, 2, 4, 8, 16, 32, INFINITY};
static const double prior_weights[PRIORS] = {1. / 1, 1. / 3, 1. / 9, 1. / 27, 1. / 81, 1. / 243, 1. / 243};

typedef struct work {
  const ch_block_value *values;
  int count, groups, blocks;
  int *component;  /* [groups]: the least group in the same component of groups that blocks connect */
  double *weights; /* [groups]: weight of each of the group's values, times the pooled variance */
  double *block_weights, *effect; /* [blocks]: sum of the weights in a block, and the block's effect */
  double *inverse;                /* [groups * groups]: inverse of the normal equations' matrix */
  double *means, *right;          /* [groups]: means, and right side of the normal equations (or scratch) */
  double *squares, *degrees;      /* [groups]: sum of squared residuals, and its degrees of freedom */
  double *variances;              /* [groups]: moderated variances */
  double pooled;                  /* pooled variance of the residuals */
  double nodes[NODES];            /* posterior probabilities of (d0, s0) */
} work;

/* --- least squares ----------------------------------------------------------------------------------------------- */

/* Joins groups that have a block in common. by_block [blocks] receives a group of each block, or -1. */
static void connect(work *w, int *by_block) {
  for (int b = 0; b < w->blocks; b++) by_block[b] = -1;
  for (int g = 0; g < w->groups; g++) w->component[g] = g;
  for (int i = 0; i < w->count; i++) {
    int group = w->values[i].group, *other = &by_block[w->values[i].block];
    if (*other < 0) *other = group;
    int a = w->component[group], b = w->component[*other], least = a < b ? a : b;
    for (int g = 0; g < w->groups; g++)
      if (w->component[g] == a || w->component[g] == b) w->component[g] = least;
  }
}

/* Inverts a symmetric positive definite matrix in place, by Gauss and Jordan's method without pivots. */
static void invert(int n, double *m) {
  for (int p = 0; p < n; p++) {
    double pivot = m[p * n + p];
    m[p * n + p] = 1;
    for (int k = 0; k < n; k++) m[p * n + k] /= pivot;
    for (int i = 0; i < n; i++) {
      double factor = m[i * n + p];
      if (i == p || factor == 0) continue;
      m[i * n + p] = 0;
      for (int k = 0; k < n; k++) m[i * n + k] -= factor * m[p * n + k];
    }
  }
}

/* Computes the means of groups, the effects of blocks and `inverse` with the current weights. The means of a
 * component sum to 0. */
static void solve(work *w) {
  int n = w->groups;
  memset(w->block_weights, 0, (size_t)w->blocks * sizeof *w->block_weights);
  memset(w->effect, 0, (size_t)w->blocks * sizeof *w->effect);
  memset(w->right, 0, (size_t)n * sizeof *w->right);
  for (int i = 0; i < w->count; i++) {
    const ch_block_value *v = &w->values[i];
    w->block_weights[v->block] += w->weights[v->group];
    w->effect[v->block] += w->weights[v->group] * v->value;
  }
  for (int b = 0; b < w->blocks; b++)
    if (w->block_weights[b] > 0) w->effect[b] /= w->block_weights[b];
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++) w->inverse[a * n + b] = w->component[a] == w->component[b];
  for (int i = 0; i < w->count; i++) {
    const ch_block_value *v = &w->values[i];
    w->inverse[v->group * n + v->group] += w->weights[v->group];
    w->right[v->group] += w->weights[v->group] * (v->value - w->effect[v->block]);
    for (int k = 0; k < w->count; k++)
      if (w->values[k].block == v->block)
        w->inverse[v->group * n + w->values[k].group] -=
            w->weights[v->group] * w->weights[w->values[k].group] / w->block_weights[v->block];
  }
  invert(n, w->inverse);
  for (int a = 0; a < n; a++) {
    w->means[a] = 0;
    for (int b = 0; b < n; b++) w->means[a] += w->inverse[a * n + b] * w->right[b];
  }
  for (int i = 0; i < w->count; i++) {
    const ch_block_value *v = &w->values[i];
    w->effect[v->block] -= w->weights[v->group] / w->block_weights[v->block] * w->means[v->group];
  }
}

/* Returns the variance of a fitted value in units of the pooled variance: 1 / (sum of the block's weights) +
 * q' inverse q. q is the unit vector of the value's group less the shares of the groups in the value's block. */
static double fitted_variance(const work *w, const ch_block_value *v, double *q) {
  int n = w->groups;
  double sum = 1 / w->block_weights[v->block];
  memset(q, 0, (size_t)n * sizeof *q);
  for (int k = 0; k < w->count; k++)
    if (w->values[k].block == v->block)
      q[w->values[k].group] -= w->weights[w->values[k].group] / w->block_weights[v->block];
  q[v->group] += 1;
  for (int a = 0; a < n; a++)
    for (int b = 0; q[a] != 0 && b < n; b++) sum += q[a] * w->inverse[a * n + b] * q[b];
  return sum;
}

static void measure_residuals(work *w) {
  memset(w->squares, 0, (size_t)w->groups * sizeof *w->squares);
  memset(w->degrees, 0, (size_t)w->groups * sizeof *w->degrees);
  double squares = 0, degrees = 0;
  for (int i = 0; i < w->count; i++) {
    const ch_block_value *v = &w->values[i];
    double residual = v->value - w->means[v->group] - w->effect[v->block];
    w->squares[v->group] += residual * residual;
    w->degrees[v->group] += fmax(0, 1 - w->weights[v->group] * fitted_variance(w, v, w->right));
  }
  for (int g = 0; g < w->groups; g++) {
    squares += w->squares[g];
    degrees += w->degrees[g];
  }
  w->pooled = degrees > 0 ? squares / degrees : 0;
}

/* --- moderated variances ----------------------------------------------------------------------------------------- */

static double prior_scale(const work *w, int node) {
  return w->pooled * exp(-3 + 12. * (node % SCALES) / (SCALES - 1));
}

/* Returns the log likelihood of a group's sum of squares at a node. */
static double likelihood(double d0, double s0, double squares, double d) {
  if (isinf(d0)) return -d / 2 * log(s0) - squares / 2 / s0;
  return lgamma((d + d0) / 2) - lgamma(d0 / 2) + d0 / 2 * log(d0 * s0) + d / 2 * M_LN2 -
         (d0 + d) / 2 * log(d0 * s0 + squares);
}

/* Computes the posterior of the nodes. Two groups have only one difference, so that their variances cannot
 * be distinguished. */
static void weigh_nodes(work *w) {
  double most = -INFINITY, sum = 0;
  for (int node = 0; node < NODES; node++) {
    double d0 = prior_degrees[node / SCALES], s0 = prior_scale(w, node);
    bool counts = w->groups > 2 || isinf(d0);
    w->nodes[node] = counts ? log(prior_weights[node / SCALES]) : -INFINITY;
    for (int g = 0; counts && g < w->groups; g++)
      w->nodes[node] += likelihood(d0, s0, w->squares[g], w->degrees[g]);
    most = fmax(most, w->nodes[node]);
  }
  for (int node = 0; node < NODES; node++) sum += w->nodes[node] = exp(w->nodes[node] - most);
  for (int node = 0; node < NODES; node++) w->nodes[node] /= sum;
}

/* Returns a group's variance at a node, and its degrees of freedom there. */
static double variance_at(const work *w, int node, int group, double *degrees) {
  double d0 = prior_degrees[node / SCALES], s0 = prior_scale(w, node);
  *degrees = d0 + w->degrees[group];
  return isinf(d0) ? s0 : (d0 * s0 + w->squares[group]) / *degrees;
}

/* Sets each group's variance to the reciprocal of its expected precision, and its weight to that precision times the
 * pooled variance. */
static void moderate(work *w) {
  for (int g = 0; g < w->groups; g++) {
    double precision = 0, degrees;
    for (int node = 0; node < NODES; node++)
      if (w->nodes[node] > 0) precision += w->nodes[node] / variance_at(w, node, g, &degrees);
    w->variances[g] = 1 / precision;
    w->weights[g] = w->pooled * precision;
  }
}

/* Returns the variance of one value of a less one of b. Its degrees of freedom are those of a gamma
 * distribution with the mean and the variance of the precision over all nodes. */
static double pair_variance(const work *w, int a, int b, double *degrees) {
  double mean = 0, square = 0;
  for (int node = 0; node < NODES; node++) {
    double of_a, of_b;
    if (!(w->nodes[node] > 0)) continue;
    double va = variance_at(w, node, a, &of_a), vb = variance_at(w, node, b, &of_b), both = va + vb;
    double relative = (va * va / of_a + vb * vb / of_b) / (both * both); /* 1 / Satterthwaite's degrees */
    mean += w->nodes[node] / both;
    square += w->nodes[node] / (both * both) * (1 + 2 * relative);
  }
  *degrees = 2 * mean * mean / fmax(square - mean * mean, 1e-12 * mean * mean);
  return 1 / mean;
}

/* --- the fit ----------------------------------------------------------------------------------------------------- */

static bool allocate_work(work *w, ch_arena *arena, ch_block_means *fit) {
  size_t g = (size_t)w->groups, b = (size_t)w->blocks;
  double *room = ch_arena_alloc(arena, (3 * g * g + 8 * g + 2 * b) * sizeof *room);
  w->component = ch_arena_alloc(arena, (g + b) * sizeof *w->component);
  if (!room || !w->component) return false;
  double **of_groups[] = {&w->weights,   &w->means,   &w->right,  &w->squares,
                          &w->variances, &w->degrees, &fit->means};
  for (size_t i = 0; i < sizeof of_groups / sizeof *of_groups; i++) *of_groups[i] = room, room += g;
  w->block_weights = room, w->effect = room + b, w->inverse = room + 2 * b;
  fit->errors = w->inverse + g * g, fit->freedom = fit->errors + g * g;
  return true;
}

/* Computes plain means of a complete layout, else means that are adjusted to the mean of the blocks that
 * connect them. */
static void find_means(work *w, ch_block_means *fit) {
  bool complete = w->count == w->groups * w->blocks;
  memset(fit->means, 0, (size_t)w->groups * sizeof *fit->means);
  for (int i = 0; complete && i < w->count; i++)
    fit->means[w->values[i].group] += w->values[i].value / w->blocks;
  for (int g = 0; !complete && g < w->groups; g++) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < w->count; i++)
      if (w->component[w->values[i].group] == w->component[g]) {
        sum += w->effect[w->values[i].block];
        count++;
      }
    fit->means[g] = w->means[g] + sum / count;
  }
}

static void find_errors(work *w, ch_block_means *fit) {
  int n = w->groups;
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++) {
      double *error = &fit->errors[a * n + b], *degrees = &fit->freedom[a * n + b];
      *degrees = fmax(0, fit->degrees);
      *error = a == b ? 0 : INFINITY;
      if (a == b || !(fit->degrees > 0) || w->component[a] != w->component[b]) continue;
      if (b < a) {
        *error = fit->errors[b * n + a];
        *degrees = fit->freedom[b * n + a];
        continue;
      }
      *error = 0;
      if (!(w->pooled > 0)) continue;
      double spread = w->inverse[a * n + a] + w->inverse[b * n + b] - 2 * w->inverse[a * n + b];
      double share = w->pooled * spread / (w->variances[a] + w->variances[b]); /* 1 / seeds, if complete */
      *error = sqrt(share * pair_variance(w, a, b, degrees));
      *degrees = fmin(*degrees, fit->degrees);
    }
}

ch_status ch_fit_block_means(const ch_block_value *values, int count, int groups, int blocks, ch_arena *arena,
                             ch_block_means *fit, ch_error *error) {
  work w = {.values = values, .count = count, .groups = groups, .blocks = blocks};
  *fit = (ch_block_means){.groups = groups};
  if (!allocate_work(&w, arena, fit)) return ch_no_memory(error);
  int *by_block = w.component + groups;
  connect(&w, by_block);
  fit->degrees = count - groups;
  for (int b = 0; b < blocks; b++) fit->degrees -= by_block[b] >= 0;
  for (int g = 0; g < groups; g++) fit->degrees += w.component[g] == g;
  for (int g = 0; g < groups; g++) w.weights[g] = 1;
  for (int round = 0; round < ROUNDS; round++) {
    solve(&w);
    measure_residuals(&w);
    if (round == 0) fit->deviation = sqrt(w.pooled);
    if (!(fit->degrees > 0) || !(w.pooled > 0)) break;
    weigh_nodes(&w);
    moderate(&w);
  }
  solve(&w);
  find_means(&w, fit);
  find_errors(&w, fit);
  return CH_OK;
}
