/* Fits L(D) = (D_c/D)^alpha + L_0 to one curve: M-estimation over a profile of alpha, and intervals from the profile
 * of each quantity. Noise may grow with the loss and may be correlated between neighbours; both are estimated. */
#include <crosshead/fit.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/median.h"
#include "laws/robust.h"
#include "laws/scaling_law.h"

enum { MOST_POINTS = 400, GRID = 24, ROUNDS = 40, PARAMETERS = 3, SMOOTH = 3 };
static const double least_alpha = 0.01, most_alpha = 5;
static const double golden = 0.61803398874989485;
static const double rounding = 1e-7; /* the relative rounding of losses in files */
static const double tails = 4;       /* degrees of freedom of the noise's t distribution */
/* the largest ratio of a thinned group's last tokens to its first */
static const double widest_group = 1.05;

/* The quantity that is held fixed while the rest is fitted. */
typedef enum fixed { NOTHING, ALPHA, FLOOR, TOKENS, LOSS } fixed;

typedef struct curve {
  int n;
  double unit;               /* ln of the tokens that D is measured in */
  double *log_tokens, *loss; /* [n]: ln(D) - unit, and the losses */
  double *precision; /* [n]: relative precision of a loss, by its group's size and the noise at its level */
  /* [n]: weights of the fit, D^-alpha, and residuals; the last two also serve as scratch */
  double *weight, *powers, *residual;
} curve;

/* A law, and the weighted sum of its squared residuals. */
typedef struct candidate {
  double alpha, amplitude, floor, sum;
} candidate;

/* A quantity held at `value`; LOSS: the loss at log_tokens. */
typedef struct constraint {
  fixed what;
  double value, log_tokens;
} constraint;

/* --- for one alpha: linear least squares ----------------------------------------------------------------------- */

typedef struct moments {
  double w, x, y, xx, xy;
} moments;

static moments moments_of(const curve *c) {
  moments m = {0};
  for (int i = 0; i < c->n; i++) {
    double w = c->weight[i], x = c->powers[i], y = c->loss[i];
    m.w += w;
    m.x += w * x;
    m.y += w * y;
    m.xx += w * x * x;
    m.xy += w * x * y;
  }
  return m;
}

/* Computes the best amplitude for a given floor. */
static void fit_amplitude(const moments *m, candidate *law) {
  law->amplitude = fmax(0, (m->xy - law->floor * m->x) / m->xx);
}

static void fit_line(const moments *m, candidate *law) {
  double spread = m->xx - m->x * m->x / m->w;
  law->amplitude = spread > 0 ? fmax(0, (m->xy - m->x * m->y / m->w) / spread) : 0;
  law->floor = (m->y - law->amplitude * m->x) / m->w;
  if (law->floor >= 0) return;
  law->floor = 0;
  fit_amplitude(m, law);
}

/* Fits L = value + a (x - x_0), a line through a point, whose floor value - a x_0 is not below 0. */
static void fit_through(const moments *m, const constraint *held, candidate *law) {
  double x0 = exp(-law->alpha * held->log_tokens);
  double spread = m->xx - 2 * x0 * m->x + x0 * x0 * m->w;
  double product = m->xy - held->value * m->x - x0 * (m->y - held->value * m->w);
  law->amplitude = spread > 0 ? fmax(0, product / spread) : 0;
  law->amplitude = fmin(law->amplitude, held->value / x0);
  law->floor = held->value - law->amplitude * x0;
}

static candidate fit_linear(const curve *c, double alpha, const constraint *held) {
  candidate law = {.alpha = alpha};
  for (int i = 0; i < c->n; i++) c->powers[i] = exp(-alpha * c->log_tokens[i]);
  moments m = moments_of(c);
  switch (held->what) {
  case NOTHING:
  case ALPHA:
    fit_line(&m, &law);
    break;
  case FLOOR:
    law.floor = held->value;
    fit_amplitude(&m, &law);
    break;
  case TOKENS: /* value: ln D_c - unit */
    law.amplitude = exp(alpha * held->value);
    law.floor = fmax(0, (m.y - law.amplitude * m.x) / m.w);
    break;
  case LOSS:
    fit_through(&m, held, &law);
    break;
  }
  for (int i = 0; i < c->n; i++) {
    double r = c->loss[i] - law.amplitude * c->powers[i] - law.floor;
    law.sum += c->weight[i] * r * r;
  }
  if (!(law.sum < INFINITY)) law.sum = INFINITY;
  return law;
}

/* --- over alpha ------------------------------------------------------------------------------------------------- */

