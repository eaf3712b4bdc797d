/* Fitting L(N, D): M-estimation of ln L by damped Gauss-Newton steps from many starts, intervals from the profile of each
 * quantity.
 *
 * With x = ln N and y = ln D, both less their means, and u, v the logarithms of the two terms:
 *
 *   ln L = d ln(e^u + e^v),   u = (A - n x) / d,   v = (B - d y) / d,   n = alpha_N, d = alpha_D
 *
 * A and B are the logarithms of the losses that either term alone gives in the middle of the points.
 */
#include <crosshead/fit.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "experiment/robust.h"

enum { PARAMETERS = 4, STEPS = 60, ROUNDS = 60, LEAST_KINDS = 3 };
static const double least_alpha = 1e-3, most_alpha = 10;
static const double rounding = 1e-7; /* the relative rounding of losses in files */
static const double tight = 1e-3;    /* Huber's bound while starts are compared, as in Hoffmann et al. 2022 */
static const double widest_log = 200; /* of ln N_c and ln D_c around their value */

/* A, ln alpha_N, B, ln alpha_D */
typedef struct candidate {
  double at[PARAMETERS], sum; /* weighted squares */
} candidate;

typedef struct points {
  int n;
  double mean_x, mean_y;
  double *x, *y, *loss; /* [n], logarithms, x and y less their means */
  double *weight, *u;   /* [n]; u: scratch */
} points;

/* What is held fixed while the rest is fitted. */
typedef enum fixed { NOTHING, ALPHA_SIZE, ALPHA_TOKENS, SIZE, TOKENS, LOSS } fixed;

typedef struct constraint {
  fixed what;
  double x, y; /* where LOSS is */
} constraint;

/* --- the law ----------------------------------------------------------------------------------------------------- */

/* ln L, and in `slope` its derivatives. */
static double law_at(const double at[PARAMETERS], double x, double y, double slope[PARAMETERS]) {
  double n = exp(at[1]), d = exp(at[3]), u = (at[0] - n * x) / d, v = at[2] / d - y;
  double most = fmax(u, v), share = 1 / (1 + exp(v - u)), sum = most + log(exp(u - most) + exp(v - most));
  slope[0] = share;
  slope[1] = -share * n * x;
  slope[2] = 1 - share;
  slope[3] = d * (sum - share * u - (1 - share) * at[2] / d);
  return d * sum;
}

/* --- coordinates ------------------------------------------------------------------------------------------------- */

/* A quantity is held fixed as a coordinate of its own, in place of one of the law's: ln N_c less its unit in place of A,
   ln D_c in place of B, and ln L at a place in place of A, where B's place is taken by the logit of the share that the size has in
   that loss. */
static int coordinate_of(fixed what) {
  static const int places[] = {
      [NOTHING] = -1, [ALPHA_SIZE] = 1, [ALPHA_TOKENS] = 3, [SIZE] = 0, [TOKENS] = 2, [LOSS] = 0};
  return places[what];
}

/* The law at these coordinates, and the derivatives of its numbers (rows) by them. */
static void unfold(const constraint *held, const double from[PARAMETERS], double at[PARAMETERS],
                   double slopes[PARAMETERS][PARAMETERS]) {
  double n = exp(from[1]), d = exp(from[3]);
  for (int i = 0; i < PARAMETERS; i++) {
    at[i] = from[i];
    for (int j = 0; j < PARAMETERS; j++) slopes[i][j] = i == j;
  }
  if (held->what == SIZE) {
    at[0] = slopes[0][1] = from[0] * n;
    slopes[0][0] = n;
  } else if (held->what == TOKENS) {
    at[2] = slopes[2][3] = from[2] * d;
    slopes[2][2] = d;
  } else if (held->what == LOSS) {
    double share = 1 / (1 + exp(-from[2])), of_size = -log1p(exp(-from[2])), of_tokens = -log1p(exp(from[2]));
    at[0] = from[0] + d * of_size + n * held->x;
    at[2] = from[0] + d * (of_tokens + held->y);
    const double rows[2][PARAMETERS] = {{1, n * held->x, d * (1 - share), d * of_size},
                                        {1, 0, -d * share, d * (of_tokens + held->y)}};
    for (int j = 0; j < PARAMETERS; j++) {
      slopes[0][j] = rows[0][j];
      slopes[2][j] = rows[1][j];
    }
  }
}

