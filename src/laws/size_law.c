/* Fitting L(N, D): M-estimation of ln L by damped Gauss-Newton steps from many starts, intervals from the profile of
 * each quantity. */
#include <crosshead/fit.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "laws/robust.h"
#include "laws/size_forms.h"
#include "laws/size_law.h"

enum { NUMBERS = CH_SIZE_NUMBERS, SMOOTH = 7, STEPS = 60, ROUNDS = 60, LEAST_KINDS = 3 };
static const double least_alpha = 1e-3, most_alpha = 10;
static const double rounding = 1e-7; /* the relative rounding of losses in files */
static const double tight = 1e-3;    /* Huber's bound while starts are compared, as in Hoffmann et al. 2022 */
/* Largest distance of an interval's end from the value, in ln; for quantities other than exponents. */
static const double widest_log = 200;

typedef struct candidate {
  double at[NUMBERS], sum; /* the law's numbers, and the weighted sum of squares */
} candidate;

typedef struct points {
  const ch_size_shape *shape;
  int n;
  double mean_x, mean_y;
  double *x, *y, *loss; /* [n]: logarithms; x and y less their means */
  double *weight, *u;   /* [n]; u: scratch */
} points;

/* Returns a law in the coordinates of a constraint. */
static candidate fold(const points *p, const ch_size_constraint *held, const candidate *law) {
  candidate folded = *law;
  p->shape->fold(held, law->at, folded.at);
  return folded;
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

typedef struct normal {
  double form[NUMBERS][NUMBERS], pull[NUMBERS];
  double sum; /* weighted sum of squares */
} normal;

static void add_row(normal *m, int numbers, const double slope[NUMBERS], double residual, double weight) {
  for (int i = 0; i < numbers; i++) {
    m->pull[i] += weight * slope[i] * residual;
    for (int j = 0; j < numbers; j++) m->form[i][j] += weight * slope[i] * slope[j];
  }
}

/* Computes the normal equations at the coordinates `from`. */
static normal normal_of(const points *p, const ch_size_constraint *held, const double from[NUMBERS]) {
  normal m = {0};
  double at[NUMBERS], slopes[NUMBERS][NUMBERS], slope[NUMBERS], row[NUMBERS];
  int fixed_one = ch_size_coordinate(held->what);
  int numbers = p->shape->numbers;
  p->shape->unfold(held, from, at, slopes);
  for (int i = 0; i < p->n; i++) {
    double r = p->loss[i] - p->shape->loss(at, p->x[i], p->y[i], slope);
    for (int j = 0; j < numbers; j++) {
      row[j] = 0;
      for (int k = 0; k < numbers && j != fixed_one; k++) row[j] += slope[k] * slopes[k][j];
    }
    add_row(&m, numbers, row, r, p->weight[i]);
    m.sum += p->weight[i] * r * r;
  }
  if (fixed_one >= 0) m.form[fixed_one][fixed_one] = 1;
  return m;
}

/* Solves (form + damping diag) step = pull by Cholesky's decomposition. */
static bool solve(const normal *m, int numbers, double damping, double step[NUMBERS]) {
  double l[NUMBERS][NUMBERS] = {{0}};
  for (int i = 0; i < numbers; i++)
    for (int j = 0; j <= i; j++) {
      double sum = m->form[i][j];
      if (i == j) sum += damping * (m->form[i][i] + 1e-12);
      for (int k = 0; k < j; k++) sum -= l[i][k] * l[j][k];
      if (i == j && !(sum > 0)) return false;
      l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
    }
  for (int i = 0; i < numbers; i++) {
    step[i] = m->pull[i];
    for (int k = 0; k < i; k++) step[i] -= l[i][k] * step[k];
    step[i] /= l[i][i];
  }
  for (int i = numbers - 1; i >= 0; i--) {
    for (int k = i + 1; k < numbers; k++) step[i] -= l[k][i] * step[k];
    step[i] /= l[i][i];
  }
  return true;
}

static void keep_in_range(double at[NUMBERS]) {
  for (int k = 1; k < 4; k += 2) at[k] = fmin(fmax(at[k], log(least_alpha)), log(most_alpha));
}

/* Minimises the weighted squares downhill from `start`. Both are in the coordinates of the constraint. */
static candidate descend(const points *p, const ch_size_constraint *held, candidate start) {
  double damping = 1e-3;
  candidate best = start;
  normal m = normal_of(p, held, best.at);
  for (int i = 0; i < STEPS; i++) {
    double step[NUMBERS], largest = 0;
    candidate next = best;
    if (!solve(&m, p->shape->numbers, damping, step)) {
      damping = fmax(damping * 10, 1e-9);
      continue;
    }
    for (int k = 0; k < p->shape->numbers; k++) {
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

static const ch_size_constraint free_fit = {.what = CH_HELD_NOTHING};

static void set_deviations(const points *p, const candidate *law) {
  double slope[NUMBERS];
  for (int i = 0; i < p->n; i++) p->u[i] = p->loss[i] - p->shape->loss(law->at, p->x[i], p->y[i], slope);
}

/* Fits again with weights by the deviations in units of `scale`, until the law settles. */
static candidate reweight_until_stable(const points *p, candidate law, double scale, bool redescending,
                                       int rounds) {
  for (int round = 0; round < rounds; round++) {
    candidate before = law;
    double moved = 0;
    set_deviations(p, &law);
    for (int i = 0; i < p->n; i++) p->weight[i] = ch_robust_weight(p->u[i] / scale, redescending);
    law = descend(p, &free_fit, law);
    for (int k = 0; k < p->shape->numbers; k++) moved = fmax(moved, fabs(law.at[k] - before.at[k]));
    if (moved < 1e-8) break;
  }
  return law;
}

/* Returns Huber's loss, which is linear beyond `bound`. It compares starts. */
static double huber_loss(const points *p, const candidate *law, double bound) {
  double sum = 0;
  set_deviations(p, law);
  for (int i = 0; i < p->n; i++) {
    double size = fabs(p->u[i]);
    sum += size <= bound ? size * size / 2 : bound * (size - bound / 2);
  }
  return sum;
}

/* Returns the best descent from a grid of exponents, of shares of the two terms in the middle, and of the
 * floor's share. */
static candidate fit_from_starts(const points *p) {
  static const double alphas[] = {0.03, 0.1, 0.3, 1}, shares[] = {0.1, 0.5, 0.9}, floors[] = {0.3, 0.7};
  bool sum = p->shape == ch_size_shape_of(CH_SIZE_FORM_SUM);
  candidate best = {.sum = INFINITY};
  double least = INFINITY, middle = 0;
  for (int i = 0; i < p->n; i++) middle += p->loss[i] / p->n;
  for (int f = 0; f < (sum ? 2 : 1); f++)
    for (int a = 0; a < 4; a++)
      for (int b = 0; b < 4; b++)
        for (int s = 0; s < 3; s++) {
          double n = log(alphas[a]), d = log(alphas[b]), size = log(shares[s]), length = log(1 - shares[s]);
          double rest = middle + log1p(-floors[f]);
          candidate law = {.at = {middle + alphas[b] * size, n, middle + alphas[b] * length, d}};
          if (sum) law = (candidate){.at = {rest + size, n, rest + length, d, middle + log(floors[f])}};
          for (int i = 0; i < p->n; i++) p->weight[i] = 1;
          law = reweight_until_stable(p, descend(p, &free_fit, law), tight, false, 8);
          double loss = huber_loss(p, &law, tight);
          if (!(loss < least)) continue;
          least = loss;
          best = law;
        }
  return best;
}

/* Fits with Huber's estimator for the scale, then with the bisquare, which ignores outliers. */
static candidate fit_robust(const points *p, double *scale) {
  candidate law = fit_from_starts(p);
  for (int round = 0; round < ROUNDS; round++) {
    double before = *scale;
    set_deviations(p, &law);
    for (int i = 0; i < p->n; i++) p->u[i] = fabs(p->u[i]);
    *scale = fmax(ch_robust_scale(p->u, p->n, p->shape->numbers), rounding);
    law = reweight_until_stable(p, law, *scale, false, 1);
    if (round > 0 && fabs(*scale - before) <= 1e-6 * *scale) break;
  }
  return reweight_until_stable(p, law, *scale, true, ROUNDS);
}

/* --- intervals --------------------------------------------------------------------------------------------------- */

typedef struct trial {
  const points *p;
  ch_robust_test test;
  ch_size_constraint held;
  candidate best, near; /* best law, and the fit at the last value tried, both in the coordinates of `held` */
} trial;

static bool is_possible(void *context, double value) {
  trial *t = context;
  int place = ch_size_coordinate(t->held.what);
  candidate from_best = t->best;
  t->near.at[place] = from_best.at[place] = value;
  t->near = descend(t->p, &t->held, t->near);
  if (ch_robust_passes(&t->test, t->near.sum)) return true;
  from_best = descend(t->p, &t->held, from_best);
  if (from_best.sum < t->near.sum) t->near = from_best;
  return ch_robust_passes(&t->test, t->near.sum);
}

/* Returns an interval in logarithms. An end beyond the range that is tried is open: `low` to `high` for exponents, and
 * widest_log to either side for other quantities. */
static ch_estimate interval(trial *t, const candidate *law, ch_size_constraint held, double low,
                            double high) {
  t->held = held;
  t->near = t->best = fold(t->p, &held, law);
  double value = t->best.at[ch_size_coordinate(held.what)], ends[2] = {fmin(low, value), fmax(high, value)};
  if (held.what > CH_HELD_ALPHA_TOKENS) {
    ends[0] = value - widest_log;
    ends[1] = value + widest_log;
  }
  double below = ch_robust_reach(is_possible, t, value, ends[0], 0.01);
  t->near = t->best;
  double above = ch_robust_reach(is_possible, t, value, ends[1], 0.01);
  return (ch_estimate){value, below <= ends[0] ? -INFINITY : below, above >= ends[1] ? INFINITY : above};
}

/* Returns exp of all three, times exp(unit); -INFINITY becomes 0. */
static ch_estimate back(ch_estimate e, double unit) {
  return (ch_estimate){exp(e.value + unit), exp(e.low + unit), exp(e.high + unit)};
}

static void estimate(trial *t, const candidate *best, ch_size_law *law) {
  const points *p = t->p;
  const double low = log(least_alpha), high = log(most_alpha);
  law->alpha_size = back(interval(t, best, (ch_size_constraint){.what = CH_HELD_ALPHA_SIZE}, low, high), 0);
  law->alpha_tokens =
      back(interval(t, best, (ch_size_constraint){.what = CH_HELD_ALPHA_TOKENS}, low, high), 0);
  bool sum = law->form == CH_SIZE_FORM_SUM;
  ch_size_constraint size = {.what = CH_HELD_SIZE, .x = p->mean_x},
                     tokens = {.what = CH_HELD_TOKENS, .y = p->mean_y};
  law->size = back(interval(t, best, size, 0, 0), sum ? 0 : p->mean_x);
  law->tokens = back(interval(t, best, tokens, 0, 0), sum ? 0 : p->mean_y);
  if (sum) law->floor = back(interval(t, best, (ch_size_constraint){.what = CH_HELD_FLOOR}, 0, 0), 0);
  if (!(law->at_size > 0)) return;
  ch_size_constraint at = {
      .what = CH_HELD_LOSS, .x = log(law->at_size) - p->mean_x, .y = log(law->at_tokens) - p->mean_y};
  law->at = back(interval(t, best, at, 0, 0), 0);
}

/* --- systematic part --------------------------------------------------------------------------------------------- */

/* Returns how much of the deviations from the law is a polynomial of x and y. columns: scratch, [NUMBERS +
 * SMOOTH + 1][n]. */
static double systematic_part(const points *p, const candidate *law, double *columns) {
  int numbers = p->shape->numbers, smooth = (p->n - numbers) / 2;
  double slope[NUMBERS];
  if (smooth > SMOOTH) smooth = SMOOTH;
  for (int i = 0; i < p->n; i++) {
    double x = p->x[i], y = p->y[i];
    const double powers[SMOOTH] = {x * y, x * x, y * y, x * x * x, y * y * y, x * x * y, x * y * y};
    p->shape->loss(law->at, x, y, slope);
    for (int k = 0; k < numbers; k++) columns[k * p->n + i] = slope[k];
    for (int k = 0; k < smooth; k++) columns[(numbers + k) * p->n + i] = powers[k];
  }
  return ch_robust_systematic(p->n, p->u, p->weight, columns, numbers, numbers + smooth, false);
}

/* --- the fit ----------------------------------------------------------------------------------------------------- */

/* Counts the different values. */
static int kinds(const double *values, int n) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    int j = 0;
    while (j < i && values[j] != values[i]) j++;
    count += j == i;
  }
  return count;
}

static ch_status check_points(const double *sizes, const double *tokens, const double *losses, int n,
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

static ch_status fit(points *p, double *columns, ch_size_law *law, ch_error *error) {
  double scale = 0;
  candidate best = fit_robust(p, &scale);
  if (!(best.sum < INFINITY))
    return ch_fail(error, CH_ERROR_ARGUMENT, "no law of size and tokens fits these losses");
  for (int i = 0; i < p->n; i++) law->outliers += p->weight[i] < 0.5;
  set_deviations(p, &best);
  law->systematic = systematic_part(p, &best, columns);
  for (int i = 0; i < p->n; i++) p->u[i] /= scale;
  trial t = {.p = p,
             .test = ch_robust_make_test(p->n, p->shape->numbers, p->u, p->weight, scale, 0, best.sum)};
  law->noise = scale;
  law->points = p->n;
  estimate(&t, &best, law);
  law->says_nothing = !(law->alpha_size.low > 0) && !(law->alpha_tokens.low > 0);
  if (!(law->systematic > 0)) return CH_OK;
  p->shape = ch_size_shape_of(law->form == CH_SIZE_FORM_SUM ? CH_SIZE_FORM_RATIO : CH_SIZE_FORM_SUM);
  fit_robust(p, &law->other_noise);
  return CH_OK;
}

ch_status ch_fit_size_law(ch_size_form form, const double *sizes, const double *tokens, const double *losses,
                          int32_t n, double at_size, double at_tokens, ch_size_law *law, ch_error *error) {
  *law = (ch_size_law){.form = form, .at = {NAN, NAN, NAN}, .at_size = at_size, .at_tokens = at_tokens};
  if (form != CH_SIZE_FORM_RATIO && form != CH_SIZE_FORM_SUM)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a law of size and tokens has the form 0 or 1, not %d",
                   (int)form);
  CH_TRY(check_points(sizes, tokens, losses, n, law, error));
  if ((at_size > 0) != (at_tokens > 0) || at_size < 0 || at_tokens < 0 || !(at_size < 1e30) ||
      !(at_tokens < 1e30))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a prediction needs a positive number of parameters and of tokens, not %g and %g", at_size,
                   at_tokens);
  double *memory = calloc((size_t)n * (5 + NUMBERS + SMOOTH + 1), sizeof *memory);
  if (!memory) return ch_no_memory(error);
  points p = {.shape = ch_size_shape_of(form),
              .n = n,
              .x = memory,
              .y = memory + n,
              .loss = memory + 2 * (size_t)n,
              .weight = memory + 3 * (size_t)n,
              .u = memory + 4 * (size_t)n};
  read_points(sizes, tokens, losses, &p);
  ch_status status = fit(&p, memory + 5 * (size_t)n, law, error);
  free(memory);
  return status;
}