/* Finds the best law under a constraint: a grid over ln alpha, then golden sections around its best point. */
static candidate fit_profile(const curve *c, const constraint *held) {
  if (held->what == ALPHA) return fit_linear(c, held->value, held);
  double from = log(least_alpha), step = (log(most_alpha) - from) / GRID;
  candidate best = {.sum = INFINITY};
  int at = 0;
  for (int i = 0; i <= GRID; i++) {
    candidate law = fit_linear(c, exp(from + i * step), held);
    if (!(law.sum < best.sum)) continue;
    best = law;
    at = i;
  }
  double low = from + (at > 0 ? at - 1 : 0) * step, high = from + (at < GRID ? at + 1 : GRID) * step;
  double left = high - golden * (high - low), right = low + golden * (high - low);
  candidate a = fit_linear(c, exp(left), held), b = fit_linear(c, exp(right), held);
  while (high - low > 1e-6) {
    if (a.sum < b.sum) {
      high = right;
      right = left;
      b = a;
      left = high - golden * (high - low);
      a = fit_linear(c, exp(left), held);
    } else {
      low = left;
      left = right;
      a = b;
      right = low + golden * (high - low);
      b = fit_linear(c, exp(right), held);
    }
  }
  if (a.sum < best.sum) best = a;
  return b.sum < best.sum ? b : best;
}

/* --- robust weights -------------------------------------------------------------------------------------------- */

static void set_residuals(curve *c, const candidate *law) {
  for (int i = 0; i < c->n; i++)
    c->residual[i] = c->loss[i] - law->amplitude * exp(-law->alpha * c->log_tokens[i]) - law->floor;
}

/* Returns a point's deviation from the law, on the scale of points of precision 1. */
static double deviation(const curve *c, int i) {
  return c->residual[i] * sqrt(c->precision[i]);
}

/* Estimates the standard deviation from the median deviation; `powers` serves as scratch. */
static double scale_of(const curve *c, const candidate *law) {
  for (int i = 0; i < c->n; i++) c->powers[i] = fabs(deviation(c, i));
  double scale = ch_robust_scale(c->powers, c->n, PARAMETERS);
  return fmax(scale, rounding * (law->amplitude + law->floor));
}

/* Fits with Huber's estimator for the scale, then with the bisquare, which ignores outliers. */
static candidate fit_robust(curve *c, double *scale) {
  const constraint free_fit = {.what = NOTHING};
  for (int i = 0; i < c->n; i++) c->weight[i] = c->precision[i];
  candidate law = fit_profile(c, &free_fit);
  for (int phase = 0; phase < 2; phase++)
    for (int round = 0; round < ROUNDS; round++) {
      double alpha = law.alpha;
      set_residuals(c, &law);
      if (phase == 0 || round == 0) *scale = scale_of(c, &law);
      for (int i = 0; i < c->n; i++)
        c->weight[i] = c->precision[i] * ch_robust_weight(deviation(c, i) / *scale, phase == 1);
      law = fit_profile(c, &free_fit);
      if (fabs(law.alpha - alpha) <= 1e-7 * alpha) break;
    }
  set_residuals(c, &law);
  return law;
}

/* --- noise that grows with the loss ---------------------------------------------------------------------------- */

static double law_loss(const curve *c, const candidate *law, int i) {
  return law->amplitude * exp(-law->alpha * c->log_tokens[i]) + law->floor;
}

/* Returns twice the log likelihood of noise that is proportional to a power of the loss, with the tails of
 * Student's t for outliers. Expectation maximisation finds its scale. */
static double likelihood(const curve *c, const candidate *law, double power) {
  double last = law_loss(c, law, c->n - 1), sum = 0;
  double *size = c->powers; /* scratch */
  for (int i = 0; i < c->n; i++) {
    double ratio = law_loss(c, law, i) / last;
    size[i] = fabs(deviation(c, i)) * pow(ratio, -power);
    sum += 2 * power * log(ratio);
  }
  double scale = fmax(1.4826 * ch_median(size, c->n), rounding * last);
  for (int round = 0; round < ROUNDS; round++) {
    double square = 0;
    for (int i = 0; i < c->n; i++)
      square += (tails + 1) * size[i] * size[i] / (tails + size[i] * size[i] / (scale * scale));
    scale = fmax(sqrt(square / c->n), rounding * last);
  }
  for (int i = 0; i < c->n; i++)
    sum += (tails + 1) * log1p(size[i] * size[i] / (scale * scale * tails)) + 2 * log(scale);
  return -sum;
}

/* Returns the most likely power of the loss that the noise is proportional to, and sets the weights of the
 * points by it. */
static double settle_noise(curve *c, const candidate *law) {
  double power = 0, best = likelihood(c, law, 0);
  for (double p = 0.5; p <= 2; p += 0.5) {
    double found = likelihood(c, law, p);
    if (found <= best) continue;
    best = found;
    power = p;
  }
  double last = law_loss(c, law, c->n - 1);
  for (int i = 0; i < c->n; i++) c->precision[i] *= pow(law_loss(c, law, i) / last, -2 * power);
  return power;
}