/* The coordinates of a law. */
static candidate fold(const constraint *held, const candidate *law) {
  double slope[PARAMETERS];
  candidate folded = *law;
  if (held->what == SIZE) folded.at[0] = law->at[0] * exp(-law->at[1]);
  if (held->what == TOKENS) folded.at[2] = law->at[2] * exp(-law->at[3]);
  if (held->what == LOSS) {
    folded.at[0] = law_at(law->at, held->x, held->y, slope);
    folded.at[2] = fmin(fmax(log(slope[0] / slope[2]), -30), 30);
  }
  return folded;
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

typedef struct normal {
  double form[PARAMETERS][PARAMETERS], pull[PARAMETERS];
  double sum; /* weighted squares */
} normal;

static void add_row(normal *m, const double slope[PARAMETERS], double residual, double weight) {
  for (int i = 0; i < PARAMETERS; i++) {
    m->pull[i] += weight * slope[i] * residual;
    for (int j = 0; j < PARAMETERS; j++) m->form[i][j] += weight * slope[i] * slope[j];
  }
}

/* At the coordinates `from`. */
static normal normal_of(const points *p, const constraint *held, const double from[PARAMETERS]) {
  normal m = {0};
  double at[PARAMETERS], slopes[PARAMETERS][PARAMETERS], slope[PARAMETERS], row[PARAMETERS];
  int fixed_one = coordinate_of(held->what);
  unfold(held, from, at, slopes);
  for (int i = 0; i < p->n; i++) {
    double r = p->loss[i] - law_at(at, p->x[i], p->y[i], slope);
    for (int j = 0; j < PARAMETERS; j++) {
      row[j] = 0;
      for (int k = 0; k < PARAMETERS && j != fixed_one; k++) row[j] += slope[k] * slopes[k][j];
    }
    add_row(&m, row, r, p->weight[i]);
    m.sum += p->weight[i] * r * r;
  }
  if (fixed_one >= 0) m.form[fixed_one][fixed_one] = 1;
  return m;
}

/* Solves (form + damping diag) step = pull by Cholesky's decomposition. */
static bool solve(const normal *m, double damping, double step[PARAMETERS]) {
  double l[PARAMETERS][PARAMETERS] = {{0}};
  for (int i = 0; i < PARAMETERS; i++)
    for (int j = 0; j <= i; j++) {
      double sum = m->form[i][j];
      if (i == j) sum += damping * (m->form[i][i] + 1e-12);
      for (int k = 0; k < j; k++) sum -= l[i][k] * l[j][k];
      if (i == j && !(sum > 0)) return false;
      l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
    }
  for (int i = 0; i < PARAMETERS; i++) {
    step[i] = m->pull[i];
    for (int k = 0; k < i; k++) step[i] -= l[i][k] * step[k];
    step[i] /= l[i][i];
  }
  for (int i = PARAMETERS - 1; i >= 0; i--) {
    for (int k = i + 1; k < PARAMETERS; k++) step[i] -= l[k][i] * step[k];
    step[i] /= l[i][i];
  }
  return true;
}

static void keep_in_range(double at[PARAMETERS]) {
  for (int k = 1; k < PARAMETERS; k += 2) at[k] = fmin(fmax(at[k], log(least_alpha)), log(most_alpha));
}

/* The least weighted squares downhill of `start`, both in the coordinates of the constraint. */
static candidate descend(const points *p, const constraint *held, candidate start) {
  double damping = 1e-3;
  candidate best = start;
  normal m = normal_of(p, held, best.at);
  for (int i = 0; i < STEPS; i++) {
    double step[PARAMETERS], largest = 0;
    candidate next = best;
    if (!solve(&m, damping, step)) {
      damping = fmax(damping * 10, 1e-9);
      continue;
    }
    for (int k = 0; k < PARAMETERS; k++) {
      next.at[k] += fmin(fmax(step[k], -2), 2);
      largest = fmax(largest, fabs(step[k]));
    }
    keep_in_range(next.at);
    normal there = normal_of(p, held, next.at);
    bool better = there.sum < m.sum;
    if (better) {
      best = next;
      m = there;
    }
    damping = better ? fmax(damping / 10, 1e-12) : damping * 10;
    if (largest < 1e-10 || damping > 1e12) break;
  }
  best.sum = m.sum;
  return best;
}

/* --- robust fits ------------------------------------------------------------------------------------------------- */

static const constraint free_fit = {.what = NOTHING};

static void set_deviations(const points *p, const candidate *law) {
  double slope[PARAMETERS];
  for (int i = 0; i < p->n; i++) p->u[i] = p->loss[i] - law_at(law->at, p->x[i], p->y[i], slope);
}

static double scale_of(const points *p, const candidate *law) {
  set_deviations(p, law);
  for (int i = 0; i < p->n; i++) p->u[i] = fabs(p->u[i]);
  return fmax(ch_robust_scale(p->u, p->n, PARAMETERS), rounding);
}

/* Weights for deviations in units of `scale`, until they settle. */
static candidate settle(const points *p, candidate law, double scale, bool redescending, int rounds) {
  for (int round = 0; round < rounds; round++) {
    candidate before = law;
    double moved = 0;
    set_deviations(p, &law);
    for (int i = 0; i < p->n; i++) p->weight[i] = ch_robust_weight(p->u[i] / scale, redescending);
    law = descend(p, &free_fit, law);
    for (int k = 0; k < PARAMETERS; k++) moved = fmax(moved, fabs(law.at[k] - before.at[k]));
    if (moved < 1e-8) break;
  }
  return law;
}

/* Huber's loss, whose second half is linear: what starts are compared by. */
static double huber_loss(const points *p, const candidate *law, double bound) {
  double sum = 0;
  set_deviations(p, law);
  for (int i = 0; i < p->n; i++) {
    double size = fabs(p->u[i]);
    sum += size <= bound ? size * size / 2 : bound * (size - bound / 2);
  }
  return sum;
}

/* The best of what descends from a grid of exponents and of shares of the two terms in the middle. */
static candidate fit_from_starts(const points *p) {
  static const double alphas[] = {0.03, 0.1, 0.3, 1}, shares[] = {0.1, 0.5, 0.9};
  candidate best = {.sum = INFINITY};
  double least = INFINITY, middle = 0;
  for (int i = 0; i < p->n; i++) middle += p->loss[i] / p->n;
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++)
      for (int s = 0; s < 3; s++) {
        double n = log(alphas[a]), d = log(alphas[b]);
        candidate law = {
            .at = {middle + alphas[b] * log(shares[s]), n, middle + alphas[b] * log(1 - shares[s]), d}};
        for (int i = 0; i < p->n; i++) p->weight[i] = 1;
        law = settle(p, descend(p, &free_fit, law), tight, false, 8);
        double loss = huber_loss(p, &law, tight);
        if (!(loss < least)) continue;
        least = loss;
        best = law;
      }
  return best;
}