/* --- intervals -------------------------------------------------------------------------------------------------- */

/* Returns the bisquare's psi of a point's deviation; 0 for outliers. */
static double pull(const curve *c, int i, double scale) {
  return deviation(c, i) / scale * c->weight[i] / c->precision[i];
}

/* Returns the correlation of the deviations of neighbouring points, corrected for the part that the fit
 * itself removes. */
static double correlation_of(const curve *c, double scale) {
  double product = 0, square = 0;
  for (int i = 0; i < c->n; i++) {
    square += pull(c, i, scale) * pull(c, i, scale);
    if (i > 0) product += pull(c, i, scale) * pull(c, i - 1, scale);
  }
  if (square <= 0) return 0;
  return fmin(fmax(product / square + (double)PARAMETERS / c->n, 0), 0.95);
}

/* A quantity whose values are tried. */
typedef struct trial {
  const curve *curve;
  const ch_robust_test *test;
  constraint held;
} trial;

static bool is_possible(void *context, double value) {
  trial *t = context;
  t->held.value = value;
  return ch_robust_passes(t->test, fit_profile(t->curve, &t->held).sum);
}

/* Returns the end of a quantity's confidence interval on the side of `limit`. */
static double reach(const curve *c, const ch_robust_test *test, constraint held, double from, double limit,
                    double step) {
  trial t = {c, test, held};
  return ch_robust_reach(is_possible, &t, from, limit, step);
}

static ch_estimate estimate_alpha(const curve *c, const ch_robust_test *t, double alpha) {
  constraint held = {.what = ALPHA};
  double low = reach(c, t, held, alpha, least_alpha, 0.01 * alpha);
  double high = reach(c, t, held, alpha, most_alpha, 0.01 * alpha);
  return (ch_estimate){alpha, low <= least_alpha ? 0 : low, high >= most_alpha ? INFINITY : high};
}

static ch_estimate estimate_tokens(const curve *c, const ch_robust_test *t, const candidate *law) {
  const double widest = 200; /* largest distance of ln D_c from its value that is tried */
  constraint held = {.what = TOKENS};
  double unit = c->unit, value = log(law->amplitude) / law->alpha;
  double low = reach(c, t, held, value, value - widest, 0.01),
         high = reach(c, t, held, value, value + widest, 0.01);
  return (ch_estimate){exp(value + unit), low <= value - widest ? 0 : exp(low + unit),
                       high >= value + widest ? INFINITY : exp(high + unit)};
}

static ch_estimate estimate_loss(const curve *c, const ch_robust_test *t, constraint held, double value,
                                 double highest) {
  double step = 1e-3 * highest;
  return (ch_estimate){value, value > 0 ? reach(c, t, held, value, 0, step) : 0,
                       reach(c, t, held, value, 2 * highest, step)};
}

/* Returns how much of the deviations from the law is a polynomial of ln D. A floor that is fixed at 0
 * explains nothing of the law. */
static double systematic_part(curve *c, const candidate *law, double scale) {
  double *columns = calloc((size_t)c->n * (PARAMETERS + SMOOTH + 1), sizeof *columns);
  if (!columns) return NAN;
  int n = c->n, smooth = (n - PARAMETERS) / 2 < SMOOTH ? (n - PARAMETERS) / 2 : SMOOTH;
  for (int i = 0; i < n; i++) {
    double x = c->log_tokens[i], root = sqrt(c->precision[i]), power = exp(-law->alpha * x);
    const double functions[] = {power, x * power, 1, x * x, x * x * x, x * x * x * x};
    for (int k = 0; k < PARAMETERS + smooth; k++) columns[k * n + i] = root * functions[k];
    c->powers[i] = deviation(c, i);
    c->residual[i] = ch_robust_weight(c->powers[i] / scale, true);
  }
  double part = ch_robust_systematic(n, c->powers, c->residual, columns,
                                     law->floor > 0 ? PARAMETERS : PARAMETERS - 1, PARAMETERS + smooth, true);
  free(columns);
  return part;
}

/* --- the fit ---------------------------------------------------------------------------------------------------- */

static ch_status check_curve(const double *tokens, const double *losses, int n, double budget,
                             ch_error *error) {
  if (n < CH_SCALING_LEAST_POINTS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "a law needs at least %d points of a loss curve; there are %d",
                   CH_SCALING_LEAST_POINTS, n < 0 ? 0 : n);
  for (int i = 0; i < n; i++) {
    if (!(tokens[i] > 0 && tokens[i] < 1e30 && losses[i] >= 0 && losses[i] < 1e30))
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "point %d is %g tokens with a loss of %g; tokens must be above 0, and losses 0 or more",
                     i + 1, tokens[i], losses[i]);
    if (i > 0 && tokens[i] <= tokens[i - 1])
      return ch_fail(error, CH_ERROR_ARGUMENT, "point %d has %g tokens after %g; they must rise", i + 1,
                     tokens[i], tokens[i - 1]);
  }
  if (budget != 0 && !(budget > 0 && budget < 1e30))
    return ch_fail(error, CH_ERROR_ARGUMENT, "the budget is %g tokens; it must be above 0", budget);
  return CH_OK;
}