/* Huber's estimator gives the scale; then the bisquare, which ignores outliers, starts from there. */
static candidate fit_robust(const points *p, double *scale) {
  candidate law = fit_from_starts(p);
  for (int round = 0; round < ROUNDS; round++) {
    double before = *scale;
    *scale = scale_of(p, &law);
    law = settle(p, law, *scale, false, 1);
    if (round > 0 && fabs(*scale - before) <= 1e-6 * *scale) break;
  }
  return settle(p, law, *scale, true, ROUNDS);
}

/* --- intervals --------------------------------------------------------------------------------------------------- */

typedef struct trial {
  const points *p;
  ch_robust_test test;
  constraint held;
  candidate best, near; /* in its coordinates: the law, and the fit at the last value that was tried */
} trial;

static bool is_possible(void *context, double value) {
  trial *t = context;
  int place = coordinate_of(t->held.what);
  candidate from_best = t->best;
  t->near.at[place] = from_best.at[place] = value;
  t->near = descend(t->p, &t->held, t->near);
  if (ch_robust_passes(&t->test, t->near.sum)) return true;
  from_best = descend(t->p, &t->held, from_best);
  if (from_best.sum < t->near.sum) t->near = from_best;
  return ch_robust_passes(&t->test, t->near.sum);
}

/* In logarithms; an end farther than `low` or `high` is none. */
static ch_estimate interval(trial *t, const candidate *law, constraint held, double low, double high) {
  t->held = held;
  t->near = t->best = fold(&held, law);
  double value = t->best.at[coordinate_of(held.what)], ends[2] = {fmin(low, value), fmax(high, value)};
  if (held.what > ALPHA_TOKENS) {
    ends[0] = value - widest_log;
    ends[1] = value + widest_log;
  }
  double below = ch_robust_reach(is_possible, t, value, ends[0], 0.01);
  t->near = t->best;
  double above = ch_robust_reach(is_possible, t, value, ends[1], 0.01);
  return (ch_estimate){value, below <= ends[0] ? -INFINITY : below, above >= ends[1] ? INFINITY : above};
}

/* exp of all three, times exp(unit): -INFINITY becomes 0. */
static ch_estimate back(ch_estimate e, double unit) {
  return (ch_estimate){exp(e.value + unit), exp(e.low + unit), exp(e.high + unit)};
}

static void estimate(trial *t, const candidate *best, ch_size_law *law) {
  const points *p = t->p;
  const double low = log(least_alpha), high = log(most_alpha);
  law->alpha_size = back(interval(t, best, (constraint){.what = ALPHA_SIZE}, low, high), 0);
  law->alpha_tokens = back(interval(t, best, (constraint){.what = ALPHA_TOKENS}, low, high), 0);
  law->size = back(interval(t, best, (constraint){.what = SIZE}, 0, 0), p->mean_x);
  law->tokens = back(interval(t, best, (constraint){.what = TOKENS}, 0, 0), p->mean_y);
  if (!(law->at_size > 0)) return;
  constraint at = {.what = LOSS, .x = log(law->at_size) - p->mean_x, .y = log(law->at_tokens) - p->mean_y};
  law->at = back(interval(t, best, at, 0, 0), 0);
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

/* How many different values there are. */
static int kinds(const double *values, int n) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    int j = 0;
    while (j < i && values[j] != values[i]) j++;
    count += j == i;
  }
  return count;
}

static ch_status check(const double *sizes, const double *tokens, const double *losses, int n,
                       ch_size_law *law, ch_error *error) {
  if (n < CH_SCALING_LEAST_POINTS || n > CH_SIZE_LAW_MOST_POINTS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a law of size and tokens needs %d to %d models; there are %d",
                   CH_SCALING_LEAST_POINTS, CH_SIZE_LAW_MOST_POINTS, n < 0 ? 0 : n);
  for (int i = 0; i < n; i++)
    if (!(sizes[i] > 0 && sizes[i] < 1e30 && tokens[i] > 0 && tokens[i] < 1e30 && losses[i] > 0 &&
          losses[i] < 1e30))
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "model %d has %g parameters, %g tokens and a loss of %g; all must be above 0", i + 1,
                     sizes[i], tokens[i], losses[i]);
  law->sizes = kinds(sizes, n);
  law->lengths = kinds(tokens, n);
  if (law->sizes < LEAST_KINDS || law->lengths < LEAST_KINDS)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "a law of size and tokens needs models of %d sizes and %d numbers of tokens at least; there are "
        "%d and %d",
        LEAST_KINDS, LEAST_KINDS, law->sizes, law->lengths);
  return CH_OK;
}

static void read_points(const double *sizes, const double *tokens, const double *losses, points *p) {
  for (int i = 0; i < p->n; i++) {
    p->mean_x += log(sizes[i]) / p->n;
    p->mean_y += log(tokens[i]) / p->n;
  }
  for (int i = 0; i < p->n; i++) {
    p->x[i] = log(sizes[i]) - p->mean_x;
    p->y[i] = log(tokens[i]) - p->mean_y;
    p->loss[i] = log(losses[i]);
  }
}

static ch_status fit(points *p, ch_size_law *law, ch_error *error) {
  double scale = 0;
  candidate best = fit_robust(p, &scale);
  if (!(best.sum < INFINITY))
    return ch_fail(error, CH_ERROR_ARGUMENT, "no law of size and tokens fits these losses");
  for (int i = 0; i < p->n; i++) law->outliers += p->weight[i] < 0.5;
  set_deviations(p, &best);
  for (int i = 0; i < p->n; i++) p->u[i] /= scale;
  trial t = {.p = p, .test = ch_robust_make_test(p->n, PARAMETERS, p->u, p->weight, scale, 0, best.sum)};
  law->noise = scale;
  law->points = p->n;
  estimate(&t, &best, law);
  law->says_nothing = !(law->alpha_size.low > 0) && !(law->alpha_tokens.low > 0);
  return CH_OK;
}

ch_status ch_size_law_fit(const double *sizes, const double *tokens, const double *losses, int32_t n,
                          double at_size, double at_tokens, ch_size_law *law, ch_error *error) {
  *law = (ch_size_law){.at = {NAN, NAN, NAN}, .at_size = at_size, .at_tokens = at_tokens};
  CH_TRY(check(sizes, tokens, losses, n, law, error));
  if ((at_size > 0) != (at_tokens > 0) || at_size < 0 || at_tokens < 0 || !(at_size < 1e30) ||
      !(at_tokens < 1e30))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "a loss is predicted for a size and a number of tokens; %g parameters and %g tokens are not both",
        at_size, at_tokens);
  double *memory = calloc((size_t)n * 5, sizeof *memory);
  if (!memory) return ch_fail(error, CH_ERROR_MEMORY, "no memory to fit a law to %d models", (int)n);
  points p = {.n = n,
              .x = memory,
              .y = memory + n,
              .loss = memory + 2 * (size_t)n,
              .weight = memory + 3 * (size_t)n,
              .u = memory + 4 * (size_t)n};
  read_points(sizes, tokens, losses, &p);
  ch_status status = fit(&p, law, error);
  free(memory);
  return status;
}

double ch_size_law_loss(const ch_size_law *law, double size, double tokens) {
  double d = law->alpha_tokens.value;
  return pow(pow(law->size.value / size, law->alpha_size.value / d) + law->tokens.value / tokens, d);
}