/* Replaces groups of neighbours by their medians where there are many points; groups are smaller where their tokens
   would differ too much. */
static void thin(const double *tokens, const double *losses, int n, curve *c) {
  int usual = (n + MOST_POINTS - 1) / MOST_POINTS;
  for (int from = 0, count; from < n; from += count) {
    count = 1;
    while (count < usual && from + count < n && tokens[from + count] <= widest_group * tokens[from]) count++;
    for (int i = 0; i < count; i++) c->residual[i] = losses[from + i];
    int middle = from + (count - 1) / 2;
    double mean = count % 2 ? tokens[middle] : (tokens[middle] + tokens[middle + 1]) / 2;
    c->loss[c->n] = ch_median(c->residual, count);
    c->log_tokens[c->n] = log(mean);
    c->precision[c->n++] = (double)count / usual;
  }
  for (int p = 0; p < c->n; p++) c->unit += c->log_tokens[p] / c->n;
  for (int p = 0; p < c->n; p++) c->log_tokens[p] -= c->unit;
}

static ch_status fit(curve *c, double budget, ch_scaling_law *law, ch_error *error) {
  double scale = 0;
  candidate best = fit_robust(c, &scale);
  double fall =
      best.amplitude * (exp(-best.alpha * c->log_tokens[0]) - exp(-best.alpha * c->log_tokens[c->n - 1]));
  if (!(fall > 1e-9 * (best.floor + best.amplitude)))
    return ch_fail(error, CH_ERROR_ARGUMENT, "the losses do not fall with the tokens, so no law fits them");
  double power = settle_noise(c, &best);
  if (power > 0) best = fit_robust(c, &scale);
  double correlation = correlation_of(c, scale);
  /* The test uses the settled weights. `powers` and `residual` are overwritten. */
  for (int i = 0; i < c->n; i++) c->powers[i] = deviation(c, i) / scale;
  for (int i = 0; i < c->n; i++) c->residual[i] = c->weight[i] / c->precision[i];
  ch_robust_test t =
      ch_robust_make_test(c->n, PARAMETERS, c->powers, c->residual, scale, correlation, best.sum);
  double highest = c->loss[0];
  for (int i = 0; i < c->n; i++) highest = fmax(highest, c->loss[i]);
  *law = (ch_scaling_law){.alpha = estimate_alpha(c, &t, best.alpha),
                          .tokens = estimate_tokens(c, &t, &best),
                          .floor = estimate_loss(c, &t, (constraint){.what = FLOOR}, best.floor, highest),
                          .at = {NAN, NAN, NAN},
                          .budget = budget,
                          .noise = scale,
                          .noise_power = power,
                          .correlation = correlation,
                          .first = exp(c->log_tokens[0] + c->unit),
                          .last = exp(c->log_tokens[c->n - 1] + c->unit),
                          .points = c->n,
                          .log_unit = c->unit,
                          .amplitude = best.amplitude};
  for (int i = 0; i < c->n; i++) law->outliers += c->weight[i] < 0.5 * c->precision[i];
  constraint at = {.what = LOSS, .log_tokens = budget > 0 ? log(budget) - c->unit : 0};
  if (budget > 0) law->at = estimate_loss(c, &t, at, ch_predict_loss(law, budget), highest);
  set_residuals(c, &best);
  law->systematic = systematic_part(c, &best, scale);
  return isnan(law->systematic) ? ch_no_memory(error) : CH_OK;
}

ch_status ch_fit_scaling_law(const double *tokens, const double *losses, int n, double budget,
                             ch_scaling_law *law, ch_error *error) {
  CH_TRY(check_curve(tokens, losses, n, budget, error));
  double *memory = calloc((size_t)n * 6, sizeof *memory);
  if (!memory) return ch_no_memory(error);
  curve c = {.log_tokens = memory,
             .loss = memory + n,
             .weight = memory + 2 * (size_t)n,
             .powers = memory + 3 * (size_t)n,
             .residual = memory + 4 * (size_t)n,
             .precision = memory + 5 * (size_t)n};
  thin(tokens, losses, n, &c);
  ch_status status = fit(&c, budget, law, error);
  free(memory);
  return status;
}

double ch_predict_loss(const ch_scaling_law *law, double tokens) {
  return law->amplitude * exp(-law->alpha.value * (log(tokens) - law->log_unit)) + law->floor.value;
}
